"""Panes: when a window says something, and how what it says relates to what it said before.

A window may speak several times: early, before it is complete; on time, when the watermark reaches its end;
late, when a row within the grace of `Refire` comes after that. Each time is a pane. Triggers look at a window
once in a batch, so a window has at most one pane in a batch.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from pyspark.sql import Column
from pyspark.sql import functions as F

from headwater.clock import EPOCH
from headwater.errors import BadStep

Panes = Literal["accumulating", "discarding", "retracting"]
PANES: tuple[Panes, ...] = ("accumulating", "discarding", "retracting")
PANE = "struct<timing: string, number: int, is_last: boolean, is_retraction: boolean>"
"""What a pane says of itself: `early`, `on-time` or `late`, counted from 0 in its window."""


@dataclass(frozen=True)
class Every:
    """When the clock has passed a multiple of `duration` since the batch before, and there are new rows.

    It is the wall clock, by the instants that are written down with the batches. Where rows wait for it and
    nothing comes, the pipeline wakes itself up.
    """

    duration: timedelta

    def __post_init__(self) -> None:
        if self.duration <= timedelta(0):
            raise BadStep("a trigger cannot fire every no time", hint="Every(timedelta(seconds=10))")

    def is_due(self, rows: Column, before: datetime, at: datetime) -> Column:
        """Whether a window with so many new rows speaks in a batch at that instant."""
        return F.lit(self.next(before) <= at) & (rows > 0)

    def next(self, after: datetime) -> datetime:
        """The first multiple after an instant."""
        return EPOCH + ((after - EPOCH) // self.duration + 1) * self.duration


@dataclass(frozen=True)
class AfterCount:
    """When a window has `rows` new rows or more since it last spoke."""

    rows: int

    def __post_init__(self) -> None:
        if self.rows < 1:
            raise BadStep("a trigger cannot fire after no rows", hint="AfterCount(100)")

    def is_due(self, rows: Column, before: datetime, at: datetime) -> Column:  # noqa: ARG002 - no clock
        """Whether a window with so many new rows speaks."""
        return rows >= self.rows


@dataclass(frozen=True)
class AtWatermark:
    """When the watermark reaches the window's end; before that as `early` says, after it as `late` does.

    Late panes are of windows that `late=Refire(…)` keeps; without `late` they come with every late row.
    """

    early: Every | AfterCount | None = field(default=None, kw_only=True)
    late: Every | AfterCount = field(default=AfterCount(1), kw_only=True)
