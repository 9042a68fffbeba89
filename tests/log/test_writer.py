"""Appends: routed by key or in turn, checked, durable or reported."""

import os
import signal
from collections import Counter, defaultdict
from datetime import timedelta

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headwater import Log, Settings, Topic, embedded
from headwater.clock import Deadline, wait_until
from headwater.embedded.ports import a_free_port
from headwater.errors import (
    Closed,
    KeyMissing,
    NotAcknowledged,
    NoTransaction,
    OutcomeUnknown,
    PartitionsLost,
    RecordTooLarge,
    TransactionAborted,
    Unacknowledged,
    UnknownTopic,
    ValueMismatch,
    WriterFenced,
)


@pytest.fixture
def payments(log, name):
    topic = Topic(name, schema="card string, amount double", key="card", partitions=3)
    log.topics.create(topic)
    return topic


def eventually(condition):
    """A commit is decided when it returns; the broker's markers show it to readers a moment later."""
    return wait_until(condition, timedelta(seconds=10))


def amounts(log, topic):
    return sorted(record.value.amount for record in log.read(topic))


def test_records_of_one_key_keep_their_order_in_one_partition(log, payments):
    with log.writer() as writer:
        for number in range(300):
            writer.append(payments, {"card": f"card-{number % 7}", "amount": number})
    places, order = defaultdict(set), defaultdict(list)
    for record in log.read(payments):
        places[record.key].add(record.partition)
        order[record.key].append(record.value.amount)
    assert all(len(partitions) == 1 for partitions in places.values())
    assert all(found == sorted(found) for found in order.values())
    assert len(order) == 7


def test_a_key_stands_where_a_java_client_puts_it(log, payments):
    with log.writer() as writer:
        for number in range(50):
            writer.append(payments, {"card": f"card-{number}"})
    java = {record.key: murmur2(record.key) % 3 for record in log.read(payments)}
    assert {record.key: record.partition for record in log.read(payments)} == java


def test_records_without_a_key_go_round_the_partitions(log, name):
    topic = Topic(name, schema="n int", partitions=3)
    log.topics.create(topic)
    with log.writer() as writer:
        for number in range(30):
            writer.append(topic, {"n": number})
    assert Counter(record.partition for record in log.read(topic)) == {0: 10, 1: 10, 2: 10}


def test_headers_and_rows_arrive_as_they_were(log, payments):
    with log.writer() as writer:
        writer.append(payments, payments.row(card="42", amount=1.5), headers={"trace": b"abc"})
    (record,) = log.read(payments)
    assert (record.value, record.headers) == (payments.row(card="42", amount=1.5), [("trace", b"abc")])


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ({"amount": 1.0}, KeyMissing),
        ({"card": None, "amount": 1.0}, KeyMissing),
        ({"card": 42}, ValueMismatch),
        ({"card": "x" * 2_000_000}, RecordTooLarge),
    ],
)
def test_a_bad_record_is_refused_and_the_others_are_written(log, payments, value, error):
    with log.writer() as writer:
        writer.append(payments, {"card": "a", "amount": 1})
        with pytest.raises(error) as caught:
            writer.append(payments, value)
        writer.append(payments, {"card": "b", "amount": 2})
    assert caught.value.hint
    assert amounts(log, payments) == [1, 2]


def test_a_record_that_only_the_broker_finds_too_large_is_reported_whole(log, payments):
    log.topics.alter(payments.name, config={"max.message.bytes": "1000"})
    writer = log.writer()
    writer.append(payments, {"card": "x" * 5000})
    with pytest.raises(NotAcknowledged) as caught:
        writer.flush()
    (lost,) = caught.value.records
    assert (lost.topic, lost.key) == (payments.name, b"x" * 5000)


def test_an_unknown_topic_is_refused_before_anything_is_sent(log, name):
    with pytest.raises(UnknownTopic, match=name), log.writer() as writer:
        writer.append(Topic(name, schema="n int"), {"n": 1})
    assert name not in log.topics.names()


def test_a_tombstone_needs_a_key(log, payments, name):
    keyless = Topic(f"{name}-keyless", schema="n int")
    with log.writer() as writer:
        writer.delete(payments, "42")
        with pytest.raises(KeyMissing):
            writer.delete(keyless, "42")
    (record,) = log.read(payments)
    assert (record.key, record.value) == (b"42", None)


