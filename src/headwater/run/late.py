"""Late rows: the records that Spark dropped from a batch, found again, with the windows that they missed.

Spark tells that rows were late, not which. The part of the pipeline's own plan in front of its state runs
over the rows behind the watermark, and finds the windows that were missed. The workers handed such rows over,
with their places, when they decoded them (run/witness.py); to divert them, their records are brought from
these places. What an earlier run has left is read once more.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache, reduce
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from headwater.app import Pipeline, Source
from headwater.clock import EPOCH
from headwater.log.late_letter import LateLetter
from headwater.log.letter import instant
from headwater.log.topic import Topic
from headwater.process.stage import on
from headwater.run.carried import CARRIED, WHOLE, carried, of_record, schema_with_record, within
from headwater.run.compiling import compiles
from headwater.run.decode import Blocks, record_column, without_deletions
from headwater.run.judge import RegistryAddress, judge_of
from headwater.run.letters import Ranges, read_again
from headwater.run.lineage import Carrier, Gate, gates, marked
from headwater.run.originals import Place, originals
from headwater.run.plan import applied, blamed
from headwater.run.steps import Gatekeeper
from headwater.run.witness import Told, rows_behind
from headwater.settings import Settings

_PLACE = itemgetter("topic", "partition", "offset")
_WINDOW = ("opens_at", "closes_at")
_BOUNDS, _NONE = itemgetter(*_WINDOW), (None, None)

Window = tuple[datetime, datetime]
Found = dict[str, Any]
"""A late row: its record, and a window that it missed."""


@dataclass(frozen=True)
class Stretch:
    """A stretch of a pipeline's topics, all of one batch.

    Rows behind the watermark (milliseconds since 1970) were late in it. What the workers told of it, where it
    is given, saves reading it again.
    """

    ranges: Mapping[str, Ranges]
    watermark: int
    told: Mapping[str, Told] = field(default_factory=dict)

    @property
    def is_told(self) -> bool:
        """Whether the workers told all."""
        return bool(self.told) and all(one.is_whole for one in self.told.values())


class LateCount(NamedTuple):
    """Late records, and how many of them each window missed."""

    records: int
    windows: Counter[Window]


class LateRows:
    """The late records of one pipeline (`app.pipeline`); BadPipeline if they could not be told."""

    def __init__(self, label: str, pipeline: Pipeline, spark: SparkSession, settings: Settings) -> None:
        self._label, self._pipeline, self._settings = label, pipeline, settings
        self._spark = spark.newSession()  # its SQL has the topics as tables, and they are others here
        self._carrier = Carrier(self._spark)
        for gate in self._gates(Stretch({}, 0)):
            self._carrier.at(gate)

    def find(self, batch: "Stretch") -> Iterator[LateLetter]:
        """The late records of a batch, or of a part of it, as letters."""
        late = self._late(batch)
        if batch.is_told:
            late = self._with_originals(list(late))
        watermark = instant(batch.watermark)
        return (self._letter(rows, watermark) for rows in late)

    def count(self, batch: "Stretch") -> "LateCount":
        """How many records of a batch were late, and for which windows."""
        records, windows = 0, Counter[Window]()
        for rows in self._late(batch):
            records += 1
            windows.update(_missed(rows))
        return LateCount(records, windows)

    def _late(self, batch: "Stretch") -> Iterator[list[Found]]:
        """The rows of each late record."""
        compiles(self._spark, 0 if batch.is_told else None)
        late = [self._behind(gate, batch.watermark) for gate in self._gates(batch)]
        if not late:
            return
        together = reduce(DataFrame.unionAll, late)
        for _, some in groupby(_told(together) if batch.is_told else _read(together), key=_PLACE):
            yield list(some)

    def _with_originals(self, late: list[list[Found]]) -> Iterator[list[Found]]:
        """The same rows, each with its record, where that is not there already."""
        places: dict[str, set[Place]] = {}
        for first, *_ in late:
            if not first["is_whole"]:
                places.setdefault(first["topic"], set()).add((first["partition"], first["offset"]))
        found = {one: originals(self._spark, one, some, self._settings) for one, some in places.items()}
        for rows in late:
            first = rows[0]
            if first["is_whole"]:
                yield rows
            elif original := found[first["topic"]].get((first["partition"], first["offset"])):
                yield [one | original for one in rows]

    def _gates(self, batch: "Stretch") -> list[Gate]:
        tables = [self._table(one, batch) for one in self._pipeline.sources]
        ours = Gatekeeper()
        with blamed(self._pipeline), on(ours):
            return [*gates(applied(self._pipeline, self._spark, tables)), *ours.gates]

    def _table(self, source: Source, batch: "Stretch") -> DataFrame:
        topic = source.topic
        rows = self._candidates(topic, batch)
        if source.record:
            rows = rows.withColumn("_record", record_column())
        return marked(rows.drop(CARRIED), topic.event_time or "")

    def _candidates(self, topic: Topic, batch: "Stretch") -> DataFrame:
        schema, ranges = schema_with_record(topic), batch.ranges.get(topic.name, {})
        told = batch.told.get(topic.name)
        if told is not None and told.is_whole:
            found = within(rows_behind(told), ranges)
            return self._spark.createDataFrame([] if found is None else found, schema)
        if not ranges:
            return self._spark.createDataFrame([], schema)
        registry = RegistryAddress.of(topic, self._settings)
        decode = LateCandidates(topic, registry, self._pipeline.future, batch.watermark)
        raw = read_again(self._spark, topic.name, ranges, self._settings)
        return raw.select(*WHOLE).mapInArrow(decode, schema)

    def _behind(self, gate: Gate, watermark: int) -> DataFrame:
        rows = self._carrier.at(gate)
        is_window = isinstance(rows.schema["closes"].dataType, spark.StructType)
        closes = F.col("closes.end" if is_window else "closes").cast("timestamp")
        window = [_micros("closes.start"), _micros("closes.end")] if is_window else [F.lit(None)] * 2
        ends = [one.cast("bigint").alias(name) for one, name in zip(window, _WINDOW, strict=True)]
        return rows.where(closes <= F.timestamp_millis(F.lit(watermark))).select("record.*", *ends)

    def _letter(self, rows: list[Found], watermark: datetime) -> LateLetter:
        first = rows[0]
        return LateLetter(
            **of_record(first, first["topic"]),
            pipeline=self._label,
            event_at=_moment(first["event_at"]),
            watermark=watermark,
            missed=_missed(rows),
        )


@dataclass(frozen=True)
class LateCandidates:
    """The function that decodes the good records of a topic that can be late, and keeps each beside its row.

    What happened after the watermark is in no window that ended before it.
    """

    topic: Topic
    registry: RegistryAddress
    future: timedelta | None
    watermark: int

    def __call__(self, blocks: Blocks) -> Blocks:
        """Decode, block by block."""
        judge = judge_of(self.topic, self.registry, self.future)
        judge.forget()
        for whole in blocks:
            block = without_deletions(whole, self.topic)
            columns, reasons = judge.columns(block["value"], block["millis"])
            made = carried(self.topic, block, columns)
            if reasons is not None:
                made = made.filter(pa.array([not one for one in reasons]))
            events = made[CARRIED].field("event_at").to_numpy()
            yield made.filter(pa.array(events <= self.watermark * 1000))


def _told(rows: DataFrame) -> list[Found]:
    """Rows that the driver had anyway."""
    return sorted(rows.toArrow().to_pylist(), key=_PLACE)


def _read(rows: DataFrame) -> Iterator[Found]:
    """Rows from the log, one part after the other."""
    parts = rows.repartition("topic", "partition").sortWithinPartitions("topic", "partition", "offset")
    return (one.asDict() for one in parts.toLocalIterator(prefetchPartitions=True))


def _missed(rows: list[Found]) -> tuple[Window, ...]:
    windows = set(map(_BOUNDS, rows)) - {_NONE}
    return tuple(_window(*one) for one in sorted(windows))


@lru_cache
def _window(opens_at: int, closes_at: int) -> Window:
    return _moment(opens_at), _moment(closes_at)


def _micros(column: str) -> Column:
    return F.unix_micros(F.col(column).cast("timestamp"))


def _moment(micros: int) -> datetime:
    return EPOCH + timedelta(microseconds=micros)
