"""Appends: routed by key or in turn, checked, durable or reported."""

from collections import Counter, defaultdict
from datetime import timedelta

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headwater import Log, Topic, embedded
from headwater.errors import (
    Closed,
    KeyMissing,
    NotAcknowledged,
    RecordTooLarge,
    Unacknowledged,
    UnknownTopic,
    ValueMismatch,
)
from tests.log.writing import amounts, kill_broker


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


def test_appending_waits_for_the_broker_and_drops_nothing(log, name):
    topic = Topic(name, schema="n int", partitions=2)
    log.topics.create(topic)
    with log.writer() as writer:
        for number in range(250_000):  # more than the client's buffer holds
            writer.append(topic, {"n": number})
    assert {record.value.n for record in log.read(topic)} == set(range(250_000))


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
