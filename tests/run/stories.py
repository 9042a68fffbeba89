"""What the tests of event time share: a pipeline over rows out of order, and what became of them."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from headwater import App, Bounded, Divert, KafkaSink, Log, Pipeline, Settings, Topic
from headwater.log.late import LateLetters
from headwater.log.late_letter import LateLetter
from headwater.run.supervise import Supervisor

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
PAID = "card string, amount double, paid_at timestamp"
COUNTED = "opens_at timestamp, payments long"
FLUSH = 10_000
"""Seconds after the beginning of the last event, which closes every window before it."""

Rows = list[tuple[str, int]]  # a card, and the second of its event


def tumbling(payments: DataFrame) -> DataFrame:
    return _counted(payments.groupBy(F.window("paid_at", "10 seconds").alias("w")))


def hopping(payments: DataFrame) -> DataFrame:
    return _counted(payments.groupBy(F.window("paid_at", "10 seconds", "5 seconds").alias("w")))


def session(payments: DataFrame) -> DataFrame:
    return _counted(payments.groupBy(F.session_window("paid_at", "3 seconds").alias("w"), "card"))


def shaped(payments: DataFrame) -> DataFrame:
    """Steps of all kinds between the topic and the window; each row counts twice."""
    upper = F.udf(str.upper, spark_types.StringType())
    rows = payments.where("amount >= 0").select(F.col("paid_at").alias("t"), upper("card").alias("who"))
    twice = rows.withColumn("n", F.explode(F.array(F.lit(1), F.lit(2)))).where("who LIKE 'C%'")
    return _counted(twice.groupBy(F.window("t", "10 seconds").alias("w")))


def _counted(grouped: Any) -> DataFrame:
    counted: DataFrame = grouped.agg(F.count("*").alias("payments"))
    return counted.selectExpr("w.start AS opens_at", "payments")


def distinct(payments: DataFrame) -> DataFrame:
    rows = payments.dropDuplicates(["card", "amount", "paid_at"])
    return rows.selectExpr("paid_at AS opens_at", "1L AS payments")


IN_SQL = (
    "SELECT w.start AS opens_at, count(*) AS payments "
    "FROM (SELECT window(paid_at, '10 seconds') AS w FROM {table}) GROUP BY w"
)
KINDS: dict[str, tuple[Callable[..., DataFrame], int]] = {
    "tumbling": (tumbling, 1),
    "hopping": (hopping, 2),
    "session": (session, 1),
    "distinct": (distinct, 1),
    "shaped": (shaped, 2),
}
"""A function, and in how many windows each row counts."""


class Story:
    """A pipeline over rows, run to the end of its topic; then on time, late and dead are counted."""

    def __init__(self, log: Log, system: Settings, spark: SparkSession, *, partitions: int = 2) -> None:
        name = uuid4().hex[:12]
        self.topic = Topic(f"{name}-in", schema=PAID, key="card", event_time="paid_at", partitions=partitions)
        self.output = Topic(f"{name}-out", schema=COUNTED, partitions=1)
        self.late_topic = f"{name}-late"
        self._log, self._system, self._spark = log, system, spark
        for one in (self.topic, self.output):
            log.topics.create(one)

    def feed(self, rows: Rows, *, bad: int = 0) -> None:
        with self._log.writer() as writer:
            for number, (card, second) in enumerate(rows):
                at = BEGIN + timedelta(seconds=second)
                writer.append(self.topic, {"card": card, "amount": float(number), "paid_at": at})
                if number < bad:
                    writer.append_bytes(self.topic.name, b"bad", key=card.encode())

    def pipeline(self, function: Any, *, delay: int = 5, batch: int = 50, **more: Any) -> Pipeline:
        given: dict[str, Any] = {
            "watermark": Bounded(timedelta(seconds=delay)),
            "late": Divert(self.late_topic),
            "reads": [self.topic],
        } | more
        given |= {"sql": function} if isinstance(function, str) else {"function": function}
        sink = KafkaSink(self.output)
        return Pipeline("story", writes=sink, batch=batch, **given)

    def run(self, pipeline: Pipeline) -> Supervisor:
        found = self._supervisor(pipeline)
        found.start(once=True)
        found.join()
        return found

    @contextmanager
    def live(self, pipeline: Pipeline) -> Iterator[Supervisor]:
        """The pipeline under way until the block ends."""
        found = self._supervisor(pipeline)
        found.start()
        try:
            yield found
        finally:
            found.stop()
            found.join()
        assert [str(one) for one in found.errors] == []

    def _supervisor(self, pipeline: Pipeline) -> Supervisor:
        return Supervisor(App(self.topic.name.removesuffix("-in"), pipeline), self._spark, self._system)

    def finished(self, pipeline: Pipeline) -> Supervisor:
        found = self.run(pipeline)
        assert [str(one) for one in found.errors] == []
        return found

    def counts(self) -> dict[int, int]:
        """The payments of each window, by the second when it opens."""
        rows = [record.value for record in self._log.read(self.output)]
        return {int((row.opens_at - BEGIN).total_seconds()): row.payments for row in rows}

    def says(self, counts: dict[int, int]) -> bool:
        """Whether these are its newest figures."""
        return self.counts() == counts

    def on_time(self) -> int:
        last = BEGIN + timedelta(seconds=FLUSH - 60)
        rows = [record.value for record in self._log.read(self.output)]
        return sum(row.payments for row in rows if row.opens_at < last)

    def late(self) -> list[LateLetter]:
        return [found.letter for found in LateLetters(self.late_topic, self._system).read()]


def disordered(seed: int, count: int, delay: int) -> Rows:
    """Events a tenth of a second apart, some of them much too late, and one that closes everything."""
    chance = random.Random(seed)
    seconds = [
        int(n / 10 - chance.choice([0, 0, 1, 2, delay, 3 * delay, 40]) * chance.random())
        for n in range(count)
    ]
    return [(f"c{n % 7}", max(0, second)) for n, second in enumerate(seconds)] + [("c0", FLUSH)]
