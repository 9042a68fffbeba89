"""Settling: every bad record has one letter, whatever crashes between the batch and its settling."""

import json
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from threading import Event, Thread
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from pyspark.sql import DataFrame, SparkSession

from headwater import Log, Settings, Topic, embedded
from headwater.app import Source
from headwater.clock import wait_until
from headwater.errors import BrokerRefused, BrokerUnreachable, HeadwaterError, OutcomeUnknown, WriterFenced
from headwater.log import transaction
from headwater.log.connection import Connection
from headwater.log.letter import Letter, dead_topic
from headwater.log.positions import Positions
from headwater.log.transaction import Transactions
from headwater.log.transfer import Transfer
from headwater.run import letters, settle
from headwater.run.decode import parsed
from headwater.run.judge import RegistryAddress, judge_of
from headwater.run.settle import Settlement

pytestmark = pytest.mark.system
SHORT = timedelta(seconds=5)


@pytest.fixture
def topic(log: Log, name: str) -> Topic:
    made = Topic(name, schema="n int NOT NULL", partitions=2)
    log.topics.create(made)
    return made


@contextmanager
def settling(topic: Topic, spark: Any, settings: Settings, **more: Any) -> Iterator[Settlement]:
    made = Settlement(f"bank.{topic.name}", [Source(topic, **more)], spark, settings, within=SHORT)
    try:
        yield made
    finally:
        made.close()


def fill(log: Log, topic: Topic, count: int, *, bad: int) -> dict[str, dict[int, int]]:
    """Append good records and bad ones in turn; tells where the log ends."""
    with log.writer() as writer:
        for number in range(max(count, bad)):
            if number < count:
                writer.append(topic, {"n": number})
            if number < bad:
                writer.append_bytes(topic.name, b"bad", headers={"h": b"1"})
    return ends(log, topic)


def ends(log: Log, topic: Topic) -> dict[str, dict[int, int]]:
    return {topic.name: Positions(log._connection).end(topic.name, range(2))}


def buried(log: Log, topic: Topic) -> list[Letter]:
    """The letters that a committed reader sees, when the broker has decided on all of them."""
    dead = dead_topic(topic.name)
    assert wait_until(lambda: is_decided(log, dead), timedelta(seconds=20))
    return [letter for record in log.read(dead) if (letter := Letter.read(record))]


def is_decided(log: Log, topic: str) -> bool:
    positions, partitions = Positions(log._connection), range(log.topics.partitions(topic))
    return positions.end(topic, partitions, committed=True) == positions.end(topic, partitions)


def assert_once(log: Log, topic: Topic, bad: int) -> None:
    """Every bad record of the topic has one letter, and nothing else has."""
    found = Counter((one.partition, one.offset) for one in buried(log, topic))
    expected = [(one.partition, one.offset) for one in log.read(topic.name) if one.data == b"bad"]
    assert (len(expected), found) == (bad, Counter(expected))


def committed(log: Log, topic: Topic) -> dict[int, int]:
    found = log.groups.committed(f"bank.{topic.name}")
    return {where.partition: at for where, at in found.items() if where.topic == topic.name}


def read_here(_: object, topic: Topic, ranges: Any, settings: Settings, pipeline: str) -> Iterator[Letter]:
    """What Spark does, without Spark: the bad records of these ranges."""
    judge = judge_of(topic, RegistryAddress())
    for record in Log.open(settings).read(topic.name):
        start, end = ranges.get(record.partition, (0, 0))
        if start <= record.offset < end and (reason := judge._judge(record.data)[1]):
            place = {"topic": topic.name, "partition": record.partition, "offset": record.offset}
            what = {"timestamp": record.appended_at, "key": record.key, "value": record.data}
            yield Letter(**place, **what, headers=record.headers, reason=reason, pipeline=pipeline)  # type: ignore[arg-type]


