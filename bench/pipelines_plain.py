"""The same pipelines as people write them by hand in PySpark, with Spark's default settings.

Two things are set as ours are, because nobody would leave them: as many shuffle partitions as the
machine can use (Spark's 200 would be slower), and the same bound on a batch (a smaller one for the join,
whose state does not fit into Spark's heap of 1 GB otherwise: the query dies). Nothing of Headwater is
imported, for memory is measured too.
"""

import json
import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, types
from pyspark.sql import functions as F

from bench.functions import BY_CASE

Read = dict[str, str]  # a topic's name, its schema as Spark writes it, its event time


def main(case: str, address: str, jars: str, output: str, key: str, folder: str, reads: str) -> None:
    began = time.monotonic()
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", jars)
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    started = time.monotonic()
    rows = BY_CASE[case](*(_read(spark, address, one, case) for one in json.loads(reads)))
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


def _read(spark: SparkSession, address: str, topic: Read, case: str) -> DataFrame:
    raw = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", address)
        .option("subscribe", topic["name"])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 250_000 if case == "join" else 1_000_000)
        .load()
    )
    schema = types.StructType.fromJson(json.loads(topic["schema"]))
    rows = raw.select(F.from_json(F.col("value").cast("string"), schema).alias("row")).select("row.*")
    return rows if case == "filter" else rows.withWatermark(topic["event_time"], "10 seconds")


if __name__ == "__main__":
    main(*sys.argv[1:])
