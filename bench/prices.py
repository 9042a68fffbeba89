"""Where the time of a row goes between Kafka and Kafka: the same records, one step more each time.

Every step is a warm batch job over all payments; what it takes beyond the step that it adds to is its price.
The rows end in Spark's noop sink, except those of the sinks.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.events import PAYMENTS
from bench.functions import large
from bench.pipelines_app import LARGE
from headwater import KafkaSink, Log, Settings, Source, Topic
from headwater.log.connection import Connection
from headwater.run.decode import parsed
from headwater.run.plan import FETCHING
from headwater.run.session import close, session
from headwater.sink.contract import Batch
from headwater.sink.encode import encoded

Step = tuple[str, Callable[[], None], str]
"""What it is called, how it is run, and the step that it adds to."""


def measure(settings: Settings, count: int) -> list[tuple[str, float]]:
    """Each step with its price in microseconds a row, on all cores together."""
    spark = session(settings, "profile")
    took, prices = {"": 0.0}, []
    try:
        for name, run, before in _steps(spark, settings):
            took[name] = _warm(run)
            prices.append((name, 1e6 * (took[name] - took[before]) / count))
    finally:
        close(spark)
    return prices


def _steps(spark: SparkSession, settings: Settings) -> Iterator[Step]:
    raw = (
        spark.read.format("kafka")
        .options(**FETCHING, **Connection(settings).for_spark(), subscribe=PAYMENTS.name)
        .load()
    )
    text = F.from_json(F.col("value").cast("string"), PAYMENTS.spark_schema).alias("row")
    rows = parsed(raw, Source(PAYMENTS), settings)
    yield "read", lambda: _noop(raw.select("value")), ""
    there_and_back = raw.select("value").mapInArrow(_as_it_is, "value binary")
    yield "to Python and back", lambda: _noop(there_and_back), "read"
    yield "decode", lambda: _noop(rows), "to Python and back"
    yield "function and encode", lambda: _noop(encoded(large(rows), LARGE, settings)), "decode"
    for sink in ("at-least-once", "exactly-once"):
        yield f"sink, {sink}", partial(_write, large(rows), settings, sink), "function and encode"
    yield "from_json in place of Python and decode", lambda: _noop(raw.select(text).select("row.*")), "read"


def _warm(run: Callable[[], None]) -> float:
    run()
    began = time.monotonic()
    run()
    return time.monotonic() - began


def _noop(rows: DataFrame) -> None:
    rows.write.format("noop").mode("append").save()


def _as_it_is(blocks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from blocks


def _write(rows: DataFrame, settings: Settings, guarantee: str) -> None:
    topic = Topic(f"profile-{guarantee}", schema=LARGE.schema, key="card", partitions=4)
    if topic.name not in Log.open(settings).topics.names():
        Log.open(settings).topics.create(topic)
    sink = KafkaSink(topic, guarantee=guarantee)  # type: ignore[arg-type]
    sink.write(rows, Batch("bench.profile", 0, str(time.monotonic()), settings))