def test_a_committed_transaction_is_seen_whole_and_a_broken_one_not_at_all(log, payments):
    with log.writer(transactional_id=payments.name) as writer:
        with writer.transaction():
            writer.append(payments, {"card": "a", "amount": 1})
            writer.append(payments, {"card": "b", "amount": 2})
        with pytest.raises(ZeroDivisionError), writer.transaction():
            writer.append(payments, {"card": "a", "amount": 3})
            writer.append(payments, {"card": "b", "amount": 4 / 0})
        with writer.transaction():
            writer.append(payments, {"card": "a", "amount": 5})
    assert eventually(lambda: amounts(log, payments) == [1, 2, 5])


def test_a_bad_record_in_a_transaction_leaves_nothing_of_it(log, payments):
    with log.writer(transactional_id=payments.name) as writer:
        with pytest.raises(ValueMismatch), writer.transaction():
            writer.append(payments, {"card": "a", "amount": 1})
            writer.append(payments, {"card": "a", "amount": "much"})
    assert eventually(lambda: amounts(log, payments) == [])


def test_a_record_that_the_broker_refuses_rolls_the_transaction_back(log, payments):
    log.topics.alter(payments.name, config={"max.message.bytes": "1000"})
    with log.writer(transactional_id=payments.name) as writer:
        with pytest.raises((TransactionAborted, NotAcknowledged)), writer.transaction():
            writer.append(payments, {"card": "a", "amount": 1})
            writer.append(payments, {"card": "x" * 5000})
        with writer.transaction():
            writer.append(payments, {"card": "a", "amount": 2})
    assert eventually(lambda: amounts(log, payments) == [2])


def test_a_newer_writer_fences_the_older_and_rolls_back_what_it_left_open(log, payments):
    older = log.writer(transactional_id=payments.name)
    with pytest.raises(WriterFenced, match=payments.name), older.transaction():
        older.append(payments, {"card": "a", "amount": 1})
        newer = log.writer(transactional_id=payments.name)
        with newer.transaction():
            newer.append(payments, {"card": "a", "amount": 2})
    assert eventually(lambda: amounts(log, payments) == [2])


def test_transactions_and_appends_do_not_mix(log, payments):
    with pytest.raises(NoTransaction), log.writer() as writer, writer.transaction():
        pass
    with pytest.raises(NoTransaction), log.writer(transactional_id=payments.name) as writer:
        writer.append(payments, {"card": "a"})


@pytest.mark.parametrize("crash", [True, False])
def test_read_process_write_commits_positions_and_output_together(log, payments, name, crash):
    with log.writer() as writer:
        for number in range(20):
            writer.append(payments, {"card": "a", "amount": number})
    doubled = Topic(f"{name}-doubled", schema="amount double")
    log.topics.create(doubled)
    if crash:
        with pytest.raises(InterruptedError):
            double_once(log, payments, doubled, crash=True)
    double_once(log, payments, doubled, crash=False)
    assert eventually(lambda: amounts(log, doubled) == [2 * number for number in range(20)])
    assert {line.lag for line in log.lag(doubled.name) if line.lag is not None} == {0}


def double_once(log, source, target, *, crash):
    with log.join(target.name, source) as member, log.writer(transactional_id=target.name) as writer:
        taken = []
        while len(taken) < 20:
            taken += [record.value.amount for record in member.take(1.0)]
        with writer.transaction(reads=member):
            for amount in taken:
                writer.append(target, {"amount": 2 * amount})
            if crash:
                raise InterruptedError


def test_appending_waits_for_the_broker_and_drops_nothing(log, name):
    topic = Topic(name, schema="n int", partitions=2)
    log.topics.create(topic)
    with log.writer() as writer:
        for number in range(250_000):  # more than the client's buffer holds
            writer.append(topic, {"n": number})
    assert {record.value.n for record in log.read(topic)} == set(range(250_000))


@pytest.fixture
def fragile(tmp_path):
    """A log whose broker a test may kill."""
    settings = Settings(home=tmp_path, kafka_port=a_free_port())
    embedded.up(settings, [embedded.SERVERS["kafka"]], lambda *_: None)
    yield settings
    embedded.down(settings)


