"""KafkaSink as pipelines use it: every row once, whatever fails and however Spark cuts the batch again."""

import os
import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from headwater import Log, Topic, embedded
from headwater.clock import wait_until
from headwater.errors import HeadwaterError, KeyMissing, SinkAhead, SlicesChanged
from headwater.settings import Settings
from headwater.sink.contract import Batch, Sink
from headwater.sink.kafka import KafkaSink
from headwater.sink.markers import SLICES, WHOLE, Marker, Markers, Place
from tests.sink.streams import events, into, run, stream

NUMBERS = "n long, k string"


@pytest.fixture
def out(log, name):
    topic = Topic(f"{name}-out", schema=NUMBERS, key="k", partitions=3)
    log.topics.create(topic)
    return topic


def rows_of(log, topic):
    return Counter(record.value.n for record in log.read(topic))


def comes_to(log, topic, wanted):
    """Wait until readers see so many, then say what they see."""
    wait_until(lambda: rows_of(log, topic).total() >= len(wanted), timedelta(seconds=15))
    return rows_of(log, topic) == Counter(dict.fromkeys(wanted, 1))


def failing_at(file, number, how="raise"):
    """A step that fails, the first time only, in the task that has this number in hand."""

    def step(blocks):
        for one in blocks:
            if number in one.column("n").to_pylist() and not Path(file).exists():
                Path(file).touch()
                if how == "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                raise ZeroDivisionError
            yield one

    return step


def numbers(spark, count, partitions):
    rows = spark.range(count).select(F.col("id").alias("n"), F.concat(F.lit("k"), F.col("id") % 7).alias("k"))
    return rows.repartition(partitions)


def always_failing_at(number):
    def step(blocks):
        for one in blocks:
            if number in one.column("n").to_pylist():
                raise ZeroDivisionError
            yield one

    return step


def test_a_batch_that_failed_between_its_slices_is_finished_by_the_next_run(
    spark, system, log, name, out, tmp_path
):
    source, sink = events(log, name), KafkaSink(out)
    rows = stream(spark, system, source)
    write = into(sink, system, f"test.{name}")
    broken = rows.mapInArrow(always_failing_at(301), rows.schema)
    assert run(broken, write, tmp_path / "checkpoint") is not None
    some = rows_of(log, out)
    assert 200 < some.total() < 400  # the first batch whole, of the second those slices that went well
    assert run(rows, write, tmp_path / "checkpoint") is None
    assert comes_to(log, out, range(400))
    committed = log.groups.committed(f"test.{name}.to.{out.name}")
    ends = {one.partition: offset for one, offset in committed.items() if one.topic == source.name}
    assert sum(ends.values()) == 400


def test_a_stateful_pipeline_that_failed_between_its_slices_counts_every_window_once(
    spark, system, log, name, tmp_path
):
    source = events(log, name)
    out = Topic(f"{name}-out", schema="k string, opened_at timestamp, count long", key="k")
    log.topics.create(out)
    rows = stream(spark, system, source).withWatermark("at", "1 second")
    counted = (
        rows.groupBy(F.window("at", "20 seconds"), "k")
        .count()
        .selectExpr("k", "window.start opened_at", "count")
    )
    flag = str(tmp_path / "failed")

    def once_broken(blocks):
        for one in blocks:
            if "k3" in one.column("k").to_pylist() and not Path(flag).exists():
                Path(flag).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield one

    step = counted.mapInArrow(once_broken, counted.schema)
    assert run(step, into(KafkaSink(out), system, f"test.{name}"), tmp_path / "checkpoint") is None
    assert Path(flag).exists()
    found = Counter((one.value.k, one.value.opened_at) for one in log.read(out))
    assert set(found.values()) == {1}
    assert sum(one.value.count for one in log.read(out)) == 2 * sum(found.values())
    assert SLICES in {one.topic for one in log.groups.committed(f"test.{name}.to.{out.name}")}


def test_a_python_worker_killed_in_mid_slice_leaves_every_row_once(spark, system, log, name, out, tmp_path):
    rows = stream(spark, system, events(log, name))
    step = rows.mapInArrow(failing_at(str(tmp_path / "killed"), 250, "kill"), rows.schema)
    assert run(step, into(KafkaSink(out), system), tmp_path / "checkpoint") is None
    assert (tmp_path / "killed").exists()
    assert comes_to(log, out, range(400))


def test_a_shuffled_batch_retried_in_another_number_of_partitions_is_written_once(
    spark, system, log, name, out
):
    sink, batch = KafkaSink(out), Batch(f"test.{name}", 0, "q", system)
    broken = numbers(spark, 300, 3).mapInArrow(always_failing_at(299), "n long, k string")
    with pytest.raises(Exception, match="ZeroDivisionError"):
        sink.write(broken, batch)
    sink.write(numbers(spark, 300, 7), batch)
    sink.write(numbers(spark, 300, 2), batch)
    assert comes_to(log, out, range(300))


