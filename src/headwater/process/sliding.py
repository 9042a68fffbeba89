"""Sliding windows: for each event the measures over the last while, its own event included.

The law: the result of an event at t is over the events of its key in (t - within, t]. Spark's own windows
begin at fixed moments; these end at each event. With `fires="watermark"` a result comes when its window is
complete, and is the one that a batch over the past gives. With `fires="arrival"` it comes at once, from what
is known when its batch is computed: an event that comes later, though it happened before, is not in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar, Literal

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from headwater.errors import BadStep
from headwater.process.aggregates import Measure, measures_of
from headwater.process.stage import BATCH, WINDOW, Moment, Step, check_columns, event_time, play

Fires = Literal["watermark", "arrival"]
_FIRES: tuple[Fires, ...] = ("watermark", "arrival")
_IS_NEW = "_is_new"
_MICROSECOND = timedelta(microseconds=1)


def sliding(
    rows: DataFrame,
    *,
    by: str | Sequence[str],
    within: timedelta,
    measures: Sequence[Column],
    fires: Fires = "watermark",
    on: str | None = None,
    name: str | None = None,
) -> DataFrame:
    """Each row with the measures over the events of its key in (t - within, t].

    A measure is one aggregate with a name, as for `agg`. `on` names the event time where it is not clear.
    """
    keys = (by,) if isinstance(by, str) else tuple(by)
    check_columns(rows, "sliding", keys)
    if within < _MICROSECOND:
        raise BadStep("sliding cannot look back over no time", hint="within=timedelta(minutes=5)")
    if fires not in _FIRES:
        raise BadStep(f"sliding cannot fire by {fires!r}", hint=f"known: {', '.join(_FIRES)}")
    time = event_time(rows, "sliding", on)
    found = measures_of(rows, "sliding", measures, rows.columns)
    return play(Sliding(keys, within, tuple(found), fires, time, name), rows)


@dataclass(frozen=True)
class Sliding(Step):
    """The step: its state are the rows that a window to come can still reach."""

    by: tuple[str, ...]
    within: timedelta
    measures: tuple[Measure, ...]
    fires: Fires
    on: str
    name: str | None = None
    kind: ClassVar[str] = "sliding"

    @property
    def reach(self) -> timedelta:
        """A window that is still to come begins after the watermark less this."""
        return self.within

    def time(self) -> Column:
        """A row's event."""
        return F.unix_micros(F.col(self.on).cast("timestamp"))

    def closes(self) -> Column:
        """A row's window ends with its event."""
        return self.time()

    def windows(self, rows: DataFrame) -> DataFrame:
        """Each row ends a window of its own."""
        end = F.col(self.on).cast("timestamp")
        return rows.withColumn(WINDOW, F.struct((end - F.lit(self.within)).alias("start"), end.alias("end")))

    def answer(
        self,
        state: DataFrame | None,
        batch: DataFrame,
        moment: Moment,
        said: DataFrame | None = None,  # noqa: ARG002 - it speaks once of each row
    ) -> DataFrame:
        """The rows that are due, with their measures."""
        known = batch.withColumn(_IS_NEW, F.lit(True))
        if state is not None:
            known = known.unionByName(state.withColumn(_IS_NEW, F.lit(False)))
        measured = known.select("*", *(self._over(one).alias(one.name) for one in self.measures))
        return measured.where(self._is_due(moment)).drop(_IS_NEW, BATCH)

    def _over(self, measure: Measure) -> Column:
        """A measure over (t - within, t]; Spark's frames include both ends.

        Spark computes a frame that moves at both ends anew for each row, and one that only grows in one go.
        So where a measure adds up, a key with very many events costs no more than many with few.
        """
        events, back = Window.partitionBy(*self.by).orderBy(self.time()), self.within // _MICROSECOND
        if not measure.adds_up:
            return measure.value.over(events.rangeBetween(1 - back, 0))
        until = events.rangeBetween(Window.unboundedPreceding, 0)
        before = events.rangeBetween(Window.unboundedPreceding, -back)
        return measure.value.over(until) - measure.value.over(before)

    def _is_due(self, moment: Moment) -> Column:
        if self.fires == "arrival":
            return F.col(_IS_NEW)
        return moment.was_open(self.closes()) & moment.is_complete(self.closes())
