"""Stage: where a step of ours stands while a pipeline's function is called, and what it is given there.

A step is one contract: out of its state, the rows of a batch and the batch's moment it makes what it has to
say. A function uses it with `df.transform(step, …)`, and stays a function from DataFrames to a DataFrame.
Who calls the function sets the stage: a running pipeline gives a step its state and the watermark. Without
anybody, the rows are a bounded past: no state, everything is in, everything closes.
"""

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

BEGINNING, END = -9_000_000_000_000_000, 9_000_000_000_000_000
"""Watermarks before and behind all events, in milliseconds."""

BATCH = "_batch"
"""The column of a state's rows that tells the batch they came with."""

MARK = "spark.watermarkDelayMs"
"""What the event time's column carries in its metadata, by Spark's own convention."""

WINDOW = "_window"
"""The column of a row's window: its `start` and its `end`."""

_TIMES = ("timestamp", "timestamp_ntz")


@dataclass(frozen=True)
class Moment:
    """When a batch is: its number, its written-down instant, and the watermark before and after its rows.

    Watermarks are milliseconds since 1970. What closed before the batch is late in it; what closes up to
    the watermark after it is complete.
    """

    number: int
    at: datetime
    before: int
    after: int

    def was_open(self, closes: Column) -> Column:
        """Whether something that closes then was open when the batch began."""
        return closes > F.lit(self.before * 1000)

    def is_complete(self, closes: Column) -> Column:
        """Whether something that closes then is complete after the batch."""
        return closes <= F.lit(self.after * 1000)


PAST = Moment(0, EPOCH, BEGINNING, END)
"""The moment of a bounded past: nothing was, and everything is in."""


class Step(Protocol):
    """A step of ours: a frozen value that says what it keeps, and answers."""

    kind: ClassVar[str]

    @property
    def name(self) -> str | None:
        """What its state stands under; by its kind and its place in the function, if it has none."""

    @property
    def reach(self) -> timedelta | None:
        """How long after its event a row can matter; None for ever."""

    def time(self) -> Column:
        """A row's event, in microseconds since 1970."""

    def closes(self) -> Column:
        """When a row is late: at or before this, in microseconds since 1970."""

    def windows(self, rows: DataFrame) -> DataFrame:
        """The rows, once for each window that they belong to, with it as the column WINDOW."""

    def answer(self, state: DataFrame | None, batch: DataFrame, moment: Moment) -> DataFrame:
        """What the step says in a batch: its state are the rows of earlier ones that can still matter."""


class Stage(Protocol):
    """Who calls a pipeline's function."""

    def play(self, step: Step, rows: DataFrame) -> DataFrame:
        """What the step says when it meets these rows."""


class _Past:
    def play(self, step: Step, rows: DataFrame) -> DataFrame:
        if rows.isStreaming:
            raise BadStep(
                f"{step.kind} cannot stand in a streaming query of Spark's own",
                hint="write it in the function of a Pipeline, or call it with a bounded DataFrame",
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