def test_the_same_batch_run_twice_at_once_is_written_once(spark, system, log, name, out):
    sink, batch = KafkaSink(out), Batch(f"test.{name}", 0, "q", system)

    def attempt(partitions):
        with suppress(HeadwaterError):  # one of the two may be fenced in the middle
            sink.write(numbers(spark, 3000, partitions), batch)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(attempt, (2, 3)))
    sink.write(numbers(spark, 3000, 4), batch)
    assert comes_to(log, out, range(3000))


def test_a_batch_half_written_in_other_slices_is_refused_and_the_next_may_change(
    spark, system, log, name, out, tmp_path
):
    source, sink = events(log, name), KafkaSink(out)
    rows, write = stream(spark, system, source), into(sink, system, f"test.{name}")
    assert run(rows.mapInArrow(always_failing_at(1), rows.schema), write, tmp_path / "c") is not None
    assert 0 < rows_of(log, out).total() < 200
    refused = run(rows.repartition(2), write, tmp_path / "c")
    assert SlicesChanged.code in str(refused)
    assert "cut by source, and is now cut by hash/" in str(refused)
    assert run(rows, write, tmp_path / "c", last=0) is None
    assert run(rows.repartition(2), write, tmp_path / "c") is None
    assert comes_to(log, out, range(400))


def test_the_number_of_slices_that_was_recorded_stays(spark, system, log, name, out):
    markers = Markers(log._connection, f"test.{name}.to.{out.name}")
    markers.make_room(2)
    markers.set(WHOLE, 0, Marker("q", 0, "hash/2"))
    assert spark.sparkContext.defaultParallelism > 2
    KafkaSink(out).write(numbers(spark, 100, 5), Batch(f"test.{name}", 0, "q", system))
    assert comes_to(log, out, range(100))
    found = markers.read_settled([Place(SLICES, at) for at in range(1, 9)])
    assert {(place.partition, one.scheme) for place, one in found.items()} == {(1, "hash/2"), (2, "hash/2")}


def test_a_batch_before_one_that_is_written_is_refused(spark, system, name, out):
    sink = KafkaSink(out)
    sink.write(numbers(spark, 10, 2), Batch(f"test.{name}", 5, "q", system))
    with pytest.raises(SinkAhead, match=r"batch 4 of pipeline .* comes after batch 5"):
        sink.write(numbers(spark, 10, 2), Batch(f"test.{name}", 4, "q", system))


def test_a_null_key_fails_the_batch_and_nothing_of_its_slice_is_there(spark, system, log, name, out):
    rows = numbers(spark, 10, 1).withColumn("k", F.when(F.col("n") != 9, F.col("k")))
    with pytest.raises(KeyMissing, match="has no 'k', its key"):
        KafkaSink(out).write(rows.coalesce(1), Batch(f"test.{name}", 0, "q", system))
    assert 9 not in rows_of(log, out)


def test_at_least_once_writes_again_what_is_tried_again(spark, system, log, name, out):
    sink = KafkaSink(out, guarantee="at-least-once")
    for _ in range(2):
        sink.write(numbers(spark, 10, 2), Batch(f"test.{name}", 0, "q", system))
    assert rows_of(log, out) == Counter(dict.fromkeys(range(10), 2))


def test_at_most_once_does_not_write_again_but_computes_all_the_same(spark, system, log, name, out, tmp_path):
    sink, batch = KafkaSink(out, guarantee="at-most-once"), Batch(f"test.{name}", 0, "q", system)
    sink.write(numbers(spark, 10, 2), batch)
    folder = str(tmp_path)

    def noted(blocks):
        for one in blocks:
            Path(folder, "computed").touch()
            yield one

    sink.write(numbers(spark, 10, 2).mapInArrow(noted, NUMBERS), batch)
    assert Path(folder, "computed").exists()
    assert rows_of(log, out) == Counter(dict.fromkeys(range(10), 1))
    broken = numbers(spark, 10, 1).mapInArrow(always_failing_at(3), NUMBERS)
    with pytest.raises(Exception, match="ZeroDivisionError"):
        sink.write(broken, Batch(f"test.{name}", 1, "q", system))
    sink.write(numbers(spark, 10, 1), Batch(f"test.{name}", 1, "q", system))
    assert rows_of(log, out) == Counter(dict.fromkeys(range(10), 1))


def test_formats_with_a_schema_are_written_once_too(spark, system, registry, name):
    both = Settings(kafka=embedded.kafka_address(system), registry=embedded.registry_url(registry))
    log = Log.open(both)
    topic = Topic(f"{name}-avro", schema="n long, k string, m map<string,int>", key="k", format="avro")
    log.topics.create(topic)
    rows = numbers(spark, 20, 2).withColumn("m", F.create_map(F.lit("a"), F.lit(1)))
    for _ in range(2):
        KafkaSink(topic).write(rows, Batch(f"test.{name}", 0, "q", both))
    assert comes_to(log, topic, range(20))
    assert {one.value.m["a"] for one in log.read(topic)} == {1}


def test_a_kafka_sink_is_a_sink_named_by_its_topic(out):
    assert isinstance(KafkaSink(out), Sink)
    assert (KafkaSink(out).name, KafkaSink(out).guarantee) == (out.name, "exactly-once")
