"""What the tests of columnar state share: a sliding count over rows out of order, and what it must be."""

from bisect import bisect_right
from collections import Counter, defaultdict
from datetime import timedelta
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tests.run.stories import Rows, Story

from headwater import Log, Settings, Topic, sliding

MEASURED = "card string, amount double, paid_at timestamp, payments long, total double"
WITHIN = 7


def measured(payments: DataFrame, fires: Any = "watermark", name: str | None = None) -> DataFrame:
    return payments.transform(
        sliding,
        by="card",
        within=timedelta(seconds=WITHIN),
        measures=[F.count("*").alias("payments"), F.sum("amount").alias("total")],
        fires=fires,
        name=name,
    )


def at_once(payments: DataFrame) -> DataFrame:
    return measured(payments, "arrival")


def brute_force(rows: Rows) -> Counter[tuple[str, float, int]]:
    """Of each row its card, its number in the topic, and how many of its card are in its window."""
    seconds: dict[str, list[int]] = defaultdict(list)
    for card, second in rows:
        seconds[card].append(second)
    for found in seconds.values():
        found.sort()
    return Counter(
        (card, float(number), bisect_right(seconds[card], at) - bisect_right(seconds[card], at - WITHIN))
        for number, (card, at) in enumerate(rows)
    )


class SlidingStory(Story):
    """A story whose output is each row with its measures; one partition, so that rows keep their order."""

    def __init__(self, log: Log, system: Settings, spark: Any) -> None:
        super().__init__(log, system, spark, partitions=1)
        self.output = Topic(f"{self.topic.name}-out", schema=MEASURED, partitions=1)
        log.topics.create(self.output)

    def answers(self) -> Counter[tuple[str, float, int]]:
        rows = [record.value for record in self._log.read(self.output)]
        return Counter((row.card, row.amount, row.payments) for row in rows)
