"""Pipelines of a bank, each with one behaviour of event time: tests and transcripts rehearse them."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater import (
    Adaptive,
    App,
    Bounded,
    Divert,
    Drop,
    Grace,
    KafkaSink,
    Monotonic,
    Pipeline,
    Punctuated,
    Topic,
)

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
PAYMENTS = Topic(
    "payments", schema="card string, amount double, paid_at timestamp", key="card", event_time="paid_at"
)
ALERTS = Topic("alerts", schema="card string, alerted_at timestamp", key="card", event_time="alerted_at")
TRANSFERS = Topic(
    "transfers",
    schema="account string, sent_at timestamp, complete_to timestamp",
    event_time="sent_at",
    partitions=2,
)
COUNTED = Topic("counted", schema="opened_at timestamp, payments long")
SPENT = Topic("spent", schema="card string, opened_at timestamp, closed_at timestamp, total double")
FIRST = Topic("first", schema="card string, amount double, paid_at timestamp")
PAIRS = Topic("pairs", schema="card string, paid_at timestamp, alerted_at timestamp")


def per_minute(payments: DataFrame) -> DataFrame:
    """How many payments each minute has."""
    return _counted(payments, "paid_at", "1 minute")


def rolling(payments: DataFrame) -> DataFrame:
    """How many payments the last minute had, every half minute."""
    return _counted(payments, "paid_at", "1 minute", "30 seconds")


def sprees(payments: DataFrame) -> DataFrame:
    """What a card spends without a pause of ten seconds."""
    session = payments.groupBy("card", F.session_window("paid_at", "10 seconds").alias("w"))
    total = session.agg(F.sum("amount").alias("total"))
    return total.selectExpr("card", "w.start AS opened_at", "w.end AS closed_at", "total")


def once(payments: DataFrame) -> DataFrame:
    """Each payment once, however often it is sent."""
    return payments.dropDuplicates(["card", "amount", "paid_at"])


def alerted(payments: DataFrame, alerts: DataFrame) -> DataFrame:
    """Payments that an alert followed within ten seconds."""
    return _paired(payments, alerts, "inner")


def unanswered(payments: DataFrame, alerts: DataFrame) -> DataFrame:
    """Every payment, with the alert that followed it within ten seconds, or none."""
    return _paired(payments, alerts, "leftOuter")


def both(payments: DataFrame, alerts: DataFrame) -> DataFrame:
    """How many payments and alerts each minute has, together."""
    times = payments.select("paid_at").union(alerts.select("alerted_at"))
    return _counted(times, "paid_at", "1 minute")


def transfers(sent: DataFrame) -> DataFrame:
    """How many transfers each minute has."""
    return _counted(sent, "sent_at", "1 minute")


def _counted(rows: DataFrame, time: str, *window: str) -> DataFrame:
    counted = rows.groupBy(F.window(time, *window).alias("w")).agg(F.count("*").alias("payments"))
    return counted.selectExpr("w.start AS opened_at", "payments")


def _paired(payments: DataFrame, alerts: DataFrame, how: str) -> DataFrame:
    alerts = alerts.withColumnRenamed("card", "alerted")
    within = "alerted = card AND alerted_at BETWEEN paid_at AND paid_at + INTERVAL 10 SECONDS"
    return payments.join(alerts, F.expr(within), how).select("card", "paid_at", "alerted_at")


IN_SQL = """
    SELECT w.start AS opened_at, count(*) AS payments
    FROM (SELECT window(paid_at, '1 minute') AS w FROM payments)
    GROUP BY w
"""


def pipeline(
    name: str, function: Callable[..., DataFrame] | None, sink: Topic = COUNTED, **more: Any
) -> Pipeline:
    """A pipeline that reads payments, waits ten seconds and drops what is later."""
    given: dict[str, Any] = {
        "reads": [PAYMENTS],
        "watermark": Bounded(10 * SECOND),
        "late": Drop(),
    }
    return Pipeline(name, function, writes=KafkaSink(sink), **{**given, **more})


PAIRED: dict[str, Any] = {"reads": [PAYMENTS, ALERTS], "sink": PAIRS}
app = App(
    "bank",
    pipeline("per-minute", per_minute),
    pipeline("rolling", rolling, late=Divert("payments-late")),
    pipeline("sprees", sprees, SPENT),
    pipeline("once", once, FIRST),
    pipeline("alerted", alerted, **PAIRED),
    pipeline("unanswered", unanswered, **PAIRED),
    pipeline("graceful", per_minute, late=Grace(30 * SECOND)),
    pipeline("diverting", per_minute, late=Divert("payments-late")),
    pipeline("guarded", per_minute, watermark=Bounded(10 * SECOND, future=MINUTE)),
    pipeline("in-order", per_minute, watermark=Monotonic()),
    pipeline("learning", per_minute, watermark=Adaptive(0.9, at_most=10 * MINUTE)),
    pipeline("told", transfers, reads=[TRANSFERS], watermark=Punctuated("complete_to")),
    pipeline("never-stalled", per_minute, watermark=Bounded(10 * SECOND, idle=30 * SECOND)),
    pipeline("two-inputs", both, reads=[PAYMENTS, ALERTS], watermark=Bounded(10 * SECOND, idle=30 * SECOND)),
    pipeline("in-sql", None, sql=IN_SQL),
)
