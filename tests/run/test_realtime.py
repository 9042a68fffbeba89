"""Real time on the real broker: what is allowed runs, what is refused Spark refuses too, rows arrive."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.sql.types import LongType, StringType

from headwater import Log, Settings, Topic
from headwater.app import App, Pipeline
from headwater.clock import wait_until
from headwater.errors import BadPipeline
from headwater.log.connection import Connection
from headwater.process.event_time import Bounded, Drop
from headwater.run import realtime
from headwater.run.plan import rows_of
from headwater.run.realtime import in_real_time, refusals, slots
from headwater.run.realtime_plan import shuffle_partitions
from headwater.run.supervise import Supervisor
from headwater.sink.kafka import KafkaSink

SOON = timedelta(seconds=60)
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
NUMBERS = count()
SHOUTED = F.udf(lambda text: text.upper(), StringType())
WINDOWED: dict[str, Any] = {"watermark": Bounded(timedelta(seconds=5)), "late": Drop(), "output": "update"}


@pytest.fixture(autouse=True)
def short_batches(monkeypatch):
    monkeypatch.setattr(realtime, "BATCH", timedelta(seconds=1))


@pytest.fixture(scope="module")
def world(spark, system, log):
    """Two topics with a record each, and a table beside them; in a session of its own."""
    one = spark.newSession()
    one.conf.set("spark.sql.streaming.realTimeMode.minBatchDuration", "1s")
    one.conf.set("spark.sql.shuffle.partitions", "2")
    topics = [Topic(f"plans-{letter}", schema="v string") for letter in "ab"]
    for topic in topics:
        log.topics.create(topic)
        with log.writer() as writer:
            writer.append(topic, {"v": "k"})
    table = one.range(3).selectExpr("chr(107 + id) AS v", "id AS x")
    return SimpleNamespace(
        spark=one, kafka=Connection(system).for_spark(), topics=topics, table=table, log=log
    )


def stream(world, number=0):
    options = {"subscribe": world.topics[number].name, "startingOffsets": "earliest", **world.kafka}
    raw = world.spark.readStream.format("kafka").options(**options).load()
    return raw.selectExpr(
        "get_json_object(CAST(value AS STRING), '$.v') AS v", "timestamp AS t", "partition AS p"
    )


def dated(world, number=0):
    return stream(world, number).withWatermark("t", "1 second")


def both(world):
    return stream(world).select("v").union(stream(world, 1).select("v"))


def with_itself(world):
    one = stream(world)
    return one.where("p = 0").select("v").union(one.where("p > 0").select("v"))


def in_pieces(blocks):
    yield from blocks


def sized(column: pd.Series) -> int:
    return len(column)


SIZED: Any = pandas_udf(sized, LongType())  # type: ignore[call-overload]


def of_two_streams(world):
    return dated(world).join(dated(world, 1).withColumnRenamed("t", "u"), F.expr("t = u"))


RUN: dict[str, Callable[[Any], Any]] = {
    "a map": lambda world: stream(world).where("v = 'k'").select(F.upper("v").alias("v")),
    "an explode": lambda world: stream(world).select(F.explode(F.array("v", "v")).alias("v")),
    "a count of all": lambda world: stream(world).agg(F.count("*")),
    "a count by key": lambda world: (
        stream(world).groupBy("v").agg(F.count("*"), F.max("v"), F.collect_list("p"))
    ),
    "a tumbling window": lambda world: dated(world).groupBy(F.window("t", "5 seconds"), "v").count(),
    "a hopping window": lambda world: dated(world).groupBy(F.window("t", "5 seconds", "1 second")).count(),
    "dropDuplicates": lambda world: dated(world).dropDuplicates(["v", "t"]),
    "a left join with a small table": lambda world: stream(world).join(F.broadcast(world.table), "v", "left"),
    "a count of a union": lambda world: both(world).groupBy("v").count(),
    "a repartition": lambda world: stream(world).repartition(3, "v"),
}
REFUSED: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "UDF": ("a Python UDF", lambda world: stream(world).select(SHOUTED("v"))),
    "UDF in a filter": ("a Python UDF", lambda world: stream(world).where(SHOUTED("v") == "K")),
    "mapInArrow": ("mapInArrow", lambda world: stream(world).select("v").mapInArrow(in_pieces, "v string")),
    "mapInPandas": (
        "mapInPandas",
        lambda world: stream(world).select("v").mapInPandas(in_pieces, "v string"),
    ),
    "applyInPandas": (
        "applyInPandas",
        lambda world: stream(world).select("v").groupBy("v").applyInPandas(lambda one: one, "v string"),
    ),
    "session": (
        "a session window",
        lambda world: dated(world).groupBy(F.session_window("t", "1 second"), "v").count(),
    ),
    "two streams": ("a join of two streams", of_two_streams),
    "merge": ("a join with a large table", lambda world: stream(world).join(world.table.hint("merge"), "v")),
    "hash": (
        "a join with a large table",
        lambda world: stream(world).join(world.table.hint("shuffle_hash"), "v"),
    ),
    "cross": ("a join without an equality", lambda world: stream(world).crossJoin(world.table.select("x"))),
    "within": (
        "dropDuplicatesWithinWatermark",
        lambda world: dated(world).dropDuplicatesWithinWatermark(["v"]),
    ),
    "sort": ("a sort", lambda world: stream(world).orderBy("v")),
    "sorted count": ("a sort", lambda world: stream(world).groupBy("v").count().orderBy("v")),
    "limit": ("a limit", lambda world: stream(world).limit(1)),
    "coalesce": ("coalesce", lambda world: stream(world).coalesce(1)),
    "range": ("repartitionByRange", lambda world: stream(world).repartitionByRange(2, "v")),
    "sample": ("sample", lambda world: stream(world).sample(0.5)),
    "itself": ("a union of a topic with itself", with_itself),
    "union after": (
        "a union after state",
        lambda world: stream(world).groupBy("v").count().select("v").union(stream(world, 1).select("v")),
    ),
    "two counts": (
        "several operators with state",
        lambda world: dated(world).groupBy(F.window("t", "1 second")).count().groupBy("count").count(),
    ),
    "distinct count": ("the plan as a whole", lambda world: stream(world).agg(F.count_distinct("v"))),
    "pandas aggregate": (
        "the plan as a whole",
        lambda world: stream(world).groupBy("v").agg(SIZED("p")),
    ),
}


@contextmanager
def started(world, rows, folder) -> Iterator[Any]:
    """Spark's own real-time query over a plan, as Spark runs it: nothing of ours in between."""
    target = Topic(f"plans-out-{next(NUMBERS)}", schema="v string")
    world.log.topics.create(target)
    writer = rows.select(F.to_json(F.struct("*")).alias("value")).writeStream.format("kafka")
    writer = writer.options(**world.kafka, topic=target.name, checkpointLocation=str(folder))
    query = writer.outputMode("update").trigger(realTime="1 second").start()
    try:
        yield query, target
    finally:
        query.stop()


