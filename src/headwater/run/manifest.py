"""Manifest: what was decided of a batch on columnar state, written down before anything of it is written out.

State is folders of rows. A manifest names those that a batch starts from and the one that it adds, with the
watermark before and after it and the batch's instant. So a batch that is tried again, by whoever, does
exactly the same, though clocks have gone on and inputs may have become idle meanwhile. Everything here is a
plain value; run/shelf.py keeps it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec

from headwater.clock import EPOCH
from headwater.process.event_time import NONE
from headwater.process.stage import BEGINNING, Moment

AT_ONCE = 8
"""Folders of one size that are merged into one."""

LARGE = 1_000_000
"""Rows of a folder that is not merged any more: it is read in pieces as it is."""

_SMALL = 4_000
_MILLISECOND, _MICROSECOND = timedelta(milliseconds=1), timedelta(microseconds=1)


@dataclass(frozen=True)
class Folder:
    """Rows of a step's state that were written together; event times in microseconds since 1970."""

    name: str
    rows: int
    bytes: int
    oldest: int
    newest: int

    @property
    def size(self) -> int:
        """Folders of a size are merged: each is about eight times as large as the one below."""
        found, rows = 0, self.rows // _SMALL
        while rows:
            found, rows = found + 1, rows // AT_ONCE
        return found


@dataclass(frozen=True)
class Kept:
    """The state of one step: what a batch starts from, what it adds, and what was said before."""

    state: tuple[Folder, ...] = ()
    added: Folder | None = None
    said: tuple[Folder, ...] = ()

    @property
    def folders(self) -> tuple[Folder, ...]:
        """All that it is when the batch is over."""
        return self.state if self.added is None else (*self.state, self.added)


def alive(folders: Iterable[Folder], horizon: int | None) -> tuple[Folder, ...]:
    """The folders that a row to come can reach."""
    return tuple(one for one in folders if horizon is None or one.newest > horizon)


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """One batch: its instant, its watermarks, how far each input was after it, and every step's state."""

    batch: int
    at: datetime
    since: datetime
    grace: timedelta = NONE
    before: int = 0
    watermark: int = 0
    held_by: str = ""
    reach: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    late: int = 0
    steps: Mapping[str, Kept] = field(default_factory=dict)

    @property
    def moment(self) -> Moment:
        """The batch, as steps see it; as long as there is no watermark, nothing is late."""
        watermarks = self.before or BEGINNING, self.watermark or BEGINNING
        return Moment(self.batch, self.at, *watermarks, since=self.since, grace=self.grace)

    @property
    def passed(self) -> int:
        """The watermark before the batch, as far as it makes rows late."""
        return late_before(self.before, self.grace)

    @property
    def watermark_at(self) -> datetime | None:
        """The watermark after the batch, if there is one yet."""
        return EPOCH + self.watermark * _MILLISECOND if self.watermark else None

    @property
    def folders(self) -> list[Folder]:
        """Every folder of its state."""
        return [one for kept in self.steps.values() for one in (*kept.folders, *kept.said)]

    def written(self) -> bytes:
        """As JSON that a person can read."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1)

    @classmethod
    def read(cls, text: str | bytes) -> "Manifest":
        """What was written."""
        return msgspec.json.decode(text, type=cls)


def late_before(watermark: int, grace: timedelta) -> int:
    """The watermark less a grace; none at all as long as there is none."""
    return max(0, watermark - grace // _MILLISECOND)


def horizon(watermark: int, reach: timedelta | None, grace: timedelta = NONE) -> int | None:
    """The event, in microseconds, up to which rows cannot matter any more; None when all can, for ever."""
    if reach is None or not watermark:
        return None
    return watermark * 1000 - (reach + grace) // _MICROSECOND


def to_merge(folders: Iterable[Folder]) -> tuple[Folder, ...]:
    """Folders to write as one: the first size of which there are enough."""
    sizes: dict[int, list[Folder]] = {}
    for one in folders:
        if one.rows < LARGE:
            sizes.setdefault(one.size, []).append(one)
    enough = [same for _, same in sorted(sizes.items()) if len(same) >= AT_ONCE]
    return tuple(enough[0]) if enough else ()
