"""Gate: where a pipeline that keeps copies stops for a rebuild, before each batch.

A rebuild that is about to switch has the pipeline wait for a moment, so that the new copy has all that any
reader may have seen in the old one. Afterwards the pipeline writes to the new copy, if its code is that of
the new rows; by older code it must not. If the rebuild died in that moment, the pipeline goes on with the
copy that is there; one of other code cannot know which copy that is, and waits for the rebuild to be run
again.
"""

from contextlib import suppress
from datetime import timedelta

from headwater.app import Pipeline
from headwater.clock import wait_until
from headwater.errors import CopyRebuilt, SinkUnreachable, UnknownGroup
from headwater.log.connection import Connection
from headwater.log.groups import Groups
from headwater.run.code import code_of
from headwater.run.copies import Copies
from headwater.settings import Settings
from headwater.sink.contract import REBUILD, KeyedSink

WAIT = timedelta(seconds=30)
"""How long a batch waits for a switch before it is given up, and tried again."""


def holders(label: str) -> str:
    """The group whose one member is the rebuild of a pipeline's copies that is under way."""
    return f"{label}{REBUILD}.hold"


class Gate:
    """The gate of one pipeline (`app.pipeline`)."""

    def __init__(self, label: str, pipeline: Pipeline, settings: Settings) -> None:
        self._label, self._code = label, code_of(pipeline)
        self._copies = Copies(label, settings)
        self._groups = Groups(Connection(settings))

    @classmethod
    def of(cls, label: str, pipeline: Pipeline, settings: Settings) -> "Gate | None":
        """The gate of a pipeline; None if it keeps no copy."""
        keeps = any(isinstance(one, KeyedSink) for one in pipeline.sinks)
        return cls(label, pipeline, settings) if keeps else None

    def wait(self, within: timedelta = WAIT) -> None:
        """Return when a batch may be written; SinkUnreachable if that takes too long."""
        if not wait_until(self._is_open, within):
            raise SinkUnreachable(
                f"a rebuild is about to switch the copies of pipeline {self._label!r}",
                hint="the pipeline goes on afterwards; if no rebuild runs any more, run it again",
            )
        if self._copies.writing.codes[-1:] != (self._code,):
            self._copies.writes(self._code)

    def _is_open(self) -> bool:
        known = self._copies.look()
        if self._code in known.retired:
            raise CopyRebuilt(
                f"the copies of pipeline {self._label!r} were rebuilt with other code",
                hint="run the pipeline with that code; or run `headwater rebuild` with this one",
            )
        if not known.switching:
            return True
        return known.switching == self._code and not self._is_held()

    def _is_held(self) -> bool:
        with suppress(UnknownGroup):
            return bool(self._groups.describe(holders(self._label)).members)
        return False
