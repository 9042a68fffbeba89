"""Speaking: the panes of windows that speak more than once, out of their rows and what they said before.

What was said is kept as it was said. So a pane knows its number, a discarding one which rows are new to it,
and a retracting one what to take back, and a batch that is tried again says the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headwater.process.aggregates import Measure
from headwater.process.panes import PANE, AtWatermark, Panes
from headwater.process.stage import BATCH, SPOKE_IN, Moment

LAST = "_last"
"""The column of what was said last, of the window or of a part of it."""

_NEW, _TIMING = "_new", "_timing"


def pane(timing: Column, number: Column, is_last: Column, *, is_retraction: bool = False) -> Column:
    """What a pane says of itself."""
    return F.struct(timing, number, is_last, F.lit(is_retraction)).cast(PANE)


def as_retraction(panes: DataFrame) -> DataFrame:
    """Panes as they are taken back."""
    taken = pane(F.col("pane.timing"), F.col("pane.number"), F.lit(False), is_retraction=True)
    return panes.withColumn("pane", taken)


def of_before(by: Sequence[str]) -> list[Column]:
    """The keys of one side of a join under other names, for `same`."""
    return [F.col(one).alias(f"_of_{one}") for one in by]


def same(by: Sequence[str]) -> list[Column]:
    """Whether both sides of a join have the same keys."""
    return [F.col(one).eqNullSafe(F.col(f"_of_{one}")) for one in by]


def latest(said: DataFrame, by: Sequence[str]) -> DataFrame:
    """The last pane of each window."""
    whole = F.max_by(F.struct("*"), F.col("pane.number")).alias(LAST)
    return said.where("NOT pane.is_retraction").groupBy(*by, "window").agg(whole).select(f"{LAST}.*")


@dataclass(frozen=True)
class Speaking:
    """The windows of one batch: who speaks, and what."""

    by: tuple[str, ...]
    measures: tuple[Measure, ...]
    trigger: AtWatermark
    style: Panes
    moment: Moment

    def panes(self, rows: DataFrame, said: DataFrame) -> DataFrame:
        """What is said in this batch; `rows` are in their windows."""
        keys, before = [*self.by, "window"], self._before(said)
        last = before.select(*of_before(keys), F.struct("*").alias(LAST))
        joined = rows.join(last, self._is_in(), "left").withColumn(_NEW, self._is_new)
        if self.style == "discarding":
            joined = joined.where(_NEW)
        counted = joined.groupBy(*keys).agg(
            *(one.value.alias(one.name) for one in self.measures),
            F.count_if(_NEW).alias(_NEW),
            self._newest().alias(LAST),
        )
        due = counted.withColumn(_TIMING, self._timing).where(F.col(_TIMING).isNotNull())
        return self._written(due.withColumn("pane", self._pane), before, keys)

    def _before(self, said: DataFrame) -> DataFrame:
        """What stands of what was said."""
        return latest(said, self.by)

    def _is_in(self) -> list[Column]:
        """Whether a row is in a window that has spoken."""
        return same([*self.by, "window"])

    def _newest(self) -> Column:
        """What a window said last."""
        return F.any_value(LAST)

    def _taken_back(self, due: DataFrame, before: DataFrame) -> DataFrame:  # noqa: ARG002 - it is in `due`
        """What was said before of those that speak."""
        return as_retraction(due.where(F.col(LAST).isNotNull()).select(f"{LAST}.*"))

    @property
    def _is_new(self) -> Column:
        """Whether a row came after its window last spoke."""
        return F.col(BATCH) > F.coalesce(F.col(f"{LAST}.{SPOKE_IN}"), F.lit(-1))

    @property
    def _timing(self) -> Column:
        end, since, at = F.unix_micros("window.end"), self.moment.since, self.moment.at
        new, early, late = F.col(_NEW), self.trigger.early, self.trigger.late
        is_complete, was_open = self.moment.is_complete(end), self.moment.was_open(end)
        is_early = F.lit(False) if early is None else early.is_due(new, since, at)
        is_late = late.is_due(new, since, at) | (
            self.moment.is_past(end) & (new > 0)
        )  # or nobody hears of them
        return (
            F.when(is_complete & was_open, "on-time")
            .when(~is_complete & is_early, "early")
            .when(~was_open & is_late, "late")
        )

    @property
    def _pane(self) -> Column:
        number = F.coalesce(F.col(f"{LAST}.pane.number") + 1, F.lit(0))
        return pane(F.col(_TIMING), number, self.moment.is_past(F.unix_micros("window.end")))

    def _written(self, due: DataFrame, before: DataFrame, keys: list[str]) -> DataFrame:
        """The panes in the columns of the answer, with what they take back."""
        names = [*keys, *(one.name for one in self.measures), "pane"]
        new = due.select(*names)
        if self.style == "retracting":
            new = self._taken_back(due, before).select(*names).unionByName(new)
        return new.withColumn(SPOKE_IN, F.lit(self.moment.number).cast("bigint"))