@pytest.mark.parametrize("plan", RUN)
def test_what_is_allowed_spark_runs(world, plan, tmp_path):
    rows = RUN[plan](world)
    assert refusals(rows) == []
    with started(world, rows, tmp_path) as (query, target):
        assert wait_until(lambda: query.exception() or list(world.log.read(target.name)), SOON)
        assert query.exception() is None


@pytest.mark.parametrize("plan", REFUSED)
def test_what_is_refused_spark_refuses_too(world, plan, tmp_path):
    operator, make = REFUSED[plan]
    found = refusals(make(world))
    assert [one.operator for one in found] == [operator]
    assert all(one.why and one.instead for one in found)
    with pytest.raises(PySparkException), started(world, make(world), tmp_path) as (query, _):
        assert wait_until(lambda: query.exception() is not None, SOON)
        raise query.exception()


def test_several_refusals_are_told_once_each(world):
    rows = stream(world).select(SHOUTED("v").alias("v")).where(SHOUTED("v") != "x").coalesce(1)
    assert [one.operator for one in refusals(rows)] == ["coalesce", "a Python UDF"]


def test_a_window_that_is_to_be_written_once_is_refused_and_a_map_is_not(world):
    count = dated(world).groupBy(F.window("t", "5 seconds")).count()
    (found,) = refusals(count, "append")
    assert (found.operator, found.instead) == ('an aggregation with output="append"', 'output="update"')
    assert refusals(stream(world), "append") == []


