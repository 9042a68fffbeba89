"""From a Pipeline to Spark's plan: its topics as streaming DataFrames, its function applied to them."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from headwater.app import Latency, Pipeline, Source
from headwater.errors import BadPipeline, HeadwaterError
from headwater.run.decode import parsed
from headwater.run.progress import Offsets
from headwater.run.realtime import parsed_in_jvm
from headwater.settings import Settings

FETCHING = {
    "kafka.isolation.level": "read_committed",
    "kafka.max.poll.records": "10000",
    "kafka.receive.buffer.bytes": "1048576",
}


def rows_of(
    pipeline: Pipeline,
    spark: SparkSession,
    settings: Settings,
    kafka: Mapping[str, str],
    starts: Offsets,
    *,
    latency: Latency | None = None,
) -> DataFrame:
    """The streaming DataFrame that the pipeline's function makes of its topics; nothing runs yet.

    `kafka` are the options that reach the broker; topics that `starts` does not name are read from
    their beginning. `latency` asks for the plan that the pipeline would have with another one.
    """
    in_jvm = (latency or pipeline.latency) == "real-time"
    reader = partial(spark.readStream.format("kafka").options, **{**FETCHING, **kafka})
    tables = [_table(pipeline, one, reader(), settings, starts, in_jvm=in_jvm) for one in pipeline.sources]
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


def _table(
    pipeline: Pipeline,
    source: Source,
    reader: DataStreamReader,
    settings: Settings,
    starts: Offsets,
    *,
    in_jvm: bool,
) -> DataFrame:
    topic = source.topic.name
    first = json.dumps({topic: starts[topic]}) if topic in starts else "earliest"
    reader = reader.options(subscribe=topic, startingOffsets=first)
    if in_jvm:
        found = parsed_in_jvm(reader.load(), source, pipeline.future)
    else:
        bound = max(1, pipeline.batch // len(pipeline.sources))
        raw = reader.option("maxOffsetsPerTrigger", bound).load()
        found = parsed(raw, source, settings, pipeline.future)
    if pipeline.watermark is None:
        return found
    return found.withWatermark(source.topic.event_time or "", f"{pipeline.waits.total_seconds():f} seconds")


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
