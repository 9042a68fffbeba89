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

_LAST, _NEW, _TIMING = "_last", "_new", "_timing"


def pane(timing: Column, number: Column, is_last: Column, *, is_retraction: bool = False) -> Column:
    """What a pane says of itself."""
    return F.struct(timing, number, is_last, F.lit(is_retraction)).cast(PANE)


def latest(said: DataFrame, by: Sequence[str]) -> DataFrame:
    """The last pane of each window."""
    whole = F.max_by(F.struct("*"), F.col("pane.number")).alias(_LAST)
    return said.where("NOT pane.is_retraction").groupBy(*by, "window").agg(whole).select(f"{_LAST}.*")


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
        keys = [*self.by, "window"]
        before = latest(said, self.by).select(
            *(F.col(one).alias(f"_of_{one}") for one in keys), F.struct("*").alias(_LAST)
        )
        same = [F.col(one).eqNullSafe(F.col(f"_of_{one}")) for one in keys]
        joined = rows.join(before, same, "left").withColumn(_NEW, self._is_new)
        if self.style == "discarding":
            joined = joined.where(_NEW)
        counted = joined.groupBy(*keys).agg(
            *(one.value.alias(one.name) for one in self.measures),
            F.count_if(_NEW).alias(_NEW),
            F.any_value(_LAST).alias(_LAST),
        )
        due = counted.withColumn(_TIMING, self._timing).where(F.col(_TIMING).isNotNull())
        return self._written(due.withColumn("pane", self._pane), keys)

    @property
    def _is_new(self) -> Column:
        """Whether a row came after its window last spoke."""
        return F.col(BATCH) > F.coalesce(F.col(f"{_LAST}.{SPOKE_IN}"), F.lit(-1))

    @property
    def _timing(self) -> Column:
        end, since, at = F.unix_micros("window.end"), self.moment.since, self.moment.at
        new, early, late = F.col(_NEW), self.trigger.early, self.trigger.late
        is_complete, was_open = self.moment.is_complete(end), self.moment.was_open(end)
        is_early = F.lit(False) if early is None else early.is_due(new, since, at)
        return (
            F.when(is_complete & was_open, "on-time")
            .when(~is_complete & is_early, "early")
            .when(~was_open & late.is_due(new, since, at), "late")
        )

    @property
    def _pane(self) -> Column:
        number = F.coalesce(F.col(f"{_LAST}.pane.number") + 1, F.lit(0))
        return pane(F.col(_TIMING), number, self.moment.is_past(F.unix_micros("window.end")))

    def _written(self, due: DataFrame, keys: list[str]) -> DataFrame:
        """The panes in the columns of the answer, with what they take back."""
        names = [*keys, *(one.name for one in self.measures), "pane"]
        new = due.select(*names)
        if self.style == "retracting":
            back = due.where(F.col(_LAST).isNotNull()).select(f"{_LAST}.*").select(*names)
            taken = pane(F.col("pane.timing"), F.col("pane.number"), F.lit(False), is_retraction=True)
            new = back.withColumn("pane", taken).unionByName(new)
        return new.withColumn(SPOKE_IN, F.lit(self.moment.number).cast("bigint"))
