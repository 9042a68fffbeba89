"""Rebuild: a pipeline's copies made anew beside those that readers find, and switched when they are as new.

The pipeline's function reads the log from its beginning into new copies. When it has nearly come to the end,
the pipeline itself is held at its gate (see `gate`), the last records are read, and each system switches in
its own way. Then what the log has got by the switch is read into the copies that readers find by now:
whatever came about meanwhile, nothing is missing. A rebuild that was ended, or killed, goes on where it was
when it is run again.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from math import inf
from typing import Literal

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from headwater.app import App, Pipeline
from headwater.clock import Deadline, wait_until
from headwater.errors import BadPipeline, GroupActive, RebuildBusy, SinkUnreachable, UnknownGroup
from headwater.log.log import Log
from headwater.log.member import Member
from headwater.run.again import Again
from headwater.run.code import code_of
from headwater.run.copies import TOPIC, Copies
from headwater.run.gate import holders
from headwater.run.standing import Places
from headwater.run.supervise import Supervisor
from headwater.settings import Settings
from headwater.sink.contract import REBUILD, Beside, KeyedSink

Stage = Literal["building", "switching", "finishing"]
OnProgress = Callable[[Stage, int, int, str], None]
"""What is done, how far the log is read and how far it goes (in records), and what it waits for, if so."""

NEARLY = 5.0
"""Seconds in which nearly nothing is read."""

_LESS = 0.7

_SESSION = timedelta(seconds=10)
_OTHERS_MAY_END_WITHIN = timedelta(seconds=15)
_SWITCH_WITHIN = timedelta(minutes=2)
_PAUSE = 0.2


@dataclass(frozen=True, kw_only=True)
class Rebuilt:
    """What a rebuild did: which copies, how many rows it read here, how long the pipeline was held."""

    copies: tuple[str, ...]
    rows: int
    held: timedelta
    went_on: bool
    """Whether it went on with what an earlier one had begun."""
    leaves: bool
    """Whether something of an old copy is still in use; the next rebuild removes it."""


class Rebuild:
    """The rebuild of one pipeline's copies."""

    def __init__(
        self,
        app: App,
        name: str,
        spark: SparkSession,
        settings: Settings,
        progress: OnProgress = lambda *_: None,
    ) -> None:
        pipeline = app.only([name]).pipelines[0]
        self._sinks = _copies(app, pipeline)
        self._besides: list[Beside] = [one.beside(settings) for one in self._sinks]
        self._label, self._code = app.label(pipeline), code_of(pipeline)
        self._again = Again(app, pipeline, spark, settings)
        self._log, self._copies = Log(settings), Copies(self._label, settings)
        self._progress = progress
        self._firsts: Places = {}

    def run(self) -> Rebuilt:
        """Build, switch, and remove what is not needed any more."""
        with self._held() as hold:
            went_on = self._begin()
            held = self._build(hold)
            with self._again.into(self._sinks) as running:
                self._reach(running, hold, "finishing")
            leaves = self._left()
        return Rebuilt(
            copies=tuple(f"{type(one).__name__} {one.name}" for one in self._sinks),
            rows=self._again.rows,
            held=held,
            went_on=went_on,
            leaves=leaves,
        )

    def abandon(self) -> None:
        """Remove what a rebuild that was ended or killed has left, and let the pipeline go on."""
        with self._held():
            if self._copies.look().switching:
                raise RebuildBusy(
                    f"the rebuild of the copies of pipeline {self._label!r} was killed while it switched",
                    hint="readers may have the new copies already: run it again, and it goes on",
                )
            self._clear()
            self._copies.rebuilds("")

    @contextmanager
    def _held(self) -> Iterator[Member]:
        """Be the one rebuild of these copies; one that was killed counts for a few seconds more."""
        self._copies.make_room()
        group = holders(self._label)
        try:
            with self._log.join(group, TOPIC, session=_SESSION) as hold:
                if not wait_until(lambda: _is_ours(hold, _PAUSE), _OTHERS_MAY_END_WITHIN):
                    raise RebuildBusy(
                        f"another rebuild of the copies of pipeline {self._label!r} is under way",
                        hint="wait for its end",
                    )
                yield hold
        finally:
            with suppress(UnknownGroup, GroupActive):
                self._log.groups.delete(group)

    def _begin(self) -> bool:
        """Go on with what is there, if it is of this code, or begin anew; tells which."""
        self._firsts = self._again.firsts()
        if self._firsts == self._again.ends():
            raise BadPipeline(
                f"there is nothing to rebuild from: pipeline {self._label!r} reads empty topics"
            )
        known, has_all = self._copies.look(), all(one.is_begun for one in self._besides)
        goes_on = known.building == self._code and self._again.is_begun and has_all
        if not goes_on:
            self._clear()
        if known.switching:  # it was killed in that moment, and may have switched
            self._copies.retire(self._code)
        self._copies.rebuilds(self._code)
        return goes_on

    def _build(self, hold: Member) -> timedelta:
        """Build the new copies and switch to them; tells for how long the pipeline was held."""
        new = [one.sink for one in self._besides]
        columns = self._again.columns(new)
        try:
            with self._again.into(new) as running:
                self._come_near(running, hold)
                began = time.monotonic()
                self._copies.rebuilds(self._code, switching=True)
                self._reach(running, hold, "switching")
            self._check(hold)
        except RebuildBusy:
            raise
        except (Exception, KeyboardInterrupt):
            self._copies.rebuilds(self._code)  # nothing is switched yet
            raise
        for one in self._besides:
            _switch(one, columns)
        self._copies.retire(self._code)
        return timedelta(seconds=time.monotonic() - began)

    def _come_near(self, running: Supervisor, hold: Member) -> None:
        """Return when what is still to be read is nearly nothing, or does not become less any more."""
        took = inf
        while took > NEARLY:
            before, began = took, time.monotonic()
            self._reach(running, hold, "building")
            took = time.monotonic() - began
            if took > before * _LESS:
                return

    def _reach(self, running: Supervisor, hold: Member, stage: Stage) -> None:
        """Return when all is read that the log has at this moment."""
        ends = self._again.ends()
        total = sum(ends.values()) - sum(self._firsts.values())
        for lacks in self._again.reach(running, ends):
            self._progress(stage, max(0, total - lacks), total, running.figures[0].error)
            self._check(hold)
        self._progress(stage, total, total, "")

    def _check(self, hold: Member) -> None:
        if not _is_ours(hold, 0):
            raise RebuildBusy(
                f"another rebuild of the copies of pipeline {self._label!r} has taken over",
                hint="this one stood still for too long, or was cut off from the broker",
            )

    def _left(self) -> bool:
        """Remove all that is not needed any more; tells whether something must stay."""
        try:
            self._clear()
        except SinkUnreachable:
            return True
        return False

    def _clear(self) -> None:
        self._again.forget()
        for one in self._besides:
            one.drop()


def _copies(app: App, pipeline: Pipeline) -> list[KeyedSink]:
    found = [one for one in pipeline.sinks if isinstance(one, KeyedSink)]
    if not found:
        raise BadPipeline(
            f"pipeline {pipeline.name!r} keeps no copy",
            hint="rebuild makes anew what PostgresSink, RedisSink and SearchSink keep",
        )
    if f"{pipeline.name}{REBUILD}" in {one.name for one in app.pipelines}:
        raise BadPipeline(
            f"app {app.name!r} has a pipeline {pipeline.name + REBUILD!r}",
            hint="a rebuild needs the name for itself",
        )
    return found


def _switch(one: Beside, columns: StructType) -> None:
    """Switch; again while the system is away."""
    deadline = Deadline(_SWITCH_WITHIN)
    while True:
        try:
            return one.switch(columns)
        except SinkUnreachable:
            if deadline.passed:
                raise
            time.sleep(_PAUSE)


def _is_ours(hold: Member, within: float) -> bool:
    for _ in hold.take(within):
        pass
    return bool(hold.assignment())
