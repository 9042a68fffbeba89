"""Witness: what the workers saw of a batch while they decoded it, told to the driver with their tasks.

How far each partition has come and how late its rows were, for the watermark; and the rows that may be late
themselves, with their places, so that nobody has to read the batch a second time to count them. It travels as
Spark's accumulator. A task that runs twice tells twice, which none of this minds: maxima stay, a record has
one place in the log.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import pyarrow as pa
from pyspark import Accumulator, AccumulatorParam, TaskContext
from pyspark.sql import SparkSession

from headwater.app import Pipeline
from headwater.log.topic import Topic
from headwater.process.event_time import Adaptive, Punctuated
from headwater.run.carried import PLACE, WHOLE, carried
from headwater.run.delays import Delays
from headwater.run.event_clock import Sight

LIMIT = 8_000_000
"""Bytes of rows behind the watermark that a batch keeps; with more of them, Spark's own count stands."""

_BEHIND, _NEWEST = "headwater.behind", "headwater.newest."
Keeps = Literal["place", "record"]


class Told(NamedTuple):
    """Of one topic: the sight of it, and the rows behind the watermark (Arrow), if they are all there."""

    sight: Sight
    behind: tuple[bytes, ...] = ()
    is_whole: bool = True

    def plus(self, other: "Told") -> "Told":
        """Both."""
        is_whole = self.is_whole and other.is_whole and sum(map(len, self.behind)) < LIMIT
        behind = (*self.behind, *other.behind) if is_whole else ()
        return Told(self.sight + other.sight, behind, is_whole)


@dataclass(frozen=True)
class Watch:
    """A worker's eye on the rows of a topic."""

    told: Accumulator[dict[str, Told]] = field(repr=False, compare=False)
    topic: Topic
    reach: str
    keeps: Keeps
    learns: bool

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns of the record that it looks at."""
        return PLACE if self.keeps == "place" else WHOLE

    def saw(self, block: pa.RecordBatch, columns: list[pa.Array], reasons: list[str] | None) -> None:
        """Tell of a block, its decoded columns, and what is wrong with which of its rows."""
        names = self.topic.spark_schema.names
        if reasons is not None:
            is_good = pa.array([not one for one in reasons])
            block, columns = block.filter(is_good), [one.filter(is_good) for one in columns]
        if not len(block):
            return
        events = columns[names.index(self.topic.event_time or "")].view(pa.int64()).to_numpy()
        sight = self._sight(block, columns[names.index(self.reach)], events)
        self.told.add({self.topic.name: self._behind(sight, block, columns, events)})

    def _sight(self, block: pa.RecordBatch, reach: pa.Array, events: Any) -> Sight:
        partitions, rows, reached = block["partition"].to_numpy(), dict[int, int](), dict[int, int]()
        for one in block["partition"].unique().to_pylist():  # there is one, unless somebody has mixed them
            own = partitions == one
            rows[one] = int(own.sum())
            said = reach.filter(pa.array(own)).drop_null().view(pa.int64()).to_numpy()
            if len(said):
                reached[one] = int(said.max())
        newest = _property(f"{_NEWEST}{self.topic.name}")
        delays = Delays.of(events, newest) if self.learns and newest is not None else None
        return Sight(rows, reached, delays)

    def _behind(self, sight: Sight, block: pa.RecordBatch, columns: list[pa.Array], events: Any) -> Told:
        watermark = _property(_BEHIND)
        if watermark is None:  # a job that nobody announced
            return Told(sight, is_whole=False)
        mask = events <= watermark * 1000
        if not mask.any():
            return Told(sight)
        rows = carried(self.topic, block, columns).filter(pa.array(mask))
        return Told(sight, (_written(rows),))


class _Both(AccumulatorParam[dict[str, Told]]):
    def zero(self, value: dict[str, Told]) -> dict[str, Told]:  # noqa: ARG002
        return {}

    def addInPlace(self, value1: dict[str, Told], value2: dict[str, Told]) -> dict[str, Told]:  # noqa: N802 - Spark's
        for topic, told in value2.items():
            value1[topic] = value1[topic].plus(told) if topic in value1 else told
        return value1


class Witness:
    """What is told of a pipeline's batches, one after the other."""

    def __init__(self, pipeline: Pipeline, spark: SparkSession, keeps: Keeps = "place") -> None:
        """With `keeps="record"` late rows come with their whole records, at a cost for every row."""
        self._pipeline, self._context, self._keeps = pipeline, spark.sparkContext, keeps
        self._told = self._context.accumulator({}, _Both())

    def watch(self, topic: Topic) -> Watch:
        """What to give to the workers that decode a topic."""
        spec = self._pipeline.watermark
        reach = spec.column if isinstance(spec, Punctuated) else topic.event_time or ""
        return Watch(self._told, topic, reach, self._keeps, isinstance(spec, Adaptive))

    def begin(self, watermark: int, newest: Mapping[str, int | None]) -> None:
        """Begin a batch: what is behind the watermark is late, delays count from the `newest` events."""
        self._told.value = {}
        self._context.setLocalProperty(_BEHIND, str(watermark))
        for source in self._pipeline.sources:
            at = newest.get(source.topic.name)
            self._context.setLocalProperty(f"{_NEWEST}{source.topic.name}", "" if at is None else str(at))

    @property
    def told(self) -> dict[str, Told]:
        """What was told of each topic since the batch began."""
        return dict(self._told.value)


def rows_behind(told: Told) -> pa.Table | None:
    """The rows that were handed over."""
    tables = [pa.ipc.open_stream(one).read_all() for one in told.behind]
    return pa.concat_tables(tables) if tables else None


def _written(rows: pa.RecordBatch) -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, rows.schema) as stream:
        stream.write_batch(rows)
    return bytes(out.getvalue())


def _property(name: str) -> int | None:
    context = TaskContext.get()
    found = context.getLocalProperty(name) if context is not None else None
    return int(found) if found else None
