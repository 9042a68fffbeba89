"""From a Pipeline to Spark's plan: its topics as streaming DataFrames, its function applied to them."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

from headwater.app import Latency, Pipeline, Source
from headwater.errors import BadPipeline, HeadwaterError
from headwater.log.topic import Topic
from headwater.run.decode import parsed
from headwater.run.progress import Offsets
from headwater.run.realtime import parsed_in_jvm
from headwater.run.witness import Watch
from headwater.settings import Settings

FETCHING = {
    "kafka.isolation.level": "read_committed",
    "kafka.max.poll.records": "10000",
    "kafka.receive.buffer.bytes": "1048576",
    "kafka.fetch.max.wait.ms": "10",
}

_LATEST = -1  # as Spark spells it


def rows_of(
    pipeline: Pipeline,
    spark: SparkSession,
    settings: Settings,
    kafka: Mapping[str, str],
    starts: Offsets,
    *,
    latency: Latency | None = None,
    watch: Callable[[Topic], Watch] | None = None,
    ticks: str | None = None,
) -> DataFrame:
    """The streaming DataFrame that the pipeline's function makes of its topics; nothing runs yet.

    `kafka` are the options that reach the broker; topics that `starts` does not name are read from
    their beginning. `latency` asks for the plan that the pipeline would have with another one. `watch` gives
    the eye that workers keep on a topic, `ticks` is a topic that wakes the pipeline up.
    """
    raws = records_of(pipeline, spark, kafka, starts, latency=latency, ticks=ticks)
    return rows_from(pipeline, spark, settings, raws, latency=latency, watch=watch)


def rows_from(
    pipeline: Pipeline,
    spark: SparkSession,
    settings: Settings,
    raws: Sequence[DataFrame],
    *,
    latency: Latency | None = None,
    watch: Callable[[Topic], Watch] | None = None,
) -> DataFrame:
    """The same, of records from anywhere that have the columns of Spark's Kafka source."""
    found = decoded(pipeline, settings, raws, latency=latency, watch=watch)
    tables = [_timed(pipeline, *one) for one in zip(pipeline.sources, found, strict=True)]
    with blamed(pipeline):
        rows = applied(pipeline, spark, tables)
        if not rows.isStreaming:
            raise BadPipeline(
                f"the function of pipeline {pipeline.name!r} does not use the topics that it reads",
                hint="what it returns must be made of its arguments",
            )
    for sink in pipeline.sinks:
        sink.check(rows.schema)
    return rows


def records_of(
    pipeline: Pipeline,
    spark: SparkSession,
    kafka: Mapping[str, str],
    starts: Offsets,
    *,
    latency: Latency | None = None,
    ticks: str | None = None,
) -> list[DataFrame]:
    """The records of each topic, as streams; nothing runs yet."""
    in_jvm = _in_jvm(pipeline, latency)
    reader = partial(spark.readStream.format("kafka").options, **{**FETCHING, **kafka})
    raws: list[DataFrame] = []
    for one in pipeline.sources:
        raws.append(_raw(pipeline, one, reader(), starts, ticks=None if raws else ticks, in_jvm=in_jvm))
    return raws


def decoded(
    pipeline: Pipeline,
    settings: Settings,
    raws: Sequence[DataFrame],
    *,
    latency: Latency | None = None,
    watch: Callable[[Topic], Watch] | None = None,
) -> list[DataFrame]:
    """The good rows of each topic."""
    in_jvm = _in_jvm(pipeline, latency)
    tables: list[DataFrame] = []
    for one, raw in zip(pipeline.sources, raws, strict=True):
        eye = watch(one.topic) if watch and pipeline.watermark else None
        tables.append(_table(pipeline, one, raw, settings, eye, in_jvm=in_jvm))
    return tables


def _in_jvm(pipeline: Pipeline, latency: Latency | None) -> bool:
    return (latency or pipeline.latency) == "real-time"


def _raw(
    pipeline: Pipeline,
    source: Source,
    reader: DataStreamReader,
    starts: Offsets,
    *,
    ticks: str | None,
    in_jvm: bool,
) -> DataFrame:
    """A topic's records as Spark's Kafka source has them."""
    topic = source.topic.name
    first: dict[str, Any] = {topic: starts[topic]} if topic in starts else {}
    if first and ticks:
        first[ticks] = {0: _LATEST}
    names = f"{topic},{ticks}" if ticks else topic
    reader = reader.options(subscribe=names, startingOffsets=json.dumps(first) if first else "earliest")
    if not in_jvm:
        reader = reader.option("maxOffsetsPerTrigger", max(1, pipeline.batch // len(pipeline.sources)))
    return reader.load().where(F.col("topic") == topic) if ticks else reader.load()


def _table(
    pipeline: Pipeline,
    source: Source,
    raw: DataFrame,
    settings: Settings,
    watch: Watch | None,
    *,
    in_jvm: bool,
) -> DataFrame:
    if in_jvm:
        return parsed_in_jvm(raw, source, pipeline.future)
    return parsed(raw, source, settings, pipeline.future, watch)


def _timed(pipeline: Pipeline, source: Source, rows: DataFrame) -> DataFrame:
    """A topic's rows with Spark's own watermark, if there is to be one."""
    if pipeline.watermark is None:
        return rows
    return rows.withWatermark(source.topic.event_time or "", f"{pipeline.waits.total_seconds():f} seconds")


def applied(pipeline: Pipeline, spark: SparkSession, tables: list[DataFrame]) -> DataFrame:
    """What the pipeline's function, or its SQL, makes of these tables."""
    if pipeline.sql is not None:
        for source, table in zip(pipeline.sources, tables, strict=True):
            table.createOrReplaceTempView(source.table)
        return spark.sql(pipeline.sql)
    function: Any = pipeline.function
    rows = function(*tables)
    if not isinstance(rows, DataFrame):
        raise BadPipeline(
            f"the function of pipeline {pipeline.name!r} returns {type(rows).__name__}, not a DataFrame",
            hint="it gets a DataFrame for each topic that it reads, and returns one",
        )
    return rows


@contextmanager
def blamed(pipeline: Pipeline) -> Iterator[None]:
    """What goes wrong in the user's function is the user's to mend: told with the pipeline's name."""
    try:
        yield
    except HeadwaterError:
        raise
    except PySparkException as error:
        raise BadPipeline(
            f"Spark refuses pipeline {pipeline.name!r}", detail=str(error.getMessage() or error).strip()
        ) from error
    except Exception as error:
        raise BadPipeline(
            f"the function of pipeline {pipeline.name!r} failed", detail=f"{type(error).__name__}: {error}"
        ) from error
