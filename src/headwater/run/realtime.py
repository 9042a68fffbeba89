"""Real time: a pipeline in Spark's real-time mode, where a row is on its way out milliseconds after it came.

A batch is then not a set of records but a stretch of time in which long tasks read, compute and write,
one record after the other; at its end the offsets and the state are kept. So a batch's length says how
much is repeated after a crash, and how often there is a pause, not how long a row takes. All tasks run at
once: each partition of a source and of a shuffle has a slot for itself, all the time.
"""

import os
from datetime import timedelta
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headwater.app import App, Pipeline, Source
from headwater.errors import BadPipeline
from headwater.log.connection import Connection
from headwater.log.topics import Topics
from headwater.run.decode import DEAD
from headwater.run.realtime_json import marked_in_jvm, undecodable_in_jvm
from headwater.run.realtime_plan import refusals, shuffle_partitions
from headwater.run.realtime_refusals import Refusal
from headwater.settings import Settings
from headwater.sink.encode import encoded, is_encoded_by_spark
from headwater.sink.kafka import KafkaSink

__all__ = ["BATCH", "Refusal", "in_real_time", "parsed_in_jvm", "refusals", "slots"]

BATCH = timedelta(seconds=10)
"""How long a batch is: what a crash repeats at most, and the time between two pauses."""

MOST_SHUFFLE_PARTITIONS = 16
_SHORTEST = timedelta(seconds=5)  # by Spark's default
_SHUFFLE = "spark.sql.shuffle.partitions"
_AT_ONCE = {"kafka.linger.ms": "0"}


def parsed_in_jvm(raw: DataFrame, source: Source, future: timedelta | None = None) -> DataFrame:
    """The rows of a topic, from Spark's Kafka source, without Python; bad ones are counted and left out."""
    if said := undecodable_in_jvm(source):
        raise BadPipeline(f"{said}: that cannot be read in real time", hint='latency="micro-batch" reads it')
    counts = F.count_if(DEAD).alias("dead"), F.count(F.lit(1)).alias("seen")
    found = marked_in_jvm(raw, source, future=future).observe(f"dead.{source.topic.name}", *counts)
    return found.where(~F.col(DEAD)).drop(DEAD)


def slots(app: App, settings: Settings) -> int | None:
    """The task slots that an app needs; None when none of its pipelines is in real time.

    Beside those that real-time tasks never leave there are some for everything else: the other
    pipelines' batches, and the search for dead letters.
    """
    taken = [_slots(one, settings) for one in app.pipelines if one.latency == "real-time"]
    return sum(taken) + max(2, os.cpu_count() or 1) if taken else None


def in_real_time(rows: DataFrame, pipeline: Pipeline, settings: Settings) -> DataStreamWriter:
    """The writer of a pipeline's rows in real time, ready for its name, its checkpoint and its start."""
    sink = _sink(pipeline)
    rows.sparkSession.conf.set(_SHUFFLE, _shuffle_partitions(pipeline, settings))
    if against := refusals(rows, pipeline.output):
        raise refused(pipeline, against)
    _need_slots(rows, pipeline, settings)
    options = {**_AT_ONCE, **Connection(settings).for_spark(), "topic": sink.topic.name}
    writer = encoded(rows, sink.topic, settings).writeStream.format("kafka").options(**options)
    return _triggered(writer.outputMode("update"), rows, pipeline.every or BATCH)


def _triggered(writer: Any, rows: DataFrame, length: timedelta) -> DataStreamWriter:
    millis = length // timedelta(milliseconds=1)
    if length < _SHORTEST:
        rows.sparkSession.conf.set("spark.sql.streaming.realTimeMode.minBatchDuration", f"{millis}ms")
    found: DataStreamWriter = writer.trigger(
        realTime=f"{millis} milliseconds"
    )  # not in PySpark's annotations
    return found


def refused(pipeline: Pipeline, against: list[Refusal]) -> BadPipeline:
    """The error for a plan that real-time mode does not run."""
    return BadPipeline(
        f"pipeline {pipeline.name!r} cannot run in real time",
        detail="\n".join(f"{one.operator}: {one.why}; instead: {one.instead}" for one in against),
        hint='latency="micro-batch" runs it as it is',
    )


def _sink(pipeline: Pipeline) -> KafkaSink:
    """The one output, a topic that Spark itself can write."""
    sink = pipeline.sinks[0]
    if len(pipeline.sinks) > 1:
        raise BadPipeline(
            f"pipeline {pipeline.name!r} has {len(pipeline.sinks)} outputs, and real time has one",
            hint="make a pipeline for each, or let others read the first one's topic",
        )
    if not isinstance(sink, KafkaSink) or not is_encoded_by_spark(sink.topic):
        raise BadPipeline(
            f"pipeline {pipeline.name!r} cannot write to {sink.name!r} in real time",
            hint="real time writes to a KafkaSink whose topic is JSON; others can read from there",
        )
    return sink


def _slots(pipeline: Pipeline, settings: Settings) -> int:
    return _partitions(pipeline, settings) + _shuffle_partitions(pipeline, settings)


def _partitions(pipeline: Pipeline, settings: Settings) -> int:
    topics = Topics(Connection(settings))
    return sum(topics.partitions(one.topic.name) for one in pipeline.sources)


def _shuffle_partitions(pipeline: Pipeline, settings: Settings) -> int:
    """As many as the input has: state is then spread as the records are."""
    wanted = settings.spark_options.get(_SHUFFLE)
    return int(wanted) if wanted else min(_partitions(pipeline, settings), MOST_SHUFFLE_PARTITIONS)


def _need_slots(rows: DataFrame, pipeline: Pipeline, settings: Settings) -> None:
    """Refuse what would wait: a source's task without a slot reads nothing until another one's batch ends."""
    needed = _partitions(pipeline, settings) + shuffle_partitions(rows)
    there = rows.sparkSession.sparkContext.defaultParallelism
    if needed > there:
        raise BadPipeline(
            f"pipeline {pipeline.name!r} needs {needed} task slots in real time, and Spark has {there}",
            detail="one for each partition of its topics and of its shuffles, all at once",
            hint=f"HEADWATER_SPARK_MASTER=local[{needed}] (slots are threads, not cores), or more executors",
        )
