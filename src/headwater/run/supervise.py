"""Supervise: every pipeline in a thread of its own, tried again when the cause passes.

A pipeline that fails for good ends alone; the others go on. Waiting between tries doubles from one
second to thirty and starts over after a batch that went well.
"""

from collections import Counter, deque
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from functools import partial
from queue import Empty
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import SparkSession

from headwater.app import App, Pipeline
from headwater.clock import Deadline
from headwater.errors import CheckpointMissing, HeadwaterError, TooManyDead
from headwater.log.connection import Connection
from headwater.run.columnar import Columnar
from headwater.run.decided import DecidedHistory
from headwater.run.divert import Diverted
from headwater.run.failure import FIRST_PAUSE, LONGEST_PAUSE, is_passing, told
from headwater.run.gate import Gate
from headwater.run.history import History
from headwater.run.late import Window
from headwater.run.plan import blamed, rows_of
from headwater.run.progress import Figures, Progress, newest_missed
from headwater.run.query import ENDED, Query, checkpoint
from headwater.run.settle import Settlement
from headwater.run.sources import rows_for_steps
from headwater.run.steps import Steps, steps_of
from headwater.run.timekeeper import Times
from headwater.settings import Settings

if TYPE_CHECKING:
    from headwater.run.captures import Captured

FINISH_WITHIN = timedelta(seconds=120)
"""How long the batch in hand may take to end before it is ended for it."""

HISTORY = 100
"""How many batches are remembered."""

_LOOK_EVERY = 0.1
_LAST_WORDS = 15.0  # seconds; Spark tells of a query's end after the end of its last batch


