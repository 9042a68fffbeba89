"""Groups: shared work, rebalance, committed offsets, lag as Kafka itself sees it."""

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta

import pytest
from confluent_kafka import Consumer

from headwater import Beginning, End, Offset, Since, Topic, embedded
from headwater.clock import Deadline, now, wait_until
from headwater.embedded.jars import class_path, fetch
from headwater.embedded.java import java
from headwater.errors import GroupActive, OffsetOutOfRange, SpecError, UnknownGroup, UnknownTopic
from headwater.log.lag import PartitionLag, with_trend
from headwater.log.positions import Positions

SECONDS = timedelta(seconds=1)


@pytest.fixture
def numbers(log, name):
    topic = Topic(name, schema="n int", partitions=4)
    log.topics.create(topic)
    with log.writer() as writer:
        for number in range(400):
            writer.append(topic, {"n": number})
    return topic


def take(member, count, within=30):
    """The next `count` records of a member."""
    taken, deadline = [], Deadline(within * SECONDS)
    while len(taken) < count and not deadline.passed:
        taken += member.take(0.2)
    return taken


def test_groups_read_at_their_own_pace(log, numbers, name):
    with log.join(f"{name}-a", numbers) as fast, log.join(f"{name}-b", numbers) as slow:
        assert len(take(fast, 400)) == 400
        fast.commit()
        assert len({record.value.n for record in take(slow, 400)}) == 400
        assert sum(line.behind for line in log.lag(f"{name}-a")) == 0
        assert sum(line.behind for line in log.lag(f"{name}-b")) == 400


def test_a_member_goes_on_where_the_group_committed(log, numbers, name):
    with log.join(name, numbers) as member:
        first = take(member, 400)
        member.commit()
    with log.writer() as writer:
        for number in range(400, 410):
            writer.append(numbers, {"n": number})
    with log.join(name, numbers) as member:
        second = take(member, 10)
    assert {record.value.n for record in first} == set(range(400))
    assert {record.value.n for record in second} == set(range(400, 410))


def test_without_a_commit_everything_comes_again(log, numbers, name):
    for _ in range(2):
        with log.join(name, numbers) as member:
            assert len(take(member, 400)) == 400


def test_members_share_the_partitions_and_take_over_from_one_that_leaves(log, numbers, name):
    changes = []

    def told(what):
        return lambda _, partitions: changes.append((what, len(partitions)))

    with log.join(name, numbers, on_assign=told("assigned"), on_revoke=told("revoked")) as one:
        take(one, 400)
        assert len(one.assignment()) == 4
        with log.join(name, numbers) as two:

            def shared():
                return (len(list(one.take(0.05))), len(list(two.take(0.05)))) and (
                    len(one.assignment()) == len(two.assignment()) == 2
                )

            assert wait_until(shared, 20 * SECONDS)
        assert wait_until(lambda: not list(one.take(0.05)) and len(one.assignment()) == 4, 20 * SECONDS)
    assert ("assigned", 4) in changes
    assert ("revoked", 2) in changes


MEMBER = """
import sys
from pathlib import Path
from headwater import Log, Settings
log = Log.open(Settings(kafka=sys.argv[1]))
with log.join(sys.argv[3], sys.argv[2]) as member:
    for record in member:
        print(record.partition, record.offset, flush=True)
"""