def test_bad_records_become_letters_and_the_group_stands_at_the_end(
    log: Log, system: Settings, spark: SparkSession, topic: Topic
) -> None:
    end = fill(log, topic, 50, bad=5)
    with settling(topic, spark, system) as ours:
        assert ours.starts() == {topic.name: {0: 0, 1: 0}}
        assert ours.is_at({topic.name: {0: 0, 1: 0}})
        assert not ours.is_at(end)
        assert ours.settle(end, clean=False) == 5
        assert ours.is_at(end)
        assert ours.settle(end, clean=False) == 0
    assert_once(log, topic, 5)
    assert committed(log, topic) == end[topic.name]
    one = buried(log, topic)[0]
    assert (one.value, one.headers, one.pipeline) == (b"bad", [("h", b"1")], f"bank.{topic.name}")
    assert "is not json" in one.reason


def test_a_clean_batch_moves_the_group_and_reads_nothing_again(
    log: Log, system: Settings, topic: Topic
) -> None:
    end = fill(log, topic, 10, bad=0)
    with settling(topic, None, system) as ours:  # without Spark: nothing can be read
        assert ours.settle(end, clean=True) == 0
        assert committed(log, topic) == end[topic.name]
    assert buried(log, topic) == []


def test_a_crash_between_batch_and_settling_is_caught_up(
    log: Log, system: Settings, spark: SparkSession, topic: Topic
) -> None:
    with settling(topic, spark, system) as first:
        first.settle(fill(log, topic, 10, bad=2), clean=False)
        unsettled = fill(log, topic, 10, bad=3)
    end = fill(log, topic, 10, bad=0)
    with settling(topic, spark, system) as second:
        assert not second.is_at(unsettled)
        assert second.settle(end, clean=False) == 3
    assert_once(log, topic, 5)


def test_a_range_larger_than_a_transaction_is_settled_in_several(
    log: Log, system: Settings, spark: SparkSession, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settle, "AT_ONCE", 120)
    monkeypatch.setattr(letters, "PIECE", 25)
    moves: list[Mapping[Any, int]] = []
    begin = Transfer.transaction

    def counted(self: Transfer, places: Any) -> Any:
        moves.append(places)
        return begin(self, places)

    monkeypatch.setattr(Transfer, "transaction", counted)
    end = fill(log, topic, 40, bad=200)
    with settling(topic, spark, system) as ours:
        ours.starts()
        moves.clear()
        assert ours.settle(end, clean=False) == 200
    assert len(moves) in (2, 3)  # records without a key go round the partitions
    assert_once(log, topic, 200)
    places = [(one.partition, one.offset) for one in buried(log, topic)]
    for partition in (0, 1):
        mine = [offset for where, offset in places if where == partition]
        assert mine == sorted(mine)


