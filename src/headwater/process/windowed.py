"""Windowed: the measures of each key in each of its windows, in panes.

Where a plain `groupBy(F.window(…))` does, take that: it runs on Spark's own operators. This step is for
windows that Spark lacks, and for windows that speak early, again when late rows came, or in other panes than
"everything so far". Its answer has the keys, `window` as Spark has it, the measures, and `pane`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from headwater.errors import BadStep
from headwater.process.aggregates import Measure, measures_of
from headwater.process.merging import Merging, standing
from headwater.process.panes import PANES, AtWatermark, Every, Panes
from headwater.process.speaking import Speaking, latest, pane
from headwater.process.stage import WINDOW, Moment, Step, check_columns, event_time, play
from headwater.process.windows import Global, Session, Windower

ON_TIME = AtWatermark()
_RESULTS = ("window", "pane")


def windowed(
    rows: DataFrame,
    windows: Windower,
    *,
    measures: Sequence[Column],
    by: str | Sequence[str] = (),
    trigger: AtWatermark = ON_TIME,
    panes: Panes = "accumulating",
    on: str | None = None,
    name: str | None = None,
) -> DataFrame:
    """For each key and window its measures: `by`, `window`, the measures, `pane`.

    `accumulating` panes hold everything so far, `discarding` ones what is new since the pane before, and
    `retracting` ones take the pane before back by a row of its own.
    """
    keys = (by,) if isinstance(by, str) else tuple(by)
    check_columns(rows, "windowed", keys)
    if not isinstance(windows, Windower):
        raise BadStep(
            f"windowed does not know the windows {windows!r}", hint="Tumbling(timedelta(minutes=5))"
        )
    if panes not in PANES:
        raise BadStep(f"panes cannot be {panes!r}", hint=f"known: {', '.join(PANES)}")
    if isinstance(windows, Session) and _leaves_parts(trigger, panes):
        raise BadStep(
            "a session that speaks more than once has to take back what it said, "
            "for it may yet become one with another",
            hint='panes="retracting"',
        )
    if isinstance(windows, Global) and trigger.early is None:
        raise BadStep("a global window never ends", hint="trigger=AtWatermark(early=AfterCount(100))")
    time = event_time(rows, "windowed", on)
    found = measures_of(rows, "windowed", measures, [*keys, *_RESULTS])
    return play(Windowed(windows, keys, tuple(found), trigger, panes, time, name), rows)


@dataclass(frozen=True)
class Windowed(Step):
    """The step: its state are the rows of windows that may still speak."""

    windower: Windower
    by: tuple[str, ...]
    measures: tuple[Measure, ...]
    trigger: AtWatermark
    panes: Panes
    on: str
    name: str | None = None
    kind: ClassVar[str] = "windowed"

    @property
    def reach(self) -> timedelta | None:
        """A row matters as long as its last window is open; of sessions, nobody can tell from the row."""
        return None if self.is_merging else self.windower.span

    @property
    def is_merging(self) -> bool:
        """Whether windows become one with others."""
        return isinstance(self.windower, Session)

    @property
    def clocks(self) -> Sequence[Every]:
        """Of its triggers those that go by the clock."""
        return [one for one in (self.trigger.early, self.trigger.late) if isinstance(one, Every)]

    @property
    def can_refire(self) -> bool:
        """Whether its windows can speak again: sessions only if they take back what they said."""
        return not self.is_merging or self.panes == "retracting"

    def remembers(self, grace: timedelta) -> bool:
        """A window that speaks more than once has to know what it said."""
        return self.trigger.early is not None or grace > timedelta(0)

    def time(self) -> Column:
        """A row's event."""
        return F.unix_micros(F.col(self.on).cast("timestamp"))

    def closes(self) -> Column:
        """The end of a row's last window."""
        return F.array_max(self._ends())

    def closes_first(self) -> Column:
        """The end of its first one."""
        return F.array_min(self._ends())

    def _ends(self) -> Column:
        return F.transform(self.windower.assign(self.time()), lambda one: one["end"])

    def windows(self, rows: DataFrame) -> DataFrame:
        """The rows, once for each of their windows."""
        found = rows.withColumn(WINDOW, F.explode(self.windower.assign(self.time())))
        times = [F.timestamp_micros(F.col(f"{WINDOW}.{one}")).alias(one) for one in ("start", "end")]
        return found.withColumn(WINDOW, F.struct(*times))

    def answer(
        self, state: DataFrame | None, batch: DataFrame, moment: Moment, said: DataFrame | None = None
    ) -> DataFrame:
        """The panes that are due."""
        known = batch if state is None else batch.unionByName(state)
        rows = _in_sessions(self, known) if self.is_merging else self.windows(known)
        rows = rows.withColumnRenamed(WINDOW, "window").where(moment.may_speak(_end()))
        if self.remembers(moment.grace) and said is not None:
            return self._speaking(moment).panes(rows, said)
        counted = rows.groupBy(*self.by, "window").agg(*(one.value.alias(one.name) for one in self.measures))
        due = counted.where(moment.was_open(_end()) & moment.is_complete(_end()))
        return due.withColumn("pane", pane(F.lit("on-time"), F.lit(0), moment.is_past(_end())))

    def _speaking(self, moment: Moment) -> Speaking:
        given = self.by, self.measures, self.trigger, self.panes, moment
        return Merging(*given, self.on) if self.is_merging else Speaking(*given)

    def latest(self, said: DataFrame) -> DataFrame:
        """What it has to remember: the last pane of each window, or what stands of sessions."""
        return standing(said, self.by) if self.is_merging else latest(said, self.by)

    def remaining(self, rows: DataFrame, moment: Moment) -> DataFrame:
        """The rows of sessions that can still speak after a batch."""
        found = _in_sessions(self, rows)
        return found.where(~moment.is_past(F.unix_micros(f"{WINDOW}.end"))).drop(WINDOW)


def _leaves_parts(trigger: AtWatermark, panes: Panes) -> bool:
    """Whether what sessions say would be left standing when they become one."""
    return panes == "discarding" or (trigger.early is not None and panes != "retracting")


def _end() -> Column:
    return F.unix_micros("window.end")


def _in_sessions(step: Windowed, rows: DataFrame) -> DataFrame:
    """The rows with the session of their key that they are in."""
    alone = step.windows(rows)
    before = Window.partitionBy(*step.by).orderBy(f"{WINDOW}.start")
    begins = F.col(f"{WINDOW}.start") > F.lag(f"{WINDOW}.end").over(before)
    numbered = alone.withColumn("_begins", F.coalesce(begins, F.lit(True)).cast("int"))
    numbered = numbered.withColumn("_session", F.sum("_begins").over(before))
    session = Window.partitionBy(*step.by, "_session")
    whole = F.struct(
        F.min(f"{WINDOW}.start").over(session).alias("start"),
        F.max(f"{WINDOW}.end").over(session).alias("end"),
    )
    return numbered.withColumn(WINDOW, whole).drop("_begins", "_session")