def kill_broker(settings):
    (kafka,) = (one for one in embedded.status(settings) if one.name == "kafka")
    os.kill(kafka.pid, signal.SIGKILL)


def test_a_broker_that_goes_away_in_mid_batch_leaves_every_record_acknowledged_or_reported(fragile):
    log, topic = Log.open(fragile), Topic("payments", schema="n int")
    log.topics.create(topic)
    writer = log.writer(deliver_within=timedelta(seconds=3))
    for number in range(1000):
        writer.append(topic, {"n": number})
    writer.flush()
    kill_broker(fragile)
    for number in range(1000, 1500):
        writer.append(topic, {"n": number})
    with pytest.raises(NotAcknowledged, match="500 records were not acknowledged") as caught:
        writer.flush()
    assert [record.value for record in caught.value.records][:1] == [b'{"n":1000}']
    embedded.up(fragile, [embedded.SERVERS["kafka"]], lambda *_: None)
    with log.writer() as again:
        for record in caught.value.records:
            again.append_bytes(record.topic, record.value, key=record.key)
    assert {record.value.n for record in log.read(topic)} == set(range(1500))


def test_a_broker_that_goes_away_in_a_transaction_leaves_nothing_of_it(fragile):
    log, topic = Log.open(fragile), Topic("payments", schema="n int")
    log.topics.create(topic)
    writer = log.writer(transactional_id="t", deliver_within=timedelta(seconds=4))
    with pytest.raises(TransactionAborted), writer.transaction():
        for number in range(100):
            writer.append(topic, {"n": number})
        kill_broker(fragile)
        writer.append(topic, {"n": 100})
    embedded.up(fragile, [embedded.SERVERS["kafka"]], lambda *_: None)
    with log.writer(transactional_id="t") as again, again.transaction():
        again.append(topic, {"n": 1000})
    assert eventually(lambda: [record.value.n for record in log.read(topic)] == [1000])


def murmur2(key: bytes) -> int:
    """Java's partitioner, written down again as an oracle (toPositive of murmur2, seed 0x9747b28c)."""
    mask, mixer = 0xFFFFFFFF, 0x5BD1E995
    found = 0x9747B28C ^ len(key)
    whole = len(key) // 4 * 4
    for at in range(0, whole, 4):
        word = int.from_bytes(key[at : at + 4], "little") * mixer & mask
        word = (word ^ word >> 24) * mixer & mask
        found = (found * mixer & mask) ^ word
    if rest := key[whole:]:
        found = (found ^ int.from_bytes(rest, "little")) * mixer & mask
    found = (found ^ found >> 13) * mixer & mask
    return (found ^ found >> 15) & 0x7FFFFFFF


def test_other_clients_read_what_we_wrote_and_we_read_theirs(log, system, payments):
    address = embedded.kafka_address(system)
    with log.writer() as writer:
        writer.append(payments, {"card": "ours", "amount": 1})
    other = Producer({"bootstrap.servers": address})
    other.produce(payments.name, b'{"card": "theirs", "amount": 2}', b"theirs")
    other.flush()
    assert amounts(log, payments) == [1, 2]
    consumer = Consumer({"bootstrap.servers": address, "group.id": "x", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(payments.name, one, 0) for one in range(3)])
    seen = {message.key() for message in consumer.consume(2, 10)}
    consumer.close()
    assert seen == {b"ours", b"theirs"}


def test_a_closed_writer_takes_nothing(log, payments):
    with log.writer() as writer:
        writer.append(payments, {"card": "a", "amount": 1})
    with pytest.raises(Closed):
        writer.append(payments, {"card": "a", "amount": 2})
    assert amounts(log, payments) == [1]


def test_a_failure_of_earlier_records_does_not_drop_the_one_in_hand(log, payments):
    with log.writer() as writer:
        writer._failed.append(Unacknowledged(payments.name, b"a", b"{}", "timed out"))
        with pytest.raises(NotAcknowledged) as caught:
            writer.append(payments, {"card": "a", "amount": 1})
    assert len(caught.value.records) == 1
    assert amounts(log, payments) == [1]


def test_the_error_of_the_block_comes_before_what_was_not_acknowledged(log, payments):
    log.topics.alter(payments.name, config={"max.message.bytes": "1000"})
    with pytest.raises(ZeroDivisionError) as caught, log.writer() as writer:
        writer.append(payments, {"card": "x" * 5000})
        _ = 1 / 0
    assert "1 records were not acknowledged" in caught.value.__notes__[0]