def test_a_killed_members_records_go_to_another(log, system, numbers, name):
    address = embedded.kafka_address(system)
    command = [sys.executable, "-c", MEMBER, address, numbers.name, name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline()
        os.kill(child.pid, signal.SIGKILL)
    with log.join(name, numbers) as member:
        assert {record.value.n for record in take(member, 400, within=60)} == set(range(400))


def test_a_group_is_moved_to_any_place_while_nobody_reads(log, numbers, name):
    with log.join(name, numbers) as member:
        take(member, 400)
        member.commit()
        with pytest.raises(GroupActive, match="has members"):
            log.groups.reset(name, numbers.name, Beginning())
    moment = now()
    assert log.groups.reset(name, numbers.name, Offset(10)) == dict.fromkeys(range(4), 10)
    assert sum(line.lag for line in log.lag(name)) == 360
    assert log.groups.reset(name, numbers.name, Beginning()) == dict.fromkeys(range(4), 0)
    assert log.groups.reset(name, numbers.name, Since(moment)) == dict.fromkeys(range(4), 100)
    assert log.groups.reset(name, numbers.name, End()) == dict.fromkeys(range(4), 100)
    assert sum(line.lag for line in log.lag(name)) == 0


def test_a_deleted_group_is_forgotten(log, numbers, name):
    with log.join(name, numbers) as member:
        take(member, 400)
        member.commit()
    assert name in log.groups.names()
    log.groups.delete(name)
    with pytest.raises(UnknownGroup, match=name):
        log.groups.describe(name)


def test_what_is_not_there_is_named(log, name):
    with pytest.raises(UnknownGroup, match="there is no group"):
        log.lag(name)
    with pytest.raises(UnknownGroup):
        log.groups.reset(name, "x", Beginning())
    with pytest.raises(UnknownTopic):
        log.join(name, "nowhere")


def kafkas_own_word(system, group):
    """What Kafka's own tool says of a group: (topic, partition) -> (committed, end, lag)."""
    jars = fetch("kafka", system, lambda *_: None)
    tool = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    said = subprocess.run(
        [java(system), "-cp", class_path(jars), tool, "--bootstrap-server", embedded.kafka_address(system)]
        + ["--describe", "--group", group],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    rows = re.findall(rf"^{re.escape(group)}\s+(\S+)\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)", said, re.MULTILINE)
    return {(topic, int(partition)): tuple(map(int, rest)) for topic, partition, *rest in rows}


def ours(log, group):
    lines = [line for line in log.lag(group) if line.lag is not None]
    return {(line.topic, line.partition): (line.committed, line.end, line.lag) for line in lines}


def test_lag_is_what_kafkas_own_tool_says(log, system, numbers, name):
    with log.join(name, numbers) as member:
        take(member, 250)
        member.commit()
    with log.writer(transactional_id=name) as writer, writer.transaction():
        writer.append(numbers, {"n": 0})
    # the marker of the transaction takes an offset too, a moment after the commit
    assert wait_until(lambda: ours(log, name) == kafkas_own_word(system, name), 30 * SECONDS)
    assert len(ours(log, name)) > 0


def test_lag_of_a_group_made_by_another_client_is_the_same_too(log, system, numbers, name):
    config = {"bootstrap.servers": embedded.kafka_address(system), "auto.offset.reset": "earliest"}
    other = Consumer({**config, "group.id": name, "group.protocol": "consumer"})
    other.subscribe([numbers.name])
    seen = 0
    deadline = Deadline(30 * SECONDS)
    while seen < 100 and not deadline.passed:
        seen += sum(message.error() is None for message in other.consume(100 - seen, 1.0))
    other.commit(asynchronous=False)
    other.close()
    assert ours(log, name) == kafkas_own_word(system, name)
    assert sum(lag for _, _, lag in ours(log, name).values()) + 100 >= 100


def test_lag_of_a_group_made_by_a_java_client_is_the_same_too(log, system, numbers, name):
    jars = fetch("kafka", system, lambda *_: None)
    subprocess.run(
        [java(system), "-cp", class_path(jars), "org.apache.kafka.tools.consumer.ConsoleConsumer"]
        + ["--bootstrap-server", embedded.kafka_address(system), "--topic", numbers.name, "--group", name]
        + ["--from-beginning", "--max-messages", "150", "--timeout-ms", "20000"],
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert ours(log, name) == kafkas_own_word(system, name)
    assert sum(lag for _, _, lag in ours(log, name).values()) == 250


def test_a_partition_without_a_commit_counts_as_wholly_unread(log, numbers, name):
    with log.join(name, numbers) as member:
        taken = take(member, 1)
        member.commit()
    lines = {line.partition: line for line in log.lag(name)}
    assert len(lines) == 4
    unread = [line for line in lines.values() if line.committed is None]
    assert all((line.lag, line.behind) == (None, 100) for line in unread)
    assert taken


def test_the_trend_is_the_change_a_second():
    before = PartitionLag(group="g", topic="t", partition=0, committed=0, end=10, lag=10, behind=10)
    after = PartitionLag(group="g", topic="t", partition=0, committed=0, end=40, lag=40, behind=40)
    new = PartitionLag(group="g", topic="t", partition=1, committed=0, end=40, lag=40, behind=40)
    grown, unknown = with_trend([before], [after, new], seconds=2)
    assert (grown.trend, unknown.trend) == (15.0, None)
    assert json.dumps(grown.trend)


def test_a_loop_that_is_left_and_taken_up_again_skips_nothing(log, numbers, name):
    seen = []
    with log.join(name, numbers) as member:
        for _ in range(3):
            for record in member:
                seen.append(record.value.n)
                break
        member.commit()
    with log.join(name, numbers) as member:
        seen += [record.value.n for record in take(member, 397)]
    assert sorted(seen) == list(range(400))


def test_a_failing_handler_does_not_count_its_record_as_done(log, numbers, name):
    def fail_at(number):
        for record in member:
            if record.value.n == number:
                raise RuntimeError

    with pytest.raises(RuntimeError):
        with log.join(name, numbers, on_revoke=lambda one, _: one.commit()) as member:
            fail_at(7)
    with log.join(name, numbers) as member:
        assert 7 in {record.value.n for record in take(member, 400)}


def test_a_failing_callback_is_told_and_loses_nothing(log, numbers, name):
    def fail(*_):
        raise InterruptedError

    with log.join(name, numbers, on_assign=fail) as member:
        with pytest.raises(InterruptedError):
            take(member, 400)
        assert {record.value.n for record in take(member, 400)} == set(range(400))


def test_rewound_records_come_again(log, numbers, name):
    with log.join(name, numbers) as member:
        take(member, 400)
        member.rewind()
        assert {record.value.n for record in take(member, 400)} == set(range(400))


def test_a_group_that_starts_at_the_end_keeps_that_place_from_its_first_moment_on(log, numbers, name):
    with log.join(name, numbers, start="end") as member:
        assert wait_until(lambda: not list(member.take(0.1)) and member.assignment(), 20 * SECONDS)
    with log.writer() as writer:
        writer.append(numbers, {"n": 1000})
    with log.join(name, numbers, start="end") as member:
        assert [record.value.n for record in take(member, 1)] == [1000]
    with pytest.raises(SpecError, match="beginning or the end, not at 'earliest'"):
        log.join(name, numbers, start="earliest")


def test_a_group_that_retention_has_overtaken_is_told(log, name):
    topic = Topic(name, schema="n int")
    log.topics.create(topic)
    log.topics.alter(name, config={"retention.ms": "1", "segment.ms": "1"})

    def append():
        with log.writer() as writer:
            writer.append(topic, {"n": 1})

    append()
    with log.join(name, topic) as member:
        take(member, 1, within=5)
        member.commit()
    (before,) = log.groups.committed(name).values()

    def overtaken():
        append()
        return Positions(log._connection).first(name, [0])[0] > before

    assert wait_until(overtaken, 30 * SECONDS, pause=0.2)
    with log.join(name, topic) as member, pytest.raises(OffsetOutOfRange, match="lost records"):
        take(member, 1)


def test_lag_comes_to_nought_where_the_log_ends_with_markers_of_transactions(log, numbers, name):
    with log.writer(transactional_id=name) as writer:
        for _ in range(3):
            with writer.transaction():
                writer.append(numbers, {"n": 0})

    def nothing_left():
        list(member.take(0.1))
        member.commit()
        return {line.lag for line in log.lag(name)} == {0}

    with log.join(name, numbers) as member:
        assert wait_until(nothing_left, 20 * SECONDS)


def test_a_reset_that_the_broker_refuses_is_not_called_done(log, numbers, name, monkeypatch):
    with log.join(name, numbers) as member:
        take(member, 400)
        member.commit()
        nobody = replace(log.groups.describe(name), members=())
        monkeypatch.setattr(log.groups, "describe", lambda _: nobody)  # it joined after our look
        with pytest.raises(GroupActive, match="could not be moved"):
            log.groups.reset(name, numbers.name, Beginning())


def test_a_topic_deleted_under_its_readers_does_not_hide_the_lag_of_others(log, numbers, name):
    gone = Topic(f"{name}-gone", schema="n int")
    log.topics.create(gone)
    with log.join(name, numbers, gone) as member:
        take(member, 400)
        log.topics.delete(gone.name)
        assert {line.topic for line in log.lag(name)} == {numbers.name}
