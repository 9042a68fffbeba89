"""Columnar state: what Spark has no operator for, as ordinary queries over state and batch.

The streaming query is only the decoded topics. In every batch the pipeline's function is called twice. First
the rows that its steps of ours get are written beside the state: one job, in which the workers tell how far
event time has come. With that the batch is decided, and its manifest written. Then the function is called
again, each step answers out of its state, these rows and the moment, and the sinks get what it returns.
A batch that is tried again begins with its manifest and decides nothing anew (ADR 12).
"""

from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headwater import clock
from headwater.app import Pipeline
from headwater.errors import StateMismatch
from headwater.process.stage import Step, on
from headwater.run.event_clock import Reading
from headwater.run.history import History, Planned
from headwater.run.manifest import Folder, Kept, Manifest, horizon, to_merge
from headwater.run.plan import applied, blamed, decoded
from headwater.run.progress import Progress
from headwater.run.shelf import Shelf
from headwater.run.sources import as_one, tables_of
from headwater.run.steps import Met, Names, Steps, said_nothing
from headwater.run.timekeeper import Timekeeper
from headwater.run.writing import Written, merged, written

SWEEP_EVERY = 10
"""Batches between two looks for folders that nothing names any more."""

_REMEMBERED = 5


class DecidedHistory(History):
    """The batches of a query on columnar state: their watermarks are those of its manifests."""

    def __init__(self, checkpoint: str, spark: SparkSession) -> None:
        super().__init__(checkpoint, spark)
        self._shelf = Shelf(checkpoint, spark)

    def batch(self, number: int) -> Planned | None:
        """A batch as it was planned, with the watermark after it, as far as it is decided."""
        planned, decided = super().batch(number), self._shelf.manifest(number)
        return planned and replace(planned, watermark=decided.watermark if decided else 0)


def rows_for_steps(steps: Steps, pipeline: Pipeline, *given: Any, **more: Any) -> DataFrame:
    """The streaming DataFrame of a pipeline with steps of ours: its topics, decoded, as one."""
    for sink in pipeline.sinks:
        sink.check(steps.output)
    return as_one(pipeline, decoded(pipeline, *given, **more))


