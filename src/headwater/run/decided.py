"""Decided: what a checkpoint and the manifests beside it say of a query's batches together.

Spark's offset log tells where a batch ends. Its watermark means nothing where the state is ours; the
manifest's is the one that rows were late by.
"""

from dataclasses import replace

from pyspark.sql import SparkSession

from headwater.run.history import History, Planned
from headwater.run.manifest import late_before
from headwater.run.progress import distance
from headwater.run.shelf import Shelf


class DecidedHistory(History):
    """The batches of a query on columnar state."""

    def __init__(self, checkpoint: str, spark: SparkSession) -> None:
        super().__init__(checkpoint, spark)
        self._shelf = Shelf(checkpoint, spark)

    def batch(self, number: int) -> Planned | None:
        """A batch as it was planned, and once it is decided the watermark that later rows are late by."""
        planned, decided = super().batch(number), self._shelf.manifest(number)
        watermark = late_before(decided.watermark, decided.grace) if decided else 0
        return planned and replace(planned, watermark=watermark)

    def size(self, number: int) -> int | None:
        """How many offsets a batch goes over; None where nobody knows."""
        planned, before = super().batch(number), super().batch(number - 1)
        return distance(before.ends, planned.ends) if planned and before else None
