"""Play: a pipeline as a real query of Spark over topics in memory, brought to rest after every move.

Two small functions hold what an engine is: `_hand_over` gives a batch's rows out, `_decide` says how far
event time has come. Everything else feeds and waits.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headwater.app import Pipeline
from headwater.clock import EPOCH
from headwater.errors import BadRehearsal
from headwater.log.late_letter import LateLetter
from headwater.process.event_time import Divert
from headwater.run import history
from headwater.run.failure import told
from headwater.run.history import Planned
from headwater.run.plan import blamed, rows_from
from headwater.run.steps import steps_of
from headwater.run.timekeeper import Timekeeper
from headwater.run.witness import Told
from headwater.settings import Settings
from headwater.testing.lateness import Lateness
from headwater.testing.memory import MemoryRecord, MemoryTopic
from headwater.testing.rows import plain_rows

_OPTIONS = {"spark.sql.shuffle.partitions": "1", "spark.sql.session.timeZone": "UTC"}
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
        if steps_of(pipeline, self._spark) is not None:
            raise BadRehearsal(
                f"pipeline {pipeline.name!r} runs on columnar state, which cannot be rehearsed",
                hint="call its function with a bounded DataFrame: its steps answer as they do in the end",
            )
        self._folder, self._settings = folder, Settings(home=folder)
        self.topics = {one.topic.name: MemoryTopic(one, self._spark) for one in self.pipeline.sources}
        spec = self.pipeline.watermark
        self.keeper = (
            Timekeeper(self.pipeline, spec, self._spark, self, keeps="record", now=now) if spec else None
        )
        self._batches: list[Batch] = []
        self._least = 0
        given = self.pipeline, self._spark, self._settings
        self._lateness = Lateness(*given, diverts=pipeline.late_topic is not None) if spec else None
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
        if self._lateness is None or before is None:
            return []
        return self._lateness.find(batch.told, before.watermark)

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
        return plain_rows(rows)

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
