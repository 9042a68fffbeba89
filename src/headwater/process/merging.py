"""Merging: the panes of sessions, which may become one with others after they have spoken.

What a session said is taken back when it speaks again, by a row of its own: only so can a reader know that
the sessions of before are parts of the new one. A pane stands as long as it was not taken back. A session
that was made of several goes on with the highest of their numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from headwater.process.speaking import LAST, Speaking, as_retraction, of_before, same


def standing(said: DataFrame, by: Sequence[str]) -> DataFrame:
    """What was said without the panes that were taken back; retractions stay whose pane is not among it."""
    pane = Window.partitionBy(*by, "window", "pane.number")
    return said.withColumn("_times", F.count("*").over(pane)).where("_times = 1").drop("_times")


@dataclass(frozen=True)
class Merging(Speaking):
    """The sessions of one batch: who speaks, and what it takes back; `on` is the event time."""

    on: str

    def _before(self, said: DataFrame) -> DataFrame:
        can_speak = self.moment.may_speak(F.unix_micros("window.end"))
        return standing(said.where(can_speak), self.by).where("NOT pane.is_retraction")

    def _is_in(self) -> list[Column]:
        """Whether an event is in a session that has spoken; one that is still to join it is none of it."""
        at, session = F.col(self.on).cast("timestamp"), f"{LAST}.window"
        return [*same(self.by), at >= F.col(f"{session}.start"), at < F.col(f"{session}.end")]

    def _newest(self) -> Column:
        """Of the sessions that became one, the pane with the highest number."""
        return F.max_by(LAST, F.col(f"{LAST}.pane.number"))

    def _taken_back(self, due: DataFrame, before: DataFrame) -> DataFrame:
        """All that stands of the sessions that are part of one that speaks."""
        whole = due.select(*of_before(self.by), F.col("window").alias("_whole"))
        starts, ends = F.col("window.start"), F.col("window.end")
        is_part = [starts >= F.col("_whole.start"), ends <= F.col("_whole.end")]
        return as_retraction(before.join(whole, [*same(self.by), *is_part]))
