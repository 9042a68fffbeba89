"""Beats: when the clock of a trigger strikes next, so that a window speaks although nothing comes.

Spark runs a batch when there is something to read. Rows of which an `Every` has not spoken yet wait for its
next beat; somebody has to wake the pipeline up then, and not when nothing waits. All of it follows from the
manifests. After a restart nobody knows what waited before the first of them, and what is kept may.
"""

from datetime import datetime

from headwater.process.panes import Every
from headwater.run.manifest import Manifest
from headwater.run.steps import Steps


class Beats:
    """The clocks of a pipeline's steps."""

    def __init__(self, steps: Steps) -> None:
        self.next: datetime | None = None
        """When there is something to say next, if nothing comes until then."""
        self._clocks = [(one.name, clock) for one in steps.met for clock in one.step.clocks]
        self._waiting: set[tuple[str, Every]] = set()
        self._has_begun = False

    def after(self, batch: Manifest) -> None:
        """A batch was decided: what was due in it is said, and its other new rows wait."""
        for name, clock in self._clocks:
            kept = batch.steps[name]
            if clock.next(batch.since) <= batch.at:
                self._waiting.discard((name, clock))
            elif kept.added or (kept.folders and not self._has_begun):
                self._waiting.add((name, clock))
        self._has_begun = True
        self.next = min((clock.next(batch.at) for _, clock in self._waiting), default=None)