def test_shuffles_are_counted_with_their_partitions(world):
    assert shuffle_partitions(stream(world)) == 0
    assert shuffle_partitions(stream(world).groupBy("v").count()) == 2
    assert shuffle_partitions(stream(world).repartition(3).groupBy("v").count()) == 5
    static = world.table.repartition(7)
    assert shuffle_partitions(stream(world).join(F.broadcast(static), "v")) == 0


def payments(name: str, **more) -> Topic:
    given = {
        "schema": "card string, amount double, paid_at timestamp",
        "key": "card",
        "event_time": "paid_at",
    }
    return Topic(f"{name}-in", **(given | {"partitions": 2} | more))


def pipeline(name: str, function, source: Topic, schema: str = "", **more) -> Pipeline:
    target = Topic(f"{name}-out", schema=schema or source.schema, key="card")
    sink = KafkaSink(target, guarantee="at-least-once")
    given: dict[str, Any] = {"reads": [source], "writes": sink, "latency": "real-time"}
    return Pipeline(name, function, **(given | more))


@contextmanager
def running(one: Pipeline, spark, settings: Settings, folder) -> Iterator[Any]:
    session, kafka = spark.newSession(), Connection(settings).for_spark()
    log = Log.open(settings)
    sink: Any = one.sinks[0]
    for topic in (one.sources[0].topic, sink.topic):
        if topic.name not in log.topics.names():
            log.topics.create(topic)
    writer = in_real_time(rows_of(one, session, settings, kafka, {}), one, settings)
    query = writer.option("checkpointLocation", str(folder)).start()
    try:
        yield query
    finally:
        query.stop()


def append(log: Log, topic: Topic, numbers) -> None:
    with log.writer() as writer:
        for number in numbers:
            at = BEGIN + timedelta(seconds=number)
            writer.append(topic, {"card": f"c{number % 3}", "amount": float(number), "paid_at": at})


def arrived(log: Log, topic: Topic) -> list[Any]:
    return [record.value for record in log.read(topic)]


def test_rows_arrive_before_the_batch_ends_and_the_bad_are_counted_at_its_end(
    spark, system, log, name, tmp_path, monkeypatch
):
    monkeypatch.setattr(realtime, "BATCH", timedelta(seconds=8))
    source = payments(name)
    one = pipeline(name, lambda rows: rows.where("amount % 2 = 0"), source)
    with running(one, spark, system, tmp_path) as query:
        append(log, source, range(10))
        with log.writer() as writer:
            writer.append_bytes(source.name, b'{"card":"c","amount":"1"}')
        assert wait_until(lambda: len(arrived(log, one.sinks[0].topic)) == 5, SOON)
        assert query.recentProgress == []
        assert wait_until(lambda: bool(query.recentProgress), SOON)
        told = json.loads(query.recentProgress[0].json)
    assert told["observedMetrics"][f"dead.{source.name}"] == {"dead": 1, "seen": 11}
    assert sum(told["sources"][0]["endOffset"][source.name].values()) == 11
    assert sorted(row.amount for row in arrived(log, one.sinks[0].topic)) == [0, 2, 4, 6, 8]


def windowed(rows):
    window = F.window("paid_at", "10 seconds")
    return (
        rows.groupBy(window, "card")
        .agg(F.count("*").alias("n"))
        .selectExpr("card", "window.start AS at", "n")
    )


def test_a_stop_in_the_middle_of_a_batch_loses_nothing_and_state_counts_each_record_once(
    spark, system, log, name, tmp_path
):
    source = payments(name)
    one = pipeline(name, windowed, source, "card string, at timestamp, n long", **WINDOWED)
    target = one.sinks[0].topic

    def totals() -> dict:
        latest = {(row.card, row.at): row.n for row in arrived(log, target)}
        return {card: sum(n for (other, _), n in latest.items() if other == card) for card, _ in latest}

    with running(one, spark, system, tmp_path) as query:
        append(log, source, range(9))
        assert wait_until(lambda: len(query.recentProgress) > 1, SOON)
        append(log, source, range(9, 15))
        assert wait_until(lambda: sum(totals().values()) == 15, SOON)
    append(log, source, range(15, 30))
    with running(one, spark, system, tmp_path):
        assert wait_until(lambda: sum(totals().values()) >= 30, SOON)
    assert totals() == {"c0": 10, "c1": 10, "c2": 10}


