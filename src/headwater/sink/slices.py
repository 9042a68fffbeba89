"""Slices: the parts in which a batch is written, each whole or not at all, named by the data.

A batch that is tried again has the same rows, but Spark may number its partitions differently. So a
slice is not a partition's number. It is found by following the rows back to where they come from:

- `source`: each partition of the rows comes from one partition of one source topic;
- `state`: each comes from one partition of a stateful operator, whose number and count Spark itself keeps in
  the checkpoint;
- `hash`: anything else is shuffled by the record's key (without one, by its value) into a fixed number of
  slices.

What is followed is the chain of RDDs, which is what will run, and not a plan, which may change.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from pyspark.sql import DataFrame

from headwater.sink.markers import SLICES, Place

_STATEFUL = ("StateStoreRDD", "StateStoreAwareZipPartitionsRDD")
_SOURCE = "DataSourceRDD"
_KAFKA_RANGE = "KafkaBatchInputPartition"


class Slice(NamedTuple):
    """A part of a batch: the place of its marker, and the offset that the marker will have."""

    topic: str
    partition: int
    end: int

    @property
    def place(self) -> Place:
        """Where its marker stands."""
        return Place(self.topic, self.partition)


@dataclass(frozen=True)
class Slices:
    """How a batch is cut: the scheme (`source`, `state/8`, `hash/8`) and the slices in partition order."""

    scheme: str
    slices: tuple[Slice, ...]

    @property
    def is_hashed(self) -> bool:
        """Whether the rows must be shuffled to get these slices."""
        return self.scheme.startswith("hash/")

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics at whose partitions the markers stand."""
        return tuple(sorted({one.topic for one in self.slices}))


def numbered(kind: str, count: int, batch: int) -> Slices:
    """So many slices with a number and no other name."""
    return Slices(f"{kind}/{count}", tuple(Slice(SLICES, number + 1, batch + 1) for number in range(count)))


def found_in(rows: DataFrame, batch: int) -> Slices | None:
    """The slices that the rows have by themselves; None when they must be shuffled into some."""
    origins = _origins(rows._jdf.queryExecution().toRdd())  # noqa: SLF001
    if origins is None or len({_identity(one) for one in origins}) < len(origins):
        return None  # two tasks share one source, or two states one number
    if all(isinstance(one, Slice) for one in origins):
        return Slices("source", tuple(one for one in origins if isinstance(one, Slice)))
    if all(isinstance(one, int) for one in origins):
        return numbered("state", len(origins), batch)
    return None


def _identity(origin: Slice | int) -> Place | int:
    return origin.place if isinstance(origin, Slice) else origin


def _origins(rdd: Any) -> list[Slice | int] | None:
    """Where each partition of an RDD comes from: a range of a source, or a number of a state."""
    kind = rdd.getClass().getSimpleName()
    if kind in _STATEFUL:
        return list(range(rdd.getNumPartitions()))
    if kind == _SOURCE:
        return _ranges(rdd)
    dependencies = rdd.dependencies()
    parents = [dependencies.apply(at) for at in range(dependencies.size())]
    kinds = {one.getClass().getSimpleName() for one in parents}
    if kinds == {"OneToOneDependency"} and len(parents) == 1:
        return _origins(parents[0].rdd())
    if kind == "UnionRDD" and kinds == {"RangeDependency"}:
        return _joined(_origins(one.rdd()) for one in parents)
    return None  # a shuffle, a coalesce, rows from nowhere


def _joined(parts: Iterator[list[Slice | int] | None]) -> list[Slice | int] | None:
    found: list[Slice | int] = []
    for one in parts:
        if one is None:
            return None
        found += one
    return found


def _ranges(rdd: Any) -> list[Slice | int] | None:
    found: list[Slice | int] = []
    for partition in rdd.partitions():
        source = partition.inputPartition()
        if source.isEmpty() or source.get().getClass().getSimpleName() != _KAFKA_RANGE:
            return None
        given = source.get().offsetRange()
        where = given.topicPartition()
        found.append(Slice(where.topic(), where.partition(), given.untilOffset()))
    return found