class Supervised:
    """One pipeline, kept running until it is stopped, is done, or fails for good.

    One that `rebuilds` copies passes no gate, and writes no letters: they were written in its first life.
    """

    def __init__(
        self, app: App, pipeline: Pipeline, spark: SparkSession, settings: Settings, *, rebuilds: bool = False
    ) -> None:
        self.figures = Figures(pipeline=pipeline.name)
        self.error: HeadwaterError | None = None
        self.history: deque[Progress] = deque(maxlen=HISTORY)
        self._pipeline = pipeline
        self._label = app.label(pipeline)
        self._spark = spark
        self._settings = settings
        self._stopping = Event()
        self._pause = FIRST_PAUSE
        self._thread = Thread(target=self._run, name=self._label, daemon=True)
        self._once = False
        self._missed = Counter[Window]()
        self._rebuilds = rebuilds
        self._gate = None if rebuilds else Gate.of(self._label, pipeline, settings)

    def start(self, *, once: bool) -> None:
        """Begin; with `once`, end when what is in the topics now is read."""
        self._once = once
        self._thread.start()

    def stop(self) -> None:
        """Ask it to end after the batch in hand."""
        self._stopping.set()

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended yet."""
        return self._thread.is_alive()

    def join(self) -> None:
        """Wait for its end."""
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._try()
            except Exception as error:  # noqa: BLE001 - whatever it is, the other pipelines go on
                if not self._waited(error):
                    return
            else:
                break
        self._now(state="done" if self._once and not self._stopping.is_set() else "stopped", error="")

    def _waited(self, error: Exception) -> bool:
        """Wait before the next try; False when there will be none."""
        self.error = told(error, self._pipeline.name)
        if not is_passing(error):
            self._now(state="failed", error=str(self.error))
            return False
        self._now(state="waiting", error=self.error.message, restarts=self.figures.restarts + 1)
        self._stopping.wait(self._pause)
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        return True

    def _try(self) -> None:
        spark = self._spark.newSession()
        steps = steps_of(self._pipeline, self._spark.newSession())
        place = checkpoint(self._label, self._settings)
        history = History(place, spark) if steps is None else DecidedHistory(place, spark)
        given = (self._label, self._pipeline, self._spark, self._settings, history)
        with closing(Settlement(*given, has_letters=not self._rebuilds)) as settlement:
            if settlement.has_begun and not history.exists:
                raise _lost(self._label, self._settings)
            self._counted(settlement.resume())
            self._query(spark, settlement, history, steps)

    def _query(
        self, spark: SparkSession, settlement: Settlement, history: History, steps: Steps | None
    ) -> None:
        given = (self._label, self._pipeline, spark, self._settings, history)
        has_clocks = steps is not None and any(one.step.clocks for one in steps.met)
        times = Times(*given, once=self._once, is_ours=steps is not None, has_clocks=has_clocks)
        kafka, starts = Connection(self._settings).for_spark(), settlement.starts()
        make = rows_of if steps is None else partial(rows_for_steps, steps)
        rows = make(self._pipeline, spark, self._settings, kafka, starts, **times.in_the_plan)
        engine = self._engine(steps, times)
        query = Query(self._pipeline, self._label, self._settings, times.keeper, engine, self._gate)
        with blamed(self._pipeline):
            query.start(spark, rows, once=self._once)
        self._now(state="running")
        try:
            times.begin()
            self._watch(query, settlement, times, engine)
        finally:
            query.stop()
        if query.failure is not None:
            raise query.failure

    def _engine(self, steps: Steps | None, times: Times) -> Columnar | None:
        if steps is None or times.keeper is None:
            return None
        place = checkpoint(self._label, self._settings)
        history = DecidedHistory(place, self._spark)
        return Columnar(self._pipeline, steps, place, times.keeper, history)

    def _watch(self, query: Query, settlement: Settlement, times: Times, engine: Columnar | None) -> None:
        """Take in what the query tells, until it has ended or may be ended."""
        patience: Deadline | None = None
        while (progress := self._heard(query)) is not ENDED:
            if isinstance(progress, Progress):
                refused = Diverted(dead=query.refused(progress.batch))
                self._took(engine.figured(progress) if engine else progress, refused, settlement, times)
                query.committed(progress.batch)
            else:
                speaks_at = engine.speaks_at if engine else None
                times.tick(has_state=self.figures.state_rows > 0, speaks_at=speaks_at)
            if self._stopping.is_set():
                patience = patience or Deadline(FINISH_WITHIN)
                query.finish()
                if query.is_between_batches or patience.passed:
                    return

    def _heard(self, query: Query) -> Progress | Literal["silence"] | None:
        """The next progress, or that there is none yet, or ENDED."""
        is_active = query.is_active
        try:
            return query.inbox.get(timeout=_LOOK_EVERY if is_active else _LAST_WORDS)
        except Empty:
            return "silence" if is_active else ENDED

    def _took(self, progress: Progress, refused: Diverted, settlement: Settlement, times: Times) -> None:
        settled = settlement.settle(progress, times.told(progress.batch)).plus(refused)
        self._now(**_figures(progress, self.figures), **times.figures)
        self.history.append(progress)
        self._pause = FIRST_PAUSE
        self._counted(settled)

    def _counted(self, settled: Diverted) -> None:
        dead, limit = self.figures.dead + settled.dead, self._pipeline.dead_limit
        late, self._missed = self.figures.late + settled.late, self._missed + settled.windows
        self._now(dead=dead, late=late, missed=newest_missed(self._missed))
        if self._pipeline.watermark is not None and self.figures.rows:
            self._now(completeness=1 - late / self.figures.rows)
        if limit is not None and dead > limit:
            raise TooManyDead(
                f"pipeline {self._pipeline.name!r} has {dead:,} dead letters, above its limit of {limit:,}",
                hint="`headwater dead list` tells why; `headwater run` goes on where it stopped",
            )

    def _now(self, **changed: Any) -> None:
        self.figures = replace(self.figures, **changed)


def _lost(label: str, settings: Settings) -> CheckpointMissing:
    return CheckpointMissing(
        f"pipeline {label!r} has read before, and its checkpoint is not there",
        detail=checkpoint(label, settings),
        hint="name the right place with HEADWATER_CHECKPOINTS; or, to start over from nothing, "
        f"`headwater groups delete {label}`",
    )


def _figures(progress: Progress, before: Figures) -> dict[str, Any]:
    """The figures after one more batch."""
    return {
        "state": "running",
        "error": "",
        "batch": progress.batch,
        "rows": before.rows + progress.rows,
        "rows_per_s": progress.rows_per_s,
        "batch_ms": progress.batch_ms,
        "lag": progress.lag,
        "watermark": progress.watermark,
        "state_rows": progress.state_rows,
        "state_bytes": progress.state_bytes,
    }


class Supervisor:
    """All pipelines of an app, running side by side on one Spark session, beside what the app captures."""

    def __init__(
        self,
        app: App,
        spark: SparkSession,
        settings: Settings,
        captures: "Sequence[Captured]" = (),
        *,
        rebuilds: bool = False,
    ) -> None:
        self.captures = captures
        self.pipelines = [Supervised(app, one, spark, settings, rebuilds=rebuilds) for one in app.pipelines]

    def start(self, *, once: bool = False) -> None:
        """Begin all."""
        for one in self.pipelines:
            one.start(once=once)

    def stop(self) -> None:
        """Ask all to end after the batch in hand."""
        for one in self.pipelines:
            one.stop()

    def join(self) -> None:
        """Wait until all have ended."""
        for one in self.pipelines:
            one.join()

    @property
    def is_alive(self) -> bool:
        """Whether any is still under way."""
        return any(one.is_alive for one in self.pipelines)

    @property
    def figures(self) -> list[Figures]:
        """How each is."""
        return [one.figures for one in self.pipelines]

    @property
    def errors(self) -> list[HeadwaterError]:
        """What ended those that failed for good, and what keeps tables from being captured now."""
        errors = [one.error for one in self.captures]
        errors += [one.error for one in self.pipelines if one.figures.state == "failed"]
        return [one for one in errors if one is not None]
