"""Windows that Spark lacks, each in a pipeline of a bank: tests and transcripts rehearse them."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headwater import (
    AfterCount,
    App,
    AtWatermark,
    Bounded,
    Divert,
    Drop,
    Every,
    Global,
    Hopping,
    KafkaSink,
    Pipeline,
    Refire,
    Session,
    Topic,
    Tumbling,
    sliding,
    windowed,
)

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
PAYMENTS = Topic(
    "payments",
    schema="card string, amount double, paid_at timestamp",
    key="card",
    event_time="paid_at",
    partitions=2,
)
RECENT = Topic("recent", schema="card string, paid_at timestamp, payments long, total double")
PANES = Topic(
    "panes",
    schema="card string, opened_at timestamp, closed_at timestamp, payments long, "
    "pane struct<timing: string, number: int, is_last: boolean, is_retraction: boolean>",
)
TWO = AtWatermark(early=AfterCount(2))


class Shifts:
    """Windows of our own: a shift of the call centre begins at six, at fourteen and at twenty-two o'clock."""

    span = timedelta(hours=8)

    def assign(self, time: Column) -> Column:
        """The shift in which it happened; instants are microseconds since 1970."""
        length, first = F.lit(8 * 3_600_000_000), F.lit(6 * 3_600_000_000)
        start = time - F.pmod(time - first, length)
        return F.array(F.struct(start.alias("start"), (start + length).alias("end")))


def last_minute(payments: DataFrame, **more: Any) -> DataFrame:
    """For each payment, how many of its card there were in the minute up to it, and how much."""
    measures = [F.count("*").alias("payments"), F.sum("amount").alias("total")]
    found = payments.transform(sliding, by="card", within=MINUTE, measures=measures, **more)
    return found.select("card", "paid_at", "payments", "total")


def at_once(payments: DataFrame) -> DataFrame:
    """The same, without waiting."""
    return last_minute(payments, fires="arrival")


def counted(windows: Any, **more: Any) -> Callable[[DataFrame], DataFrame]:
    """How many payments of each card there are in each window, pane by pane."""

    def function(payments: DataFrame) -> DataFrame:
        measures = [F.count("*").alias("payments")]
        panes = payments.transform(windowed, windows, by="card", measures=measures, **more)
        opened, closed = F.col("window.start").alias("opened_at"), F.col("window.end").alias("closed_at")
        return panes.select("card", opened, closed, "payments", "pane")

    return function


def pipeline(
    name: str, function: Callable[[DataFrame], DataFrame], sink: Topic = PANES, **more: Any
) -> Pipeline:
    """A pipeline that reads payments, waits ten seconds and drops what is later."""
    given: dict[str, Any] = {"watermark": Bounded(10 * SECOND), "late": Drop(), **more}
    return Pipeline(name, function, reads=[PAYMENTS], writes=KafkaSink(sink), **given)


MINUTES = Tumbling(MINUTE)
app = App(
    "bank",
    pipeline("last-minute", last_minute, RECENT, late=Divert("payments-late")),
    pipeline("at-once", at_once, RECENT),
    pipeline("early", counted(MINUTES, trigger=TWO)),
    pipeline("by-the-clock", counted(MINUTES, trigger=AtWatermark(early=Every(10 * SECOND)))),
    pipeline("discarding", counted(MINUTES, trigger=TWO, panes="discarding")),
    pipeline("retracting", counted(MINUTES, trigger=TWO, panes="retracting")),
    pipeline("revised", counted(MINUTES), late=Refire(MINUTE)),
    pipeline("early-and-late", counted(MINUTES, trigger=TWO), late=Refire(MINUTE)),
    pipeline("rolling", counted(Hopping(MINUTE, 30 * SECOND)), late=Divert("payments-late")),
    pipeline("sprees", counted(Session(10 * SECOND))),
    pipeline(
        "sprees-at-once",
        counted(Session(10 * SECOND), trigger=TWO, panes="retracting"),
        late=Refire(MINUTE),
    ),
    pipeline("in-all", counted(Global(), trigger=TWO)),
    pipeline("shifts", counted(Shifts())),
    pipeline("never-stalled", counted(MINUTES), watermark=Bounded(10 * SECOND, idle=30 * SECOND)),
)