@pytest.mark.parametrize(
    ("kind", "good", "stored", "bad"),
    [
        ("long", 42, b"42", [True, 42.0, "42", [1]]),
        ("string", "42", b"42", [42, b"42"]),
        ("binary", bytearray(b"ab"), b"ab", ["ab", 1]),
    ],
)
def test_a_key_is_of_its_columns_type_in_appends_and_in_tombstones(log, name, kind, good, stored, bad):
    topic = Topic(name, schema=f"k {kind}", key="k")
    log.topics.create(topic)
    with log.writer() as writer:
        writer.append(topic, {"k": good})
        writer.delete(topic, good)
        for key in bad:
            with pytest.raises(ValueMismatch):
                writer.delete(topic, key)
    assert [record.key for record in log.read(topic)] == [stored, stored]


def test_specs_that_take_turns_still_go_round_the_partitions(log, name):
    one, two = (Topic(name, schema=f"n {kind}", partitions=3) for kind in ("int", "long"))
    log.topics.create(one)
    with log.writer() as writer:
        for number in range(9):
            writer.append((one, two)[number % 2], {"n": number})
    assert Counter(record.partition for record in log.read(one)) == {0: 3, 1: 3, 2: 3}


def test_after_a_rolled_back_transaction_the_same_records_come_again(log, payments, name):
    with log.writer() as writer:
        for number in range(20):
            writer.append(payments, {"card": "a", "amount": number})
    copy = Topic(f"{name}-copy", schema="amount double")
    log.topics.create(copy)

    def copy_some(*, fail):
        with writer.transaction(reads=member):
            taken = [record.value.amount for record in member.take(0.5)]
            for amount in taken:
                writer.append(copy, {"amount": amount})
            if taken and fail:
                raise InterruptedError
        return len(taken)

    with log.join(name, payments) as member, log.writer(transactional_id=name) as writer:
        for _ in range(2):
            with pytest.raises(InterruptedError):
                while True:
                    copy_some(fail=True)
        done, deadline = 0, Deadline(timedelta(seconds=60))
        while done < 20 and not deadline.passed:
            done += copy_some(fail=False)
    assert eventually(lambda: amounts(log, copy) == list(range(20)))


def test_a_member_that_lost_its_partitions_rolls_back_and_the_writer_goes_on(log, payments, name):
    with log.writer() as writer:
        writer.append(payments, {"card": "a", "amount": 1})
    with log.join(name, payments) as member, log.writer(transactional_id=name) as writer:
        assert eventually(lambda: list(member.take(0.2)))
        stale, offsets = member.metadata(), member.next_offsets()
        member.close()
        with log.join(name, payments) as other:
            assert eventually(lambda: other.assignment() or list(other.take(0.2)))
            member.metadata, member.next_offsets, member.rewind = lambda: stale, lambda: offsets, lambda: None
            with pytest.raises(PartitionsLost), writer.transaction(reads=member):
                writer.append(payments, {"card": "a", "amount": 2})
        with writer.transaction():
            writer.append(payments, {"card": "a", "amount": 3})
    assert eventually(lambda: amounts(log, payments) == [1, 3])


def test_a_commit_without_an_answer_is_of_unknown_outcome_and_a_new_writer_settles_it(fragile):
    log, topic = Log.open(fragile), Topic("payments", schema="n int")
    log.topics.create(topic)
    (kafka,) = (one for one in embedded.status(fragile) if one.name == "kafka")
    writer = log.writer(transactional_id="t", deliver_within=timedelta(seconds=5))
    with pytest.raises(OutcomeUnknown), writer.transaction():
        writer.append(topic, {"n": 1})
        writer.flush()
        os.kill(kafka.pid, signal.SIGSTOP)
    with pytest.raises(OutcomeUnknown, match="never settled"), writer.transaction():
        pass
    os.kill(kafka.pid, signal.SIGCONT)
    with log.writer(transactional_id="t") as again, again.transaction():
        again.append(topic, {"n": 2})
    assert eventually(lambda: [record.value.n for record in log.read(topic)] in ([1, 2], [2]))
