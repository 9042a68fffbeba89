"""Stage: where a step of ours stands while a pipeline's function is called, and what it is given there.

A step is one contract: out of its state, the rows of a batch and the batch's moment it makes what it has to
say. A function uses it with `df.transform(step, …)`, and stays a function from DataFrames to a DataFrame.
Who calls the function sets the stage: a running pipeline gives a step its state and the watermark. Without
anybody, the rows are a bounded past: no state, everything is in, everything closes.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar, Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headwater.clock import EPOCH
from headwater.errors import BadStep
from headwater.process.event_time import NONE
from headwater.process.panes import Every

BEGINNING, END = -9_000_000_000_000_000, 9_000_000_000_000_000
"""Watermarks before and behind all events, in milliseconds."""

BATCH = "_batch"
"""The column of a state's rows that tells the batch they came with."""

MARK = "spark.watermarkDelayMs"
"""What the event time's column carries in its metadata, by Spark's own convention."""

SPOKE_IN = "_spoke_in"
"""The column of what a step said that tells the batch."""

WINDOW = "_window"
"""The column of a row's window: its `start` and its `end`."""

_MICROSECOND = timedelta(microseconds=1)
_TIMES = ("timestamp", "timestamp_ntz")


@dataclass(frozen=True)
class Moment:
    """When a batch is: its number, its written-down instant, and the watermark before and after its rows.

    Watermarks are milliseconds since 1970. What closed before the batch is late in it; what closes up to
    the watermark after it is complete. `since` is the instant of the batch before, and `grace` how long
    what has closed may speak again.
    """

    number: int
    at: datetime
    before: int
    after: int
    since: datetime = EPOCH
    grace: timedelta = NONE

    def may_speak(self, closes: Column) -> Column:
        """Whether something that closes then can still speak, be it late."""
        return closes > F.lit(self.before * 1000 - self.grace // _MICROSECOND)

    def is_past(self, closes: Column) -> Column:
        """Whether something that closes then can never speak again after the batch."""
        return closes <= F.lit(self.after * 1000 - self.grace // _MICROSECOND)

    def was_open(self, closes: Column) -> Column:
        """Whether something that closes then was open when the batch began."""
        return closes > F.lit(self.before * 1000)

    def is_complete(self, closes: Column) -> Column:
        """Whether something that closes then is complete after the batch."""
        return closes <= F.lit(self.after * 1000)


PAST = Moment(0, EPOCH, BEGINNING, END)
"""The moment of a bounded past: nothing was, and everything is in."""


class Step(ABC):
    """A step of ours: a frozen value that says what it keeps, and answers."""

    kind: ClassVar[str]
    name: str | None

    @property
    @abstractmethod
    def reach(self) -> timedelta | None:
        """How long after its event a row can matter; None for ever."""

    @abstractmethod
    def time(self) -> Column:
        """A row's event, in microseconds since 1970."""

    @abstractmethod
    def closes(self) -> Column:
        """The end of a row's last window, in microseconds since 1970: behind the watermark it is not kept."""

    def closes_first(self) -> Column:
        """The end of its first window: behind the watermark it has missed one, and is late."""
        return self.closes()

    @abstractmethod
    def windows(self, rows: DataFrame) -> DataFrame:
        """The rows, once for each window that they belong to, with it as the column WINDOW."""

    @abstractmethod
    def answer(
        self, state: DataFrame | None, batch: DataFrame, moment: Moment, said: DataFrame | None = None
    ) -> DataFrame:
        """What the step says in a batch: its state are the rows of earlier ones that can still matter.

        A step that remembers gets what it said before, too, and says with SPOKE_IN in which batch it is.
        """

    @property
    def clocks(self) -> Sequence[Every]:
        """The triggers by which it may have something to say although nothing comes."""
        return ()

    @property
    def can_refire(self) -> bool:
        """Whether what has closed can speak again, when late rows come."""
        return False

    def remembers(self, grace: timedelta) -> bool:  # noqa: ARG002 - of a step that can refire
        """Whether it has to know what it said before; that has a `window`."""
        return False

    def latest(self, said: DataFrame) -> DataFrame:
        """As much of what it said as it has to know."""
        return said

    @property
    def is_merging(self) -> bool:
        """Whether only the step can tell which rows can still matter: those that are `remaining`."""
        return False

    def remaining(self, rows: DataFrame, moment: Moment) -> DataFrame:  # noqa: ARG002 - all of them
        """Of its state and a batch's rows, those that can still matter."""
        return rows


class Stage(Protocol):
    """Who calls a pipeline's function."""

    def play(self, step: Step, rows: DataFrame) -> DataFrame:
        """What the step says when it meets these rows."""


class _Past:
    def play(self, step: Step, rows: DataFrame) -> DataFrame:
        if rows.isStreaming:
            raise BadStep(
                f"{step.kind} cannot stand in a streaming query of Spark's own",
                hint="write it in the function of a Pipeline with a watermark, or call it with bounded rows",
            )
        return step.answer(None, rows.where(step.time().isNotNull()), PAST)


_STAGE: ContextVar[Stage] = ContextVar("stage", default=_Past())  # noqa: B039 - it holds nothing


@contextmanager
def on(stage: Stage) -> Iterator[None]:
    """Set the stage for the functions that are called in this block."""
    before = _STAGE.set(stage)
    try:
        yield
    finally:
        _STAGE.reset(before)


def play(step: Step, rows: DataFrame) -> DataFrame:
    """What a step says of these rows, on the present stage."""
    return _STAGE.get().play(step, rows)


def event_time(rows: DataFrame, kind: str, named: str | None) -> str:
    """The column of the event time: the named one, the topic's own, or the only timestamp there is."""
    fields = [one for one in rows.schema.fields if one.dataType.typeName() in _TIMES]
    if named is not None:
        found = [one.name for one in fields if one.name == named]
    else:
        found = [one.name for one in fields if MARK in one.metadata] or [one.name for one in fields]
    if len(found) != 1:
        raise BadStep(
            f"{kind} cannot tell the column of the event time",
            detail=f"timestamps: {', '.join(one.name for one in fields) or 'none'}",
            hint='name one of them: on="paid_at"',
        )
    return found[0]


def check_columns(rows: DataFrame, kind: str, wanted: Sequence[str]) -> None:
    """BadStep when a column is not there."""
    for one in wanted:
        if one not in rows.columns:
            raise BadStep(
                f"{kind} needs the column {one!r}, which its rows do not have",
                detail=f"columns: {', '.join(rows.columns)}",
            )
