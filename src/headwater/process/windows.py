"""Windows: which stretches of event time a row belongs to. Every window is [start, end).

Tumbling, hopping and session windows are Spark's too, and in a plain `groupBy` they run on Spark's operators.
Here they are values for `windowed`, which adds triggers and panes. A window of your own is a class with the
two methods of `Windower`.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol, runtime_checkable

from pyspark.sql import Column
from pyspark.sql import functions as F

from headwater.errors import BadStep

_MICROSECOND = timedelta(microseconds=1)
_NONE = timedelta(0)
FIRST, LAST = -62_135_510_400_000_000, 253_402_128_000_000_000
"""A day inside of the first and the last instant of Python's datetime, in microseconds since 1970."""


@runtime_checkable
class Windower(Protocol):
    """Says to which windows a row belongs, by its event alone."""

    @property
    def span(self) -> timedelta | None:
        """How long after its event the last of a row's windows ends, at most; None for ever."""

    def assign(self, time: Column) -> Column:
        """An array of structs `start`, `end`; both and `time` in microseconds since 1970."""


@dataclass(frozen=True)
class Tumbling:
    """Window N is [N * size, (N + 1) * size), counted from 1970: each row is in one."""

    size: timedelta

    def __post_init__(self) -> None:
        _check("a tumbling window's size", self.size)

    @property
    def span(self) -> timedelta:
        """The window ends within its size."""
        return self.size

    def assign(self, time: Column) -> Column:
        """The one window."""
        return F.array(_window(time - F.pmod(time, _micros(self.size)), self.size))


@dataclass(frozen=True)
class Hopping:
    """Window N is [N * every, N * every + size), counted from 1970: each row is in size / every of them."""

    size: timedelta
    every: timedelta

    def __post_init__(self) -> None:
        _check("a hopping window's size", self.size)
        _check("a hopping window's every", self.every)

    @property
    def span(self) -> timedelta:
        """The last window of a row opens before it."""
        return self.size

    def assign(self, time: Column) -> Column:
        """Every window that opened in (time - size, time]."""
        last = time - F.pmod(time, _micros(self.every))
        count = -(-self.size // self.every)
        starts = [last - _micros(number * self.every) for number in range(count)]
        windows = F.array(*(_window(start, self.size) for start in starts))
        return F.filter(windows, lambda one: one["end"] > time)


@dataclass(frozen=True)
class Session:
    """Rows of a key that are at most `gap` apart: [the first event, the last event + gap)."""

    gap: timedelta

    def __post_init__(self) -> None:
        _check("a session's gap", self.gap)

    @property
    def span(self) -> timedelta:
        """A session ends a gap after its last row."""
        return self.gap

    def assign(self, time: Column) -> Column:
        """The row by itself; sessions that overlap are one."""
        return F.array(_window(time, self.gap))


@dataclass(frozen=True)
class Global:
    """One window for all time: it never ends, and only early panes tell of it. Its state has no bound."""

    @property
    def span(self) -> None:
        """It never ends."""
        return

    def assign(self, time: Column) -> Column:  # noqa: ARG002 - all are in it
        """The one window."""
        return F.array(F.struct(_instant(FIRST).alias("start"), _instant(LAST).alias("end")))


def _window(start: Column, size: timedelta) -> Column:
    return F.struct(start.alias("start"), (start + _micros(size)).alias("end"))


def _micros(duration: timedelta) -> Column:
    return _instant(duration // _MICROSECOND)


def _instant(micros: int) -> Column:
    return F.lit(micros).cast("bigint")


def _check(what: str, duration: timedelta) -> None:
    if duration <= _NONE:
        raise BadStep(f"{what} must be longer than nothing")
