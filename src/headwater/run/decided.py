"""Decided: what a checkpoint and the manifests beside it say of a query's batches together.

Spark's offset log tells where a batch ends. Its watermark means nothing where the state is ours; the
manifest's is the one that rows were late by.
"""

from dataclasses import replace
from typing import Protocol

from pyspark.sql import SparkSession

from headwater.run.history import Batches, History, Planned
from headwater.run.manifest import Manifest, late_before
from headwater.run.progress import distance
from headwater.run.shelf import Shelf


class Decided(Batches, Protocol):
    """What is known of the batches of a query on columnar state."""

    def size(self, number: int) -> int | None:
        """How many offsets a batch goes over; None where nobody knows."""


def decided(planned: Planned | None, manifest: Manifest | None) -> Planned | None:
    """A batch as it was planned, and once it is decided the watermark that later rows are late by."""
    watermark = late_before(manifest.watermark, manifest.grace) if manifest else 0
    return planned and replace(planned, watermark=watermark)


class DecidedHistory(History):
    """The batches of a query on columnar state."""

    def __init__(self, checkpoint: str, spark: SparkSession) -> None:
        super().__init__(checkpoint, spark)
        self._shelf = Shelf(checkpoint, spark)

    def batch(self, number: int) -> Planned | None:
        """A batch; None when there is none, or when it was forgotten."""
        return decided(super().batch(number), self._shelf.manifest(number))

    def size(self, number: int) -> int | None:
        """How many offsets a batch goes over; None where nobody knows."""
        planned, before = super().batch(number), super().batch(number - 1)
        return distance(before.ends, planned.ends) if planned and before else None
