"""Event time: how long a pipeline waits for rows that are under way, and what becomes of later ones.

A watermark is a pipeline's word that it has seen everything older. A row that arrives behind it is late,
and `late` says what becomes of it; there is no default, so that the decision cannot be forgotten.
"""

from dataclasses import dataclass, field
from datetime import timedelta

from headwater.errors import BadPipeline
from headwater.log.topic import check_name

NONE = timedelta(0)


@dataclass(frozen=True)
class Bounded:
    """A watermark that stays `delay` behind the newest event: rows may be out of order by that much.

    A row that is stamped further than `future` ahead of the moment it was written has a broken clock
    behind it: it goes to the dead letters and does not move the watermark.
    """

    delay: timedelta
    future: timedelta | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _check("a watermark's delay", self.delay)
        _check("a watermark's future", self.future)


@dataclass(frozen=True)
class Monotonic:
    """A watermark for rows that are in order: each is as new as the newest, or late."""

    future: timedelta | None = field(default=None, kw_only=True)
    delay: timedelta = field(default=NONE, init=False)

    def __post_init__(self) -> None:
        _check("a watermark's future", self.future)


@dataclass(frozen=True)
class Drop:
    """Late rows are dropped and counted."""

    grace: timedelta = field(default=NONE, init=False)


@dataclass(frozen=True)
class Grace:
    """Rows that are late by up to `period` still count, and results wait as long; later ones are dropped."""

    grace: timedelta

    def __post_init__(self) -> None:
        _check("a grace", self.grace)


@dataclass(frozen=True)
class Divert:
    """Late rows go to a topic: the original record, with the windows that it missed; each exactly once.

    With `grace`, rows that are late by up to that much still count, and results wait as long.
    """

    topic: str
    grace: timedelta = field(default=NONE, kw_only=True)

    def __post_init__(self) -> None:
        check_name(self.topic)
        _check("a grace", self.grace)


Watermark = Bounded | Monotonic
Late = Drop | Grace | Divert


def _check(what: str, duration: timedelta | None) -> None:
    if duration is not None and duration < NONE:
        raise BadPipeline(f"{what} cannot be negative")