def test_what_retention_removed_is_counted_and_stops_nothing(
    log: Log, system: Settings, spark: SparkSession, topic: Topic, caplog: pytest.LogCaptureFixture
) -> None:
    with settling(topic, spark, system) as ours:
        ours.starts()
        end = fill(log, topic, 20, bad=20)
        removed = {one: at // 2 for one, at in end[topic.name].items()}
        wanted = [TopicPartition(topic.name, one, at) for one, at in removed.items()]
        for future in log._connection.admin.delete_records(wanted).values():
            future.result(10)
        ours.settle(end, clean=False)
        assert ours.lost == sum(removed.values())
    assert f"{ours.lost} records of {topic.name} were removed" in caplog.text
    assert_once(log, topic, sum(one.data == b"bad" for one in log.read(topic.name)))
    assert committed(log, topic) == end[topic.name]


def test_the_end_is_the_moment_of_the_first_start(log: Log, system: Settings, topic: Topic) -> None:
    first = fill(log, topic, 4, bad=0)
    with settling(topic, None, system, start="end") as ours:
        assert ours.starts() == first
    fill(log, topic, 4, bad=0)
    with settling(topic, None, system, start="end") as again:
        assert again.starts() == first


def test_partitions_that_are_added_are_settled_from_their_beginning(
    log: Log, system: Settings, topic: Topic
) -> None:
    with settling(topic, None, system, start="end") as ours:
        ours.starts()
        log.topics.alter(topic.name, partitions=3)
        assert ours.is_at({topic.name: {2: 0}})
        assert ours.settle({topic.name: {0: 0, 1: 0, 2: 0}}, clean=True) == 0
    with settling(topic, None, system, start="end") as again:
        assert again.starts() == {topic.name: {0: 0, 1: 0, 2: 0}}


def test_a_topic_that_was_made_anew_starts_over(log: Log, system: Settings, topic: Topic) -> None:
    with settling(topic, None, system) as ours:
        ours.settle(fill(log, topic, 10, bad=0), clean=True)
    log.topics.delete(topic.name)
    log.topics.create(topic)
    with settling(topic, None, system) as again:
        assert again.starts() == {topic.name: {0: 0, 1: 0}}


def test_two_drivers_that_settle_at_once_write_each_letter_once(
    log: Log, system: Settings, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settle, "bad_records", read_here)
    monkeypatch.setattr(settle, "AT_ONCE", 20)
    end = fill(log, topic, 50, bad=50)
    ended: list[str] = []

    def drive() -> None:
        with settling(topic, None, system) as ours:
            try:
                ours.settle(end, clean=False)
                ended.append("settled")
            except WriterFenced:
                ended.append("fenced")

    drivers = [Thread(target=drive) for _ in range(3)]
    for one in drivers:
        one.start()
    for one in drivers:
        one.join(60)
    assert len(ended) == 3
    assert "settled" in ended
    assert_once(log, topic, 50)


def test_an_older_driver_is_fenced_by_a_newer_one(
    log: Log, system: Settings, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settle, "bad_records", read_here)
    end = fill(log, topic, 4, bad=4)
    with settling(topic, None, system) as older, settling(topic, None, system) as newer:
        older.starts()
        assert newer.settle(end, clean=False) == 4
        with pytest.raises(WriterFenced):
            older.settle(end, clean=False)
    assert_once(log, topic, 4)


CHILD = """
import os, signal, sys
from headwater import Settings, Topic
from headwater.app import Source
from headwater.log.transaction import Transactions
from headwater.log.transaction import Transactions
from headwater.log.transfer import Transfer
from headwater.run import settle
from tests.run.test_settle import read_here
address, name, ends, point = sys.argv[1:]
settle.bad_records = read_here
settle.AT_ONCE = 20
def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
commit, append, count = Transactions.commit, Transfer.append, iter(range(99))
def committed(self):
    if point == "before the commit":
        self._producer.flush(10)
        die()
    commit(self)
    die()
def appended(self, *given, **more):
    append(self, *given, **more)
    if next(count) == 3:
        self._producer.flush(10)
        die()
topic = Topic(name, schema="n int NOT NULL", partitions=2)
ours = settle.Settlement(f"bank.{name}", [Source(topic)], None, Settings(kafka=address))
ours.starts()
if point == "among the letters":
    Transfer.append = appended
else:
    Transactions.commit = committed
ours.settle({name: dict(enumerate(map(int, ends.split(","))))}, clean=False)
"""


@pytest.mark.parametrize("point", ["among the letters", "before the commit", "after the commit"])
def test_settling_that_is_killed_is_finished_by_the_next_driver(
    log: Log, system: Settings, topic: Topic, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settle, "bad_records", read_here)
    end = fill(log, topic, 20, bad=20)
    places = ",".join(str(end[topic.name][one]) for one in (0, 1))
    command = [sys.executable, "-c", CHILD, embedded.kafka_address(system) or "", topic.name, places, point]
    killed = subprocess.run(command, check=False, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    with settling(topic, None, system) as ours:
        ours.settle(end, clean=False)
    assert_once(log, topic, 20)
    assert committed(log, topic) == end[topic.name]


@pytest.mark.parametrize("went_through", [True, False])
def test_a_commit_without_an_answer_is_looked_up(
    log: Log, system: Settings, topic: Topic, monkeypatch: pytest.MonkeyPatch, went_through: bool
) -> None:
    monkeypatch.setattr(settle, "bad_records", read_here)
    end = fill(log, topic, 4, bad=4)
    failures = [OutcomeUnknown("the answer did not come")]
    begin = Transfer.transaction

    @contextmanager
    def unanswered(self: Transfer, places: Any) -> Iterator[Transfer]:
        with suppress(ZeroDivisionError), begin(self, places):
            yield self
            if failures and not went_through:
                raise ZeroDivisionError
        if failures:
            raise failures.pop()

    with settling(topic, None, system) as ours:
        ours.starts()
        monkeypatch.setattr(Transfer, "transaction", unanswered)
        assert ours.settle(end, clean=False) == 4
    assert not failures
    assert_once(log, topic, 4)


def test_a_client_that_never_returns_is_left_behind(
    log: Log, system: Settings, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settle, "bad_records", read_here)
    end, released = fill(log, topic, 4, bad=4), Event()
    hung: list[Transactions] = []
    ask = Transactions._ask_to_send

    def hangs_once(self: Transactions, *given: Any) -> None:
        if not hung:
            hung.append(self)
            released.wait(60)
        else:
            ask(self, *given)

    with settling(topic, None, system) as ours:
        ours.starts()
        monkeypatch.setattr(transaction, "SEND_WITHIN", timedelta(seconds=1))
        monkeypatch.setattr(Transactions, "_ask_to_send", hangs_once)
        assert ours.settle(end, clean=False) == 4
    released.set()
    assert hung
    assert_once(log, topic, 4)


@pytest.mark.parametrize(
    ("error", "tries"), [(BrokerUnreachable("away"), 99), (BrokerRefused("it may not write"), 1)]
)
def test_a_broker_that_stays_away_ends_it_with_that_error(
    system: Settings, topic: Topic, monkeypatch: pytest.MonkeyPatch, error: HeadwaterError, tries: int
) -> None:
    asked: list[object] = []

    def away(*given: object, **_: object) -> None:
        asked.append(given)
        raise error

    monkeypatch.setattr(Transfer, "__init__", away)
    ours = Settlement("bank.x", [Source(topic)], None, system, within=timedelta(seconds=1))  # type: ignore[arg-type]
    with pytest.raises(type(error)):
        ours.settle({topic.name: {0: 1}}, clean=True)
    assert 1 <= len(asked) <= tries
    assert (len(asked) > 1) == (tries > 1)


def test_good_and_dead_are_all_in_a_stream_with_ten_thousand_random_byte_strings(
    log: Log, system: Settings, spark: SparkSession, topic: Topic, tmp_path: Any
) -> None:
    chance, good = random.Random(3), 5_000
    with log.writer() as writer:
        for number in range(10_000):
            writer.append_bytes(topic.name, chance.randbytes(chance.randrange(30)))
            if number < good:
                writer.append(topic, {"n": number})
    seen: Counter[int] = Counter()
    told: list[dict[str, Any]] = []
    source = Source(topic, record=True)
    with settling(topic, spark, system) as ours:
        start = json.dumps(ours.starts())
        raw = spark.readStream.format("kafka").options(**Connection(system).for_spark(), subscribe=topic.name)
        rows = parsed(raw.options(startingOffsets=start, maxOffsetsPerTrigger=6_000).load(), source, system)

        def take(batch: DataFrame, _: int) -> None:
            seen.update(row.n for row in batch.where("_record.offset >= 0").select("n").collect())

        query = rows.writeStream.foreachBatch(take).trigger(availableNow=True)
        running = query.option("checkpointLocation", str(tmp_path)).start()
        assert running.awaitTermination(60)
        told += [json.loads(one.json) for one in running.recentProgress]
        written = 0
        for one in told:
            (place,) = one["sources"]
            written += ours.settle(as_offsets(place["endOffset"]), clean=False)
    counts = [one["observedMetrics"][f"dead.{topic.name}"] for one in told]
    assert sum(one["seen"] for one in counts) == 15_000
    assert sum(one["dead"] for one in counts) == written == len(buried(log, topic)) == 10_000
    assert seen == Counter(range(good))


def as_offsets(told: Mapping[str, Mapping[str, int]]) -> dict[str, dict[int, int]]:
    return {topic: {int(one): at for one, at in places.items()} for topic, places in told.items()}