def test_slots_are_counted_for_sources_and_shuffles_of_real_time_pipelines_only(system, log, name):
    source = payments(name, partitions=3)
    log.topics.create(source)
    fast = pipeline(name, lambda rows: rows, source)
    slow = pipeline(f"{name}-slow", lambda rows: rows, source, latency="micro-batch")
    spare = slots(App("app", fast), system) - 6
    assert spare >= 2
    assert slots(App("app", fast, slow), system) == 6 + spare
    assert slots(App("app", slow), system) is None
    more = Settings(**{**vars(system), "spark_options": {"spark.sql.shuffle.partitions": "5"}})
    assert slots(App("app", fast), more) == 8 + spare


def refused(one: Pipeline, spark, settings: Settings, folder) -> BadPipeline:
    with pytest.raises(BadPipeline) as error, running(one, spark, settings, folder):
        pass
    return error.value


def test_a_plan_that_cannot_be_is_refused_with_its_operators_before_anything_starts(
    spark, system, name, tmp_path
):
    one = pipeline(name, lambda rows: rows.withColumn("card", SHOUTED("card")), payments(name))
    error = refused(one, spark, system, tmp_path)
    assert error.message == f"pipeline {name!r} cannot run in real time"
    assert error.detail.startswith(
        "a Python UDF: rows would wait until a block for Python is full; instead: "
    )
    assert error.hint == 'latency="micro-batch" runs it as it is'
    assert list(tmp_path.iterdir()) == []


def test_too_few_slots_are_told_with_the_number_that_is_needed(spark, system, name, tmp_path):
    one = pipeline(name, lambda rows: rows.repartition(100), payments(name))
    error = refused(one, spark, system, tmp_path)
    there = spark.sparkContext.defaultParallelism
    assert error.message == f"pipeline {name!r} needs 102 task slots in real time, and Spark has {there}"
    assert "HEADWATER_SPARK_MASTER=local[102]" in error.hint


def test_real_time_has_one_output_and_it_is_a_topic_of_json(spark, system, name, tmp_path):
    source = payments(name)
    sinks = [
        KafkaSink(Topic(f"{name}-{one}", schema=source.schema), guarantee="at-least-once") for one in "ab"
    ]
    two = pipeline(name, lambda rows: rows, source, writes=sinks)
    assert refused(two, spark, system, tmp_path).message == (
        f"pipeline {name!r} has 2 outputs, and real time has one"
    )
    avro = KafkaSink(Topic(f"{name}-avro", schema=source.schema, format="avro"), guarantee="at-least-once")
    other = pipeline(name, lambda rows: rows, source, writes=avro)
    assert refused(other, spark, system, tmp_path).message == (
        f"pipeline {name!r} cannot write to '{name}-avro' in real time"
    )


@pytest.mark.system
def test_what_real_time_leaves_out_becomes_a_letter_with_the_reason(spark, system, log, name):
    source = Topic(f"{name}-in", schema="card string NOT NULL, price decimal(10,2)", key="card", partitions=2)
    target = Topic(f"{name}-out", schema="card string, price decimal(10,2)", key="card", partitions=2)
    for topic in (source, target):
        log.topics.create(topic)
    values = [b'{"card": "a", "price": 1.25}', b"not json", b'{"card": "b", "price": 1e1}', b'{"price": 2}']
    with log.writer() as writer:
        for value in values:
            writer.append_bytes(source.name, value, key=b"k")
    one = Pipeline(
        "fast",
        lambda rows: rows,
        reads=[source],
        writes=KafkaSink(target, guarantee="at-least-once"),
        latency="real-time",
        every=timedelta(seconds=5),
    )
    supervisor = Supervisor(App(name, one), spark, system)
    supervisor.start()
    try:
        dead = f"{source.name}.dead"
        assert wait_until(
            lambda: dead in log.topics.names() and len(list(log.read(dead))) == 3,
            timedelta(seconds=90),
            pause=0.5,
        ), supervisor.figures
    finally:
        supervisor.stop()
        supervisor.join()
    assert [str(error) for error in supervisor.errors] == []
    reasons = {record.value: dict(record.headers)["headwater.reason"].decode() for record in log.read(dead)}
    assert set(reasons) == set(values[1:])
    assert reasons[values[2]] == "real time cannot read it, though micro-batches can"
    assert {record.value.card for record in log.read(target)} == {"a"}