class Columnar:
    """One pipeline on columnar state, batch by batch."""

    def __init__(self, pipeline: Pipeline, steps: Steps, checkpoint: str, keeper: Timekeeper) -> None:
        self._pipeline, self._steps, self._keeper = pipeline, steps, keeper
        self._checkpoint = checkpoint
        self._shelf: Shelf | None = None
        self._manifests: dict[int, Manifest] = {}
        self._persisted: DataFrame | None = None

    def answer(self, rows: DataFrame, number: int) -> DataFrame:
        """What the function returns for a batch; `rows` are of the streaming query."""
        shelf = self._open(rows.sparkSession)
        manifest = shelf.manifest(number)
        if manifest is None:
            manifest = shelf.decide(self._decided(rows, number, shelf))
        self._keep(manifest)
        return self._said(rows, manifest, shelf)

    def end(self, number: int) -> None:
        """A batch's outputs are written."""
        if self._persisted is not None:
            self._persisted.unpersist()
            self._persisted = None
        if self._shelf is not None and number % SWEEP_EVERY == 0:
            self._shelf.sweep(self._manifests[number], self._manifests.get(number - 1))

    def figured(self, progress: Progress) -> Progress:
        """What Spark tells of a batch, with what it does not know."""
        manifest = self._manifests.get(progress.batch)
        if manifest is None:
            return progress
        alive = [one for met in self._steps.met for one in self._alive(met, manifest)]
        return replace(
            progress,
            late=manifest.late,
            watermark=manifest.watermark_at,
            state_rows=sum(one.rows for one in alive),
            state_bytes=sum(one.bytes for one in alive),
        )

    def _open(self, spark: SparkSession) -> Shelf:
        if self._shelf is None:
            spark.conf.set(
                "spark.sql.adaptive.enabled", "false"
            )  # it would run a plan that is only looked at
            self._shelf = Shelf(self._checkpoint, spark)
        return self._shelf

    def _keep(self, manifest: Manifest) -> None:
        self._manifests[manifest.batch] = manifest
        self._manifests.pop(manifest.batch - _REMEMBERED, None)
        self._keeper.resume(manifest.reach, Reading(manifest.watermark, manifest.held_by))

    def _decided(self, rows: DataFrame, number: int, shelf: Shelf) -> Manifest:
        """The batch with its rows written and its watermarks known."""
        before = self._before(number, shelf)
        self._keeper.begin(number)
        found = self._written(rows, number, before.watermark, shelf)
        reading = self._keeper.advance(number)
        return Manifest(
            batch=number,
            at=clock.now(),
            before=before.watermark,
            watermark=reading.watermark,
            held_by=reading.held_by,
            reach=self._keeper.reach,
            late=sum(one.late for one in found.values()),
            steps={
                one.name: Kept(self._state(one, before, number, shelf), found[one.name].folder)
                for one in self._steps.met
            },
        )

    def _before(self, number: int, shelf: Shelf) -> Manifest:
        """The batch that this one goes on from."""
        if number == 0:
            return Manifest(batch=-1, at=clock.now(), steps={one.name: Kept() for one in self._steps.met})
        found = self._manifests.get(number - 1) or shelf.manifest(number - 1)
        found = _checked(self._pipeline, self._steps, number, found)
        self._keep(found)
        return found

    def _written(self, rows: DataFrame, number: int, watermark: int, shelf: Shelf) -> dict[str, Written]:
        stage = _Gathering()
        if len(self._pipeline.sources) + len(self._steps.met) > 2:  # once decoded, read by several
            self._persisted = rows = rows.persist()
        with on(stage), blamed(self._pipeline):
            applied(self._pipeline, rows.sparkSession, tables_of(self._pipeline, rows))
        return {
            name: written(step, given, number, watermark, shelf.name(name, number), shelf)
            for name, (step, given) in stage.inputs.items()
        }

    def _alive(self, met: Met, manifest: Manifest) -> tuple[Folder, ...]:
        return manifest.steps[met.name].after(horizon(manifest.watermark, met.step.reach))

    def _state(self, met: Met, before: Manifest, number: int, shelf: Shelf) -> tuple[Folder, ...]:
        """The folders that a batch starts from; where there are many small ones, in fewer."""
        alive = self._alive(met, before)
        many = to_merge(alive)
        if not many:
            return alive
        rows = shelf.read(many, met.state_schema)
        least = horizon(before.watermark, met.step.reach)
        one = merged(met.step, rows, least, shelf.name(met.name, number), shelf)
        return (*(() if one is None else (one,)), *(folder for folder in alive if folder not in many))

    def _said(self, rows: DataFrame, manifest: Manifest, shelf: Shelf) -> DataFrame:
        stage = _Answering(self._steps, manifest, shelf)
        with on(stage), blamed(self._pipeline):
            return applied(self._pipeline, rows.sparkSession, tables_of(self._pipeline, rows))


class _Gathering:
    """The stage on which the rows of a batch reach the steps."""

    def __init__(self) -> None:
        self.inputs: dict[str, tuple[Step, DataFrame]] = {}
        self._names = Names()

    def play(self, step: Step, rows: DataFrame) -> DataFrame:
        self.inputs[self._names.name(step)] = step, rows
        return said_nothing(step, rows)


class _Answering:
    """The stage on which each step answers, from what a manifest names."""

    def __init__(self, steps: Steps, manifest: Manifest, shelf: Shelf) -> None:
        self._steps, self._manifest, self._shelf = steps, manifest, shelf
        self._names = Names()

    def play(self, step: Step, rows: DataFrame) -> DataFrame:  # noqa: ARG002 - they are in its folder
        met = self._steps.of(self._names.name(step))
        kept, schema = self._manifest.steps[met.name], met.state_schema
        batch = self._shelf.read((kept.added,) if kept.added else (), schema)
        state = self._shelf.read(kept.state, schema) if kept.state else None
        least = horizon(self._manifest.before, step.reach)
        if state is not None and least is not None:
            state = state.where(step.time() > least)
        return step.answer(state, batch, self._manifest.moment)


def _checked(pipeline: Pipeline, steps: Steps, number: int, found: Manifest | None) -> Manifest:
    wanted = {one.name for one in steps.met}
    if found is None:
        raise StateMismatch(
            f"batch {number} of pipeline {pipeline.name!r} goes on from a state that is not there",
            detail=f"columnar state of batch {number - 1} for {', '.join(sorted(wanted))}",
            hint="has the function changed to a step of ours? give the pipeline another name, to start over",
        )
    if wanted != set(found.steps):
        raise StateMismatch(
            f"the steps of pipeline {pipeline.name!r} are not those that its state is of",
            detail=f"steps: {', '.join(sorted(wanted))}\nstate: {', '.join(sorted(found.steps))}",
            hint='a step keeps its state under name="…"; give the pipeline another name, to start over',
        )
    return found
