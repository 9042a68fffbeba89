"""Engines: the two that run pipelines, each production's own, as a rehearsal drives them.

Where Spark runs a pipeline, its tracker keeps the watermark and its operators drop what is late. On columnar
state the manifests keep it, and each batch is decided and answered by `Columnar`, in a folder of the
rehearsal. Both get the virtual clock. Watermarks are milliseconds since 1970, 0 while nobody can tell.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headwater.app import Pipeline
from headwater.run.columnar import Columnar
from headwater.run.event_clock import Reading
from headwater.run.history import Batches
from headwater.run.plan import rows_from
from headwater.run.shelf import Shelf
from headwater.run.sources import rows_for_steps_from
from headwater.run.steps import Steps
from headwater.run.timekeeper import Timekeeper
from headwater.settings import Settings
from headwater.testing.planned import DecidedInMemory, PlannedInMemory
from headwater.testing.rows import plain_rows

Rows = list[dict[str, Any]]
Clock = Callable[[], datetime]


class Engine(Protocol):
    """What runs a pipeline's batches; `query` is set when it has started."""

    query: StreamingQuery

    @property
    def keeper(self) -> Timekeeper | None:
        """The pipeline's event time, if it has one."""

    @property
    def batches(self) -> Batches:
        """What is known of its batches."""

    def stream(self, raws: Sequence[DataFrame]) -> DataFrame:
        """The streaming query over these records."""

    def run(self, rows: DataFrame, number: int) -> Rows:
        """Run a batch; what its sinks would get."""

    @property
    def watermark(self) -> int:
        """How far event time has come."""

    def advance(self, to: int) -> None:
        """Let the watermark be no less after the next batch."""

    @property
    def has_state(self) -> bool:
        """Whether there are rows that wait."""

    @property
    def speaks_at(self) -> datetime | None:
        """When there is something to say although nothing comes."""

    @property
    def dropped(self) -> Mapping[int, int]:
        """How many rows were dropped from a batch, by those who dropped them."""


class Native:
    """Spark's own operators."""

    query: StreamingQuery

    def __init__(
        self,
        pipeline: Pipeline,
        spark: SparkSession,
        settings: Settings,
        planned: PlannedInMemory,
        now: Clock,
    ) -> None:
        self._given, self.batches, self._least = (pipeline, spark, settings), planned, 0
        spec = pipeline.watermark
        self.keeper = Timekeeper(pipeline, spec, spark, planned, keeps="record", now=now) if spec else None

    def stream(self, raws: Sequence[DataFrame]) -> DataFrame:
        """What the pipeline's function makes of the records."""
        watch = self.keeper.watch if self.keeper else None
        return rows_from(*self._given, raws, watch=watch)

    def run(self, rows: DataFrame, number: int) -> Rows:
        """The watermark is as in production, and never less than what was asked for."""
        if self.keeper is None:
            return plain_rows(rows)
        self.keeper.begin(number)
        found = plain_rows(rows)
        self.keeper.end(number, self._tracker)
        if self._least > self.watermark:
            self._tracker.setWatermark(self._least)
        return found

    @property
    def watermark(self) -> int:
        """Spark's."""
        return int(self._tracker.currentWatermark())

    def advance(self, to: int) -> None:
        """Spark is told in the batch."""
        self._least = to

    @property
    def has_state(self) -> bool:
        """As Spark figures it."""
        last = self.query.lastProgress
        return last is not None and any(one.numRowsTotal for one in last.stateOperators)

    @property
    def speaks_at(self) -> None:
        """Never."""

    @property
    def dropped(self) -> Mapping[int, int]:
        """As Spark's operators count."""
        return {
            one.batchId: sum(state.numRowsDroppedByWatermark for state in one.stateOperators)
            for one in self.query.recentProgress
        }

    @property
    def _tracker(self) -> Any:
        """Spark's own keeper of this query's watermark."""
        return self.query._jsq.streamingQuery().watermarkTracker()  # noqa: SLF001 - see run/query.py


class OnColumnarState:
    """Steps of ours."""

    query: StreamingQuery

    def __init__(
        self,
        steps: Steps,
        pipeline: Pipeline,
        spark: SparkSession,
        settings: Settings,
        planned: PlannedInMemory,
        now: Clock,
    ) -> None:
        self._given, checkpoint = (steps, pipeline, settings), planned.checkpoint.as_uri()
        self.batches = DecidedInMemory(planned, Shelf(checkpoint, spark))
        given: Any = pipeline, pipeline.watermark, spark, self.batches
        self.keeper = Timekeeper(*given, is_ours=True, keeps="record", now=now)
        self._engine = Columnar(pipeline, steps, checkpoint, self.keeper, self.batches)
        self._figures: dict[int, dict[str, Any]] = {}

    def stream(self, raws: Sequence[DataFrame]) -> DataFrame:
        """The decoded topics."""
        return rows_for_steps_from(*self._given, raws, watch=self.keeper.watch)

    def run(self, rows: DataFrame, number: int) -> Rows:
        """The answers of the steps."""
        found = plain_rows(self._engine.answer(rows, number))
        self._engine.end(number)
        self._figures[number] = self._engine.figures(number)
        return found

    @property
    def watermark(self) -> int:
        """That of the last manifest."""
        return self.keeper.reading.watermark if self.keeper.reading else 0

    def advance(self, to: int) -> None:
        """Go on as from an earlier run that had come so far."""
        self.keeper.resume({}, Reading(to, "the rehearsal"))

    @property
    def has_state(self) -> bool:
        """As the manifests name it."""
        return any(one["state_rows"] for one in list(self._figures.values())[-1:])

    @property
    def speaks_at(self) -> datetime | None:
        """As the clocks of its steps have it."""
        return self._engine.speaks_at

    @property
    def dropped(self) -> Mapping[int, int]:
        """As the steps counted when their rows were written."""
        return {number: one["late"] for number, one in self._figures.items()}
