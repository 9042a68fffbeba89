"""Play: a pipeline as a real query of Spark over topics in memory, brought to rest after every move.

Two small functions hold what an engine is: `_hand_over` gives a batch's rows out, `_decide` says how far
event time has come. Everything else feeds and waits.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headwater.app import Pipeline
from headwater.clock import EPOCH
from headwater.errors import BadPipeline, BadRehearsal
from headwater.log.late_letter import LateLetter
from headwater.process.event_time import Divert
from headwater.run import history
from headwater.run.failure import told
from headwater.run.history import Planned
from headwater.run.late import LateRows, Stretch
from headwater.run.plan import blamed, rows_from
from headwater.run.timekeeper import Timekeeper
from headwater.run.witness import Told
from headwater.settings import Settings
from headwater.testing.memory import MemoryRecord, MemoryTopic

_OPTIONS = {"spark.sql.shuffle.partitions": "1", "spark.sql.session.timeZone": "UTC"}
_ALL = (0, 2**62)
_MILLISECOND = timedelta(milliseconds=1)


class Batch(NamedTuple):
    """A batch that has run: what came out, what the workers saw, and how many rows Spark dropped."""

    number: int
    rows: list[dict[str, Any]]
    told: Mapping[str, Told]
    dropped: int = 0


class Play:
    """One pipeline under way; `now` is the virtual clock, `folder` is for its checkpoint."""

    def __init__(
        self, pipeline: Pipeline, spark: SparkSession, folder: Path, now: Callable[[], datetime]
    ) -> None:
        self.pipeline = in_memory(pipeline)
        self._spark = spark.newSession()
        for name, value in _OPTIONS.items():
            self._spark.conf.set(name, value)
        self._folder, self._settings = folder, Settings(home=folder)
        self.topics = {one.topic.name: MemoryTopic(one, self._spark) for one in self.pipeline.sources}
        spec = self.pipeline.watermark
        self.keeper = Timekeeper(self.pipeline, spec, self._spark, self, now=now) if spec else None
        self._batches: list[Batch] = []
        self._least = 0
        self._late = self._late_rows() if pipeline.late_topic else None  # refused at once, as in production
        self._query = self._started()
        self._rest()  # until then it has no watermark to ask for

    def _started(self) -> StreamingQuery:
        raws = [one.raw for one in self.topics.values()]
        watch = self.keeper.watch if self.keeper else None
        rows = rows_from(self.pipeline, self._spark, self._settings, raws, watch=watch)
        writer = rows.writeStream.outputMode(self.pipeline.output).foreachBatch(self._run)
        with blamed(self.pipeline):
            return writer.option("checkpointLocation", (self._folder / "checkpoint").as_uri()).start()

    def feed(self, topic: str, records: Sequence[MemoryRecord]) -> list[Batch]:
        """Feed records in one batch; tells which batches ran until nothing was left to do."""
        self.topics[topic].append(records)
        return self._rest()

    def advance(self, watermark: datetime) -> list[Batch]:
        """Move the watermark."""
        self._least = (watermark - EPOCH) // _MILLISECOND
        return self.tick()

    def tick(self) -> list[Batch]:
        """Run a batch without rows, so that the watermark is worked out anew."""
        return self.feed(next(iter(self.topics)), [])

    @property
    def watermark(self) -> datetime | None:
        """How far event time has come."""
        millis = self._tracker.currentWatermark()
        return EPOCH + millis * _MILLISECOND if millis else None

    @property
    def is_asleep(self) -> bool:
        """Whether a tick would wake it in production: all is silent, and there are rows that wait."""
        spec, last = self.pipeline.watermark, self._query.lastProgress
        if self.keeper is None or spec is None or spec.idle is None or last is None:
            return False
        return self.keeper.is_silent() and any(one.numRowsTotal for one in last.stateOperators)

    def late(self, batch: Batch) -> list[LateLetter]:
        """The records that were late in a batch."""
        before = self.batch(batch.number - 1)
        if before is None or not any(one.behind for one in batch.told.values()):
            return []
        ranges = {topic: dict.fromkeys(self.topics[topic].ends, _ALL) for topic in batch.told}
        self._late = self._late or self._dropped_rows()
        return list(self._late.find(Stretch(ranges, before.watermark, batch.told)))

    def batch(self, number: int) -> Planned | None:
        """What Spark planned for a batch, from its checkpoint; where it ends, we know."""
        file = self._folder / "checkpoint" / "offsets" / str(number)
        if not file.exists():
            return None
        planned = history.read("\n".join(file.read_text().splitlines()[:2]))
        return replace(planned, ends={name: dict(one.ends) for name, one in self.topics.items()})

    def stop(self) -> None:
        """End it."""
        self._query.stop()

    def _run(self, rows: DataFrame, number: int) -> None:
        if self.keeper is not None:
            self.keeper.begin(number)
        found = self._hand_over(rows)
        if self.keeper is not None:
            self._decide(number)
        self._batches.append(Batch(number, found, self.keeper.told(number) if self.keeper else {}))

    def _hand_over(self, rows: DataFrame) -> list[dict[str, Any]]:
        """Where a pipeline's sinks would write the batch."""
        return [_plain(one) for one in _sorted(rows.toArrow()).to_pylist()]

    def _decide(self, number: int) -> None:
        """The watermark as in production, and never less than what was asked for."""
        if self.keeper is not None:
            self.keeper.end(number, self._tracker)
        if self._least > self._tracker.currentWatermark():
            self._tracker.setWatermark(self._least)

    def _rest(self) -> list[Batch]:
        try:
            self._query.processAllAvailable()
        except Exception as error:
            raise told(error, self.pipeline.name) from error
        ran, self._batches = self._batches, []
        dropped = {
            one.batchId: sum(state.numRowsDroppedByWatermark for state in one.stateOperators)
            for one in self._query.recentProgress
        }
        return [one._replace(dropped=dropped.get(one.number, 0)) for one in ran]

    def _late_rows(self) -> LateRows:
        return LateRows(self.pipeline.name, self.pipeline, self._spark, self._settings)

    def _dropped_rows(self) -> LateRows:
        try:
            return self._late_rows()
        except BadPipeline as error:
            raise BadRehearsal(
                f"pipeline {self.pipeline.name!r} may have dropped rows, and nobody can tell which",
                detail=error.message,
                hint="rehearse it without rows behind the watermark, or move that step behind the window",
            ) from error

    @property
    def _tracker(self) -> Any:
        """Spark's own keeper of this query's watermark."""
        return self._query._jsq.streamingQuery().watermarkTracker()  # noqa: SLF001 - see run/query.py


def in_memory(pipeline: Pipeline) -> Pipeline:
    """The pipeline as it is rehearsed: plain JSON, batch by batch, and with an eye on its late rows."""
    reads = [replace(one, topic=replace(one.topic, format="json")) for one in pipeline.sources]
    late = pipeline.late
    seen = Divert(pipeline.late_topic or f"{pipeline.name}.late", grace=late.grace) if late else None
    return replace(pipeline, reads=reads, late=seen, latency="micro-batch")


def _sorted(rows: pa.Table) -> pa.Table:
    """Rows of one batch come in no order; in this one they can be compared."""
    names = [one.name for one in rows.schema if not pa.types.is_nested(one.type)]
    unique = [one for one in dict.fromkeys(names) if names.count(one) == 1]
    return rows.sort_by([(one, "ascending") for one in unique]) if unique else rows


def _plain(value: Any) -> Any:
    match value:
        case datetime() if value.tzinfo:
            return value.astimezone(UTC)
        case dict():
            return {name: _plain(one) for name, one in value.items()}
        case list():
            return [_plain(one) for one in value]
    return value
