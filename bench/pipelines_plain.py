"""The same pipelines as people write them by hand in PySpark, with Spark's default settings.

Two things are set as ours are, because nobody would leave them: as many shuffle partitions as the
machine can use (Spark's 200 would be slower), and the same bound on a batch.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.events import CLICKS, IMPRESSIONS, PAYMENTS
from bench.pipelines_app import app, attributed, hopping, large, sessions, tumbling
from headwater import Topic

CASES: dict[str, tuple[Callable[..., DataFrame], list[Topic]]] = {
    "filter": (large, [PAYMENTS]),
    "tumbling": (tumbling, [PAYMENTS]),
    "hopping": (hopping, [PAYMENTS]),
    "session": (sessions, [PAYMENTS]),
    "join": (attributed, [IMPRESSIONS, CLICKS]),
}


def main(case: str, address: str, jars: str, output: str, folder: str) -> None:
    began = time.monotonic()
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", jars)
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    function, topics = CASES[case]
    started = time.monotonic()
    rows = function(*(_read(spark, address, one, case) for one in topics))
    key = next(one for one in app.pipelines if one.name == case).sinks[0].topic.key  # type: ignore[attr-defined]
    query = (
        rows.select(F.col(key).cast("string").alias("key"), F.to_json(F.struct("*")).alias("value"))
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", address)
        .option("topic", output)
        .option("checkpointLocation", str(Path(folder) / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    print(
        json.dumps(
            {
                "seconds": time.monotonic() - started,
                "session": started - began,
                "batches": [
                    [one["numInputRows"], one["durationMs"]["triggerExecution"]]
                    for one in query.recentProgress
                ],
            }
        )
    )


def _read(spark: SparkSession, address: str, topic: Topic, case: str) -> DataFrame:
    raw = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", address)
        .option("subscribe", topic.name)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 1_000_000)
        .load()
    )
    rows = raw.select(F.from_json(F.col("value").cast("string"), topic.spark_schema).alias("row")).select(
        "row.*"
    )
    return rows if case == "filter" else rows.withWatermark(topic.event_time or "", "10 seconds")


if __name__ == "__main__":
    main(*sys.argv[1:])
