"""Keeping: the folders that a step's next batch starts from, out of what the batch before left.

What no row to come can reach is let go, and many small folders become one. A merging step says itself which
of its rows remain.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater.app import Pipeline
from headwater.errors import StateMismatch
from headwater.run.manifest import Folder, Kept, Manifest, alive, horizon, to_merge
from headwater.run.shelf import Shelf
from headwater.run.steps import Met, Steps
from headwater.run.writing import merged

Folders = tuple[Folder, ...]


@dataclass(frozen=True)
class Keeping:
    """The state of one step after a batch."""

    met: Met
    manifest: Manifest

    @property
    def alive(self) -> Folders:
        """The folders that a row to come can reach."""
        return alive(self._kept.folders, self._least)

    def next(
        self, number: int, said: Folder | None, added: Folder | None, shelf: Shelf
    ) -> tuple[Folders, Folder | None, Folders]:
        """What the next batch starts from, what it adds, and what was said before it."""
        return self._state(number, shelf), added, self._said(number, said, shelf)

    @property
    def _kept(self) -> Kept:
        return self.manifest.steps[self.met.name]

    @property
    def _least(self) -> int | None:
        return horizon(self.manifest.watermark, self.met.step.reach, self.manifest.grace)

    def _state(self, number: int, shelf: Shelf) -> Folders:
        step, found = self.met.step, self.alive
        if step.is_merging and found and self.manifest.watermark > self.manifest.before:
            rows = step.remaining(shelf.read(found, self.met.state_schema), self.manifest.moment)
            return self._as_one(found, rows, number, shelf)
        many = to_merge(found)
        if not many:
            return found
        one = self._as_one(many, shelf.read(many, self.met.state_schema), number, shelf)
        return (*one, *(folder for folder in found if folder not in many))

    def _as_one(self, folders: Folders, rows: DataFrame, number: int, shelf: Shelf) -> Folders:
        name, size = shelf.name(self.met.name, number), sum(one.rows for one in folders)
        one = merged(rows, self.met.step.time(), size, self._least, name, shelf)
        return () if one is None else (one,)

    def _said(self, number: int, said: Folder | None, shelf: Shelf) -> Folders:
        """What was said of windows that can speak again."""
        least = horizon(self.manifest.watermark, timedelta(0), self.manifest.grace)
        found = alive((*self._kept.said, *((said,) if said else ())), least)
        many = to_merge(found)
        if not many:
            return found
        rows = self.met.step.latest(shelf.read(many, self.met.said_schema))
        name, size = shelf.name(self.met.name, number), sum(one.rows for one in many)
        one = merged(rows, F.unix_micros("window.end"), size, least, name, shelf)
        return (*(() if one is None else (one,)), *(folder for folder in found if folder not in many))


def nothing_yet(steps: Steps, at: datetime) -> Manifest:
    """What the first batch goes on from."""
    return Manifest(batch=-1, at=at, since=at, steps={one.name: Kept() for one in steps.met})


def checked(pipeline: Pipeline, steps: Steps, number: int, found: Manifest | None) -> Manifest:
    """The batch before; StateMismatch if it is not there, or of other steps."""
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
