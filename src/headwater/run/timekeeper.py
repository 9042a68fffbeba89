"""Timekeeper: event time in a running query, from what its workers saw to the watermark that Spark goes by.

For `Bounded` and `Monotonic` Spark moves its watermark itself. Where it cannot (a learned delay, a source
that says how far it is, an input that is idle) the watermark is worked out here at the end of each batch,
and Spark is told: in the batch, before it is committed, so that Spark writes it down with the batch's
commit, runs the next batch under it, and finds it again after a crash (ADR 11).
"""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from threading import Lock
from typing import Any

from pyspark.sql import SparkSession

from headwater import clock
from headwater.app import Pipeline
from headwater.clock import EPOCH, Deadline
from headwater.log.topic import Topic
from headwater.process.event_time import NONE, Adaptive, Punctuated, Watermark
from headwater.run.event_clock import EventClock, Reading
from headwater.run.history import Batches, History
from headwater.run.ticks import Ticks
from headwater.run.witness import Keeps, Told, Watch, Witness
from headwater.settings import Settings

_SHORTEST_PAUSE = timedelta(milliseconds=500)
_REMEMBERED = 5
"""Batches whose sights are kept: settling follows each batch."""


class Timekeeper:
    """The event time of one query."""

    def __init__(
        self,
        pipeline: Pipeline,
        spec: Watermark,
        spark: SparkSession,
        history: Batches,
        *,
        is_ours: bool = False,
        keeps: Keeps = "place",
        now: Callable[[], datetime] = clock.now,
    ) -> None:
        """With `is_ours`, the watermark is not Spark's: each partition counts, and it holds at once."""
        self._history, self._witness, self.now = history, Witness(pipeline, spark, keeps), now
        self._topics = [one.topic.name for one in pipeline.sources]
        grace = pipeline.late.grace if pipeline.late else NONE
        topics = dict.fromkeys(self._topics, 0)
        self._clock = EventClock(spec, topics, now(), grace=grace, by_partition=is_ours)
        self._rests_on = 1 if is_ours else 2
        self._moves_spark = spec.idle is not None or isinstance(spec, Adaptive | Punctuated)
        self._told: dict[int, dict[str, Told]] = {}
        self._newest: dict[int, dict[str, int | None]] = {}
        self._lock = Lock()
        self.reading: Reading | None = None
        """The watermark after the newest batch, and what holds it back."""

    def watch(self, topic: Topic) -> Watch:
        """What the workers that decode a topic are to look at."""
        return self._witness.watch(topic)

    def begin(self, number: int) -> None:
        """A batch is about to run: it drops what is behind the watermark of the batch before it.

        Spark's was known when the batch before it began, so it rests on the events up to two batches ago; it
        is these that a row's delay counts from. One of ours rests on the batch before.
        """
        before = self._history.batch(number - 1)
        newest = self._newest.get(number - self._rests_on, {})
        self._witness.begin(before.watermark if before else 0, newest)

    def end(self, number: int, tracker: Any) -> None:
        """A batch has run: tell Spark's tracker how far event time has come."""
        found = self.advance(number)
        if self._moves_spark and found.watermark > tracker.currentWatermark():
            tracker.setWatermark(found.watermark)

    def resume(self, reach: Mapping[str, Mapping[int, int]], found: Reading) -> None:
        """Go on from a batch that is decided: how far each partition had come, and the watermark."""
        with self._lock:
            self._clock.resume(reach, found.watermark)
            self.reading = found

    @property
    def reach(self) -> dict[str, dict[int, int]]:
        """How far each partition has come."""
        with self._lock:
            return self._clock.reach

    def advance(self, number: int) -> Reading:
        """The rows of a batch have been seen: how far event time has come."""
        told, planned = self._witness.told, self._history.batch(number)
        sights = {topic: one.sight for topic, one in told.items()}
        with self._lock:
            self.reading = self._clock.advance(sights, planned.ends if planned else {}, self.now())
            self._told[number] = told
            self._newest[number] = {one: self._clock.newest(one) for one in self._topics}
            for remembered in (self._told, self._newest):
                remembered.pop(number - _REMEMBERED, None)
            return self.reading

    def told(self, number: int) -> dict[str, Told]:
        """What the workers told of a batch; nothing of one that ran elsewhere."""
        with self._lock:
            return self._told.get(number, {})

    def is_silent(self) -> bool:
        """Whether no input has had a row for as long as the pipeline allows."""
        with self._lock:
            return self._clock.is_silent(self.now())

    def delay(self) -> timedelta:
        """How long rows are waited for at present: that of the slowest topic."""
        with self._lock:
            return max(map(self._clock.delay, self._topics))


class Times:
    """What a pipeline needs of event time while it runs, if anything: its keeper, and its ticks."""

    def __init__(
        self,
        label: str,
        pipeline: Pipeline,
        spark: SparkSession,
        settings: Settings,
        history: History,
        *,
        once: bool,
        is_ours: bool = False,
        has_clocks: bool = False,
    ) -> None:
        """With `has_clocks`, steps speak by the clock."""
        spec = pipeline.watermark if pipeline.latency == "micro-batch" else None
        self.keeper = (
            Timekeeper(pipeline, spec, spark, history, is_ours=is_ours) if spec is not None else None
        )
        self._idle = None if spec is None or once else spec.idle
        newest = history.newest
        planned = None if newest is None else history.batch(newest)
        has_ticks = planned is not None and planned.has_ticks  # Spark does not let go of a topic it has read
        self._has_run = newest is not None
        self._wakes = not once and (self._idle is not None or has_clocks)
        self._ticks = Ticks(label, settings) if self._wakes or has_ticks else None
        self._pause, self._struck = Deadline(NONE), EPOCH

    @property
    def in_the_plan(self) -> dict[str, Any]:
        """What the plan has to know."""
        watch = None if self.keeper is None else self.keeper.watch
        return {"watch": watch, "ticks": None if self._ticks is None else self._ticks.topic}

    @property
    def figures(self) -> dict[str, Any]:
        """What people are told."""
        if self.keeper is None or self.keeper.reading is None:
            return {}
        return {"held_by": self.keeper.reading.held_by, "delay": self.keeper.delay()}

    def told(self, number: int) -> dict[str, Told]:
        """What the workers told of a batch."""
        return {} if self.keeper is None else self.keeper.told(number)

    def begin(self) -> None:
        """The query has started; an earlier run may have left rows that wait for a clock, or for silence."""
        if self._has_run:
            self._wake()

    def tick(self, *, has_state: bool, speaks_at: datetime | None) -> None:
        """Wake the query up: if all is silent and has been for long enough, or when a step is to speak."""
        if not self._wakes or self.keeper is None:
            return
        if speaks_at is not None and self._struck < speaks_at <= self.keeper.now():
            self._struck = speaks_at
            self._wake()
        elif has_state and self._idle is not None and self._pause.passed and self.keeper.is_silent():
            self._pause = Deadline(max(self._idle, _SHORTEST_PAUSE))
            self._wake()

    def _wake(self) -> None:
        if self._wakes and self._ticks is not None:
            self._ticks.send()
