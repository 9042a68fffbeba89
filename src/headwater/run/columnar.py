"""Columnar state: what Spark has no operator for, as ordinary queries over state and batch.

The streaming query is only the decoded topics. In every batch the pipeline's function is called twice. First
the rows that its steps of ours get are written beside the state: one job, in which the workers tell how far
event time has come. With that the batch is decided, and its manifest written. Then the function is called
again, each step answers out of its state, these rows and the moment, and the sinks get what it returns.
A batch that is tried again begins with its manifest and decides nothing anew (ADR 12).
"""

from dataclasses import replace
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headwater.app import Pipeline
from headwater.process.event_time import NONE, Refire
from headwater.process.stage import on
from headwater.run.beats import Beats
from headwater.run.compiling import compiles
from headwater.run.decided import Decided
from headwater.run.event_clock import Reading
from headwater.run.keeping import Keeping, checked, nothing_yet
from headwater.run.manifest import Folder, Kept, Manifest, late_before
from headwater.run.plan import applied, blamed
from headwater.run.progress import Progress
from headwater.run.shelf import Shelf
from headwater.run.sources import tables_of
from headwater.run.stages import Answering, Gathering
from headwater.run.steps import Steps
from headwater.run.timekeeper import Timekeeper
from headwater.run.writing import Written, written

SWEEP_EVERY = 10
"""Batches between two looks for folders that nothing names any more."""

_REMEMBERED = 5


class Columnar:
    """One pipeline on columnar state, batch by batch."""

    def __init__(
        self, pipeline: Pipeline, steps: Steps, checkpoint: str, keeper: Timekeeper, history: Decided
    ) -> None:
        self._pipeline, self._steps, self._keeper = pipeline, steps, keeper
        self._checkpoint, self._history = checkpoint, history
        self._grace = pipeline.late.within if isinstance(pipeline.late, Refire) else NONE
        self._beats = Beats(steps)
        self._shelf: Shelf | None = None
        self._manifests: dict[int, Manifest] = {}
        self._said: dict[int, dict[str, Folder | None]] = {}
        self._nothing: dict[str, DataFrame] = {}
        self._persisted: DataFrame | None = None

    def answer(self, rows: DataFrame, number: int) -> DataFrame:
        """What the function returns for a batch; `rows` are of the streaming query."""
        shelf = self._open(rows.sparkSession, number)
        manifest = shelf.manifest(number)
        if manifest is None:
            manifest = shelf.decide(self._decided(rows, number, shelf))
        self._keep(manifest)
        return self._answered(rows, manifest, shelf)

    def end(self, number: int) -> None:
        """A batch's outputs are written."""
        if self._persisted is not None:
            self._persisted.unpersist()
            self._persisted = None
        if self._shelf is not None and number % SWEEP_EVERY == 0:
            said = [one for batch in self._said.values() for one in batch.values() if one is not None]
            self._shelf.sweep(self._manifests[number], self._manifests.get(number - 1), said)

    def figured(self, progress: Progress) -> Progress:
        """What Spark tells of a batch, with what it does not know."""
        return replace(progress, **self.figures(progress.batch))

    def figures(self, number: int) -> dict[str, Any]:
        """What is known of a batch; nothing once it is forgotten."""
        manifest = self._manifests.get(number)
        if manifest is None:
            return {}
        alive = [folder for one in self._steps.met for folder in Keeping(one, manifest).alive]
        return {
            "late": manifest.late,
            "watermark": manifest.watermark_at,
            "state_rows": sum(one.rows for one in alive),
            "state_bytes": sum(one.bytes for one in alive),
        }

    @property
    def speaks_at(self) -> datetime | None:
        """When a step has something to say although nothing comes; None while none has."""
        return self._beats.next

    def _open(self, spark: SparkSession, number: int) -> Shelf:
        if self._shelf is None:
            spark.conf.set(
                "spark.sql.adaptive.enabled", "false"
            )  # it would run a plan that is only looked at
            self._shelf = Shelf(self._checkpoint, spark)
        compiles(spark, self._history.size(number))
        return self._shelf

    def _keep(self, manifest: Manifest) -> None:
        self._manifests[manifest.batch] = manifest
        for remembered in (self._manifests, self._said):
            remembered.pop(manifest.batch - _REMEMBERED, None)
        self._beats.after(manifest)
        self._keeper.resume(manifest.reach, Reading(manifest.watermark, manifest.held_by))

    def _decided(self, rows: DataFrame, number: int, shelf: Shelf) -> Manifest:
        """The batch with its rows written and its watermarks known."""
        before = self._before(rows, number, shelf)
        self._keeper.begin(number)
        found = self._written(rows, number, late_before(before.watermark, self._grace), shelf)
        reading = self._keeper.advance(number)
        said = self._said.get(number - 1, {})
        steps = {
            one.name: Kept(
                *Keeping(one, before).next(number, said.get(one.name), found[one.name].folder, shelf)
            )
            for one in self._steps.met
        }
        return Manifest(
            batch=number,
            at=self._keeper.now(),
            since=before.at,
            grace=self._grace,
            before=before.watermark,
            watermark=reading.watermark,
            held_by=reading.held_by,
            reach=self._keeper.reach,
            late=sum(one.late for one in found.values()),
            steps=steps,
        )

    def _before(self, rows: DataFrame, number: int, shelf: Shelf) -> Manifest:
        """The batch that this one goes on from; what was said in it is worked out again if nobody knows."""
        if number == 0:
            return nothing_yet(self._steps, self._keeper.now())
        found = self._manifests.get(number - 1) or shelf.manifest(number - 1)
        found = checked(self._pipeline, self._steps, number, found)
        self._keep(found)
        if number - 1 not in self._said:
            self._answered(rows, found, shelf)
        return found

    def _written(self, rows: DataFrame, number: int, passed: int, shelf: Shelf) -> dict[str, Written]:
        stage = Gathering(self._nothing)
        if len(self._pipeline.sources) + len(self._steps.met) > 2:  # once decoded, read by several
            self._persisted = rows = rows.persist()
        with on(stage), blamed(self._pipeline):
            applied(self._pipeline, rows.sparkSession, tables_of(self._pipeline, rows))
        return {
            name: written(step, given, number, passed, shelf.name(name, number), shelf)
            for name, (step, given) in stage.inputs.items()
        }

    def _answered(self, rows: DataFrame, manifest: Manifest, shelf: Shelf) -> DataFrame:
        stage = Answering(self._steps, manifest, shelf)
        with on(stage), blamed(self._pipeline):
            found = applied(self._pipeline, rows.sparkSession, tables_of(self._pipeline, rows))
        self._said[manifest.batch] = stage.said
        return found
