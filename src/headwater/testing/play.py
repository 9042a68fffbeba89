"""Play: a pipeline as a real query of Spark over topics in memory, brought to rest after every move.

What runs it is an engine (testing/engines.py); here is who feeds, and waits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headwater.app import Pipeline
from headwater.clock import EPOCH
from headwater.log.late_letter import LateLetter
from headwater.run.failure import told
from headwater.run.plan import blamed
from headwater.run.steps import steps_of
from headwater.run.timekeeper import Timekeeper
from headwater.run.witness import Told
from headwater.settings import Settings
from headwater.testing.engines import Clock, Engine, Native, OnColumnarState
from headwater.testing.lateness import Lateness
from headwater.testing.memory import MemoryRecord, MemoryTopic
from headwater.testing.planned import PlannedInMemory

_OPTIONS = {"spark.sql.shuffle.partitions": "1", "spark.sql.session.timeZone": "UTC"}
_MILLISECOND = timedelta(milliseconds=1)


class Batch(NamedTuple):
    """A batch that has run: what came out, what the workers saw, and how many rows were dropped."""

    number: int
    rows: list[dict[str, Any]]
    told: Mapping[str, Told]
    dropped: int = 0


class Play:
    """One pipeline under way; `now` is the virtual clock, `folder` is for its checkpoint."""

    def __init__(self, pipeline: Pipeline, spark: SparkSession, folder: Path, now: Clock) -> None:
        self.pipeline = in_memory(pipeline)
        self._spark = spark.newSession()
        for name, value in _OPTIONS.items():
            self._spark.conf.set(name, value)
        self.topics = {one.topic.name: MemoryTopic(one, self._spark) for one in self.pipeline.sources}
        self._checkpoint, self._batches = folder / "checkpoint", list[Batch]()
        given = self.pipeline, self._spark, Settings(home=folder)
        steps, planned = steps_of(pipeline, self._spark), PlannedInMemory(self._checkpoint, self.topics)
        self._engine: Engine = (
            Native(*given, planned, now) if steps is None else OnColumnarState(steps, *given, planned, now)
        )
        diverts = pipeline.late_topic is not None
        self._lateness = Lateness(*given, diverts=diverts) if self.keeper else None
        self._engine.query = self._query = self._started()
        self._rest()  # until then it has no watermark to ask for

    def _started(self) -> StreamingQuery:
        rows = self._engine.stream([one.raw for one in self.topics.values()])
        writer = rows.writeStream.outputMode(self.pipeline.output).foreachBatch(self._run)
        with blamed(self.pipeline):
            return writer.option("checkpointLocation", self._checkpoint.as_uri()).start()

    @property
    def keeper(self) -> Timekeeper | None:
        """The pipeline's event time, if it has one."""
        return self._engine.keeper

    def feed(self, topic: str, records: Sequence[MemoryRecord]) -> list[Batch]:
        """Feed records in one batch; tells which batches ran until nothing was left to do."""
        self.topics[topic].append(records)
        return self._rest()

    def advance(self, watermark: datetime) -> list[Batch]:
        """Move the watermark."""
        self._engine.advance((watermark - EPOCH) // _MILLISECOND)
        return self.tick()

    def tick(self) -> list[Batch]:
        """Run a batch without rows, so that the watermark is worked out anew."""
        return self.feed(next(iter(self.topics)), [])

    @property
    def watermark(self) -> datetime | None:
        """How far event time has come."""
        millis = self._engine.watermark
        return EPOCH + millis * _MILLISECOND if millis else None

    @property
    def is_asleep(self) -> bool:
        """Whether a tick would wake it in production: all is silent, and there are rows that wait."""
        spec = self.pipeline.watermark
        if self.keeper is None or spec is None or spec.idle is None:
            return False
        return self.keeper.is_silent() and self._engine.has_state

    @property
    def speaks_at(self) -> datetime | None:
        """When a step has something to say although nothing comes."""
        return self._engine.speaks_at

    def late(self, batch: Batch) -> list[LateLetter]:
        """The records that were late in a batch."""
        before = self._engine.batches.batch(batch.number - 1)
        if self._lateness is None or before is None:
            return []
        return self._lateness.find(batch.told, before.watermark)

    def stop(self) -> None:
        """End it."""
        self._query.stop()

    def _run(self, rows: DataFrame, number: int) -> None:
        found = self._engine.run(rows, number)
        self._batches.append(Batch(number, found, self.keeper.told(number) if self.keeper else {}))

    def _rest(self) -> list[Batch]:
        try:
            self._query.processAllAvailable()
        except Exception as error:
            raise told(error, self.pipeline.name) from error
        ran, self._batches = self._batches, []
        dropped = self._engine.dropped
        return [one._replace(dropped=dropped.get(one.number, 0)) for one in ran]


def in_memory(pipeline: Pipeline) -> Pipeline:
    """The pipeline as it is rehearsed: plain JSON, and batch by batch."""
    reads = [replace(one, topic=replace(one.topic, format="json")) for one in pipeline.sources]
    return replace(pipeline, reads=reads, latency="micro-batch")
