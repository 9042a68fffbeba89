"""Settling: every bad record has one letter, whatever crashes between the batch and its settling."""

import json
import random
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from pyspark.sql import DataFrame, SparkSession
from tests.run.settling import (
    assert_committed,
    assert_once,
    buried,
    fill,
    settling,
    told,
)

from headwater import Log, Settings, Topic
from headwater.app import Source, Start
from headwater.log.connection import Connection
from headwater.log.transfer import Transfer
from headwater.run import letters, settle
from headwater.run.decode import parsed
from headwater.run.divert import Diverted
from headwater.run.history import Planned

pytestmark = pytest.mark.system


def test_bad_records_become_letters_and_the_group_stands_at_the_end(
    log: Log, system: Settings, spark: SparkSession, topic: Topic
) -> None:
    end = fill(log, topic, 50, bad=5)
    with settling(topic, spark, system) as ours:
        assert ours.starts() == {topic.name: {0: 0, 1: 0}}
        assert ours.settle(told(end, clean=False)) == Diverted(5)
        assert ours.settle(told(end, clean=False)) == Diverted(0)
    assert_once(log, topic, 5)
    assert_committed(log, topic, end[topic.name])
    one = buried(log, topic)[0]
    assert (one.value, one.headers, one.pipeline) == (b"bad", [("h", b"1")], f"bank.{topic.name}")
    assert "is not json" in one.reason


def test_a_clean_batch_moves_the_group_and_reads_nothing_again(
    log: Log, system: Settings, topic: Topic
) -> None:
    end = fill(log, topic, 10, bad=0)
    with settling(topic, None, system) as ours:  # without Spark: nothing can be read
        assert ours.settle(told(end, clean=True)) == Diverted(0)
        assert_committed(log, topic, end[topic.name])
    assert buried(log, topic) == []


def test_a_crash_between_batch_and_settling_is_caught_up(
    log: Log, system: Settings, spark: SparkSession, topic: Topic
) -> None:
    with settling(topic, spark, system) as first:
        first.settle(told(fill(log, topic, 10, bad=2), clean=False))
    unsettled = Planned(fill(log, topic, 10, bad=3), watermark=0)
    end = fill(log, topic, 10, bad=0)
    with settling(topic, spark, system, batches={1: unsettled}) as second:
        assert second.resume() == Diverted(3)
        assert_committed(log, topic, unsettled.ends[topic.name])
        assert second.settle(told(end, clean=True)) == Diverted(0)
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
        assert ours.settle(told(end, clean=False)) == Diverted(200)
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
        ours.settle(told(end, clean=False))
        assert ours.lost == sum(removed.values())
    assert f"{ours.lost} records of {topic.name} were removed" in caplog.text
    assert_once(log, topic, sum(one.data == b"bad" for one in log.read(topic.name)))
    assert_committed(log, topic, end[topic.name])


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
        assert ours.settle(told({topic.name: {0: 0, 1: 0, 2: 0}}, clean=True)) == Diverted(0)
    with settling(topic, None, system, start="end") as again:
        assert again.starts() == {topic.name: {0: 0, 1: 0, 2: 0}}


def test_a_topic_that_was_made_anew_starts_over(log: Log, system: Settings, topic: Topic) -> None:
    with settling(topic, None, system) as ours:
        ours.settle(told(fill(log, topic, 10, bad=0), clean=True))
    log.topics.delete(topic.name)
    log.topics.create(topic)
    with settling(topic, None, system) as again:
        assert again.starts() == {topic.name: {0: 0, 1: 0}}


def test_a_batch_that_spark_did_not_tell_of_is_looked_through(
    log: Log, system: Settings, spark: SparkSession, topic: Topic
) -> None:
    untold, end = fill(log, topic, 4, bad=2), fill(log, topic, 4, bad=0)
    with settling(topic, spark, system) as ours:
        assert ours.settle(told(end, starts=untold, clean=True, number=1)) == Diverted(2)
    assert_once(log, topic, 2)
    assert_committed(log, topic, end[topic.name])


@pytest.mark.parametrize("start", ["beginning", "end"])
def test_a_place_that_the_broker_forgot_is_taken_from_the_checkpoint(
    log: Log, system: Settings, topic: Topic, start: Start
) -> None:
    batches = {6: Planned(fill(log, topic, 4, bad=2), watermark=0)}
    end = fill(log, topic, 4, bad=2)
    for _ in range(2):  # a driver that dies before it resumed leaves nothing that misleads the next
        with settling(topic, None, system, start=start, batches=batches) as ours:
            ours.starts()
    assert_committed(log, topic, {})
    with settling(topic, None, system, start=start, batches=batches) as ours:
        assert ours.resume() == Diverted(0)
        assert_committed(log, topic, batches[6].ends[topic.name])
        assert ours.settle(told(end, clean=True)) == Diverted(0)


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
    batches: list[dict[str, Any]] = []
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
        batches += [json.loads(one.json) for one in running.recentProgress]
        written = 0
        for one in batches:
            (place,) = one["sources"]
            written += ours.settle(told(as_offsets(place["endOffset"]), clean=False)).dead
    counts = [one["observedMetrics"][f"dead.{topic.name}"] for one in batches]
    assert sum(one["seen"] for one in counts) == 15_000
    assert sum(one["dead"] for one in counts) == written == len(buried(log, topic)) == 10_000
    assert seen == Counter(range(good))


def as_offsets(told: Mapping[str, Mapping[str, int]]) -> dict[str, dict[int, int]]:
    return {topic: {int(one): at for one, at in places.items()} for topic, places in told.items()}
