"""The sliding count of bench/sliding.py, as one writes it with Spark's transformWithState in Python."""

import tempfile
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from bench.events import PAYMENTS

COUNTED = "card string, paid_at timestamp, payments long"
TEN_SECONDS = 10_000_000  # in microseconds


class Count(StatefulProcessor):
    """Keeps the times of a card's last payments."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._times = handle.getListState("times", "at long")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        new = [(row.at, row.paid_at) for row in rows]
        times: list[int] = sorted([*(at for (at,) in self._times.get()), *(at for at, _ in new)])
        oldest = timerValues.getCurrentWatermarkInMs() * 1000 - TEN_SECONDS
        for at, paid_at in new:
            count = bisect_right(times, at) - bisect_right(times, at - TEN_SECONDS)
            yield Row(card=key[0], paid_at=paid_at, payments=count)
        self._times.put([(at,) for at in times if at > oldest])

    def close(self) -> None:
        pass


def run(events: int, batch: int, address: str, jars: str) -> list[list[int]]:
    """The rows of each batch and the milliseconds that it took."""
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", jars)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "6g")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "4")
        .config(
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        )
        .getOrCreate()
    )
    options = {"kafka.bootstrap.servers": address}
    with tempfile.TemporaryDirectory() as folder:
        raw = (
            spark.readStream.format("kafka")
            .options(**options, subscribe=PAYMENTS.name, startingOffsets="earliest")
            .option("maxOffsetsPerTrigger", batch)
            .load()
        )
        out = counted(raw).select(F.to_json(F.struct("*")).alias("value"), F.col("card").alias("key"))
        query = (
            out.writeStream.format("kafka")
            .options(**options, topic="counted", checkpointLocation=folder)
            .outputMode("append")
            .start()
        )
        found: dict[int, list[int]] = {}
        while sum(rows for rows, _ in found.values()) < events and query.isActive:
            for one in query.recentProgress:
                if one["numInputRows"]:
                    found[one["batchId"]] = [one["numInputRows"], one["batchDuration"]]
            query.awaitTermination(1)
        if query.exception() is not None:
            raise SystemExit(str(query.exception()))
        query.stop()
    spark.stop()
    return [found[number] for number in sorted(found)]


def counted(raw: DataFrame) -> DataFrame:
    """Each payment with the number of its card's payments in the ten seconds up to it."""
    schema = PAYMENTS.spark_schema
    rows = raw.select(F.from_json(F.col("value").cast("string"), schema).alias("p")).select("p.*")
    timed = rows.select("card", "paid_at", F.unix_micros("paid_at").alias("at")).withWatermark(
        "paid_at", "10 seconds"
    )
    return timed.groupBy("card").transformWithState(Count(), COUNTED, "append", "eventTime")
