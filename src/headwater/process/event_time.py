"""Event time: how long a pipeline waits for rows that are under way, and what becomes of later ones.

A watermark is a pipeline's word that it has seen everything older. A row that arrives behind it is late,
and `late` says what becomes of it; there is no default, so that the decision cannot be forgotten.

Every watermark takes two guards. An event that is stamped further than `future` ahead of the moment it was
written has a broken clock behind it: it goes to the dead letters and does not move the watermark. An input
that was silent for `idle` is left out, so that it does not hold the others back; when all are, event time
goes on with the wall clock, and the last window closes.
"""

from dataclasses import dataclass, field
from datetime import timedelta

from headwater.errors import BadPipeline
from headwater.log.topic import check_name

NONE = timedelta(0)
NEVER = timedelta(days=365_000)
"""A delay that no event time overcomes: the watermark is moved by other means."""


@dataclass(frozen=True)
class Bounded:
    """A watermark that stays `delay` behind the newest event: rows may be out of order by that much."""

    delay: timedelta
    future: timedelta | None = field(default=None, kw_only=True)
    idle: timedelta | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _check(delay=self.delay, future=self.future, idle=self.idle)


@dataclass(frozen=True)
class Monotonic:
    """A watermark for rows that are in order: each is as new as the newest, or late."""

    future: timedelta | None = field(default=None, kw_only=True)
    idle: timedelta | None = field(default=None, kw_only=True)
    delay: timedelta = field(default=NONE, init=False)

    def __post_init__(self) -> None:
        _check(future=self.future, idle=self.idle)


@dataclass(frozen=True)
class Adaptive:
    """A watermark whose delay is learned: as long as that share of the rows needs, and no longer.

    It starts with `at_most`, the careful end, until it has seen enough rows, and moves with every batch.
    """

    quantile: float = 0.99
    at_least: timedelta = field(default=NONE, kw_only=True)
    at_most: timedelta = field(default=timedelta(hours=1), kw_only=True)
    future: timedelta | None = field(default=None, kw_only=True)
    idle: timedelta | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not 0 < self.quantile < 1:
            raise BadPipeline(f"a watermark cannot wait for a share of {self.quantile} of the rows")
        _check(at_least=self.at_least, at_most=self.at_most, future=self.future, idle=self.idle)
        if self.at_least > self.at_most:
            raise BadPipeline("a watermark's at_least is more than its at_most")

    @property
    def delay(self) -> timedelta:
        """The longest that it waits."""
        return self.at_most


@dataclass(frozen=True)
class Punctuated:
    """A perfect watermark: the source itself says how far it is.

    `column` is a timestamp of the topic. Where a row has one, it says that its partition holds everything
    up to then; the partition that is furthest behind decides.
    """

    column: str
    future: timedelta | None = field(default=None, kw_only=True)
    idle: timedelta | None = field(default=None, kw_only=True)
    delay: timedelta = field(default=NEVER, init=False, repr=False)

    def __post_init__(self) -> None:
        _check(future=self.future, idle=self.idle)


@dataclass(frozen=True)
class Drop:
    """Late rows are dropped and counted."""

    grace: timedelta = field(default=NONE, init=False)


@dataclass(frozen=True)
class Grace:
    """Rows that are late by up to `grace` still count, and results wait as long; later ones are dropped."""

    grace: timedelta

    def __post_init__(self) -> None:
        _check(grace=self.grace)


@dataclass(frozen=True)
class Divert:
    """Late rows go to a topic: the original record, with the windows that it missed; each exactly once.

    With `grace`, rows that are late by up to that much still count, and results wait as long.
    """

    topic: str
    grace: timedelta = field(default=NONE, kw_only=True)

    def __post_init__(self) -> None:
        check_name(self.topic)
        _check(grace=self.grace)


@dataclass(frozen=True)
class Refire:
    """Rows that are late by up to `within` make their window speak again; later ones are dropped.

    Results do not wait. Each time it speaks again is a pane of timing `late`, and its number tells which of
    several results of a window is the newest. For `windowed`, which runs on columnar state.
    """

    within: timedelta
    grace: timedelta = field(default=NONE, init=False, repr=False)

    def __post_init__(self) -> None:
        _check(within=self.within)


Watermark = Bounded | Monotonic | Adaptive | Punctuated
Late = Drop | Grace | Divert | Refire


def _check(**durations: timedelta | None) -> None:
    for name, duration in durations.items():
        if duration is not None and duration < NONE:
            raise BadPipeline(f"{name} of a watermark or of late rows cannot be negative")
