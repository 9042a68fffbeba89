"""A bank: its card transactions counted in five minutes each, fraud told at once, cardholders copied.

The database knows the cardholders and nobody writes them twice: capture reads its log, and each copy follows
that. Transactions come by the log. A card that pays too often within five minutes is an alert, told once,
as soon as it is known.

    headwater explain examples/bank/bank.py
    headwater run examples/bank/bank.py
"""

from datetime import timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater import (
    AfterCount,
    App,
    AtWatermark,
    Bounded,
    Database,
    Divert,
    KafkaSink,
    Pipeline,
    RedisSink,
    SearchSink,
    Table,
    Topic,
    Tumbling,
    upserts,
    windowed,
)

LATE = "transactions-late"
WINDOW = timedelta(minutes=5)
TOO_OFTEN = 6
"""Payments of one card within a window from which on they are an alert."""

CARDHOLDERS = Table(
    Database("bank"),
    "public.cardholders",
    schema="card string NOT NULL, name string, city string, country string, daily_limit decimal(10,2), "
    "email string",
    key="card",
)
TRANSACTIONS = Topic(
    "transactions",
    schema="id long NOT NULL, card string NOT NULL, amount decimal(10,2), paid_at timestamp NOT NULL",
    key="card",
    event_time="paid_at",
    partitions=2,
)
ACTIVITY = Topic(
    "card-activity",
    schema="card string NOT NULL, opened_at timestamp NOT NULL, payments long NOT NULL, total decimal(20,2), "
    "pane int NOT NULL, is_last boolean NOT NULL",
    key="card",
    partitions=2,
)
ALERTS = Topic(
    "fraud-alerts",
    schema="card string NOT NULL, opened_at timestamp NOT NULL, payments long NOT NULL, total decimal(20,2)",
    key="card",
    partitions=2,
)


def activity(transactions: DataFrame) -> DataFrame:
    """What each card pays in five minutes: told early if that is too often, and once when all is in."""
    counted = windowed(
        transactions,
        Tumbling(WINDOW),
        by="card",
        measures=[F.count("*").alias("payments"), F.sum("amount").alias("total")],
        trigger=AtWatermark(early=AfterCount(TOO_OFTEN)),
    )
    return counted.selectExpr(
        "card", "window.start AS opened_at", "payments", "total", "pane.number AS pane", "pane.is_last"
    )


def suspicious(activity: DataFrame) -> DataFrame:
    """The first word of a window in which a card pays too often: so each is told once."""
    return activity.where(f"pane = 0 AND payments >= {TOO_OFTEN}")


app = App(
    "bank",
    Pipeline(
        "card-activity",
        activity,
        reads=[TRANSACTIONS],
        writes=KafkaSink(ACTIVITY, guarantee="exactly-once"),
        watermark=Bounded(timedelta(minutes=1), future=timedelta(hours=1)),
        late=Divert(LATE),
    ),
    Pipeline(
        "fraud-alerts", suspicious, reads=[ACTIVITY], writes=KafkaSink(ALERTS, guarantee="exactly-once")
    ),
    Pipeline(
        "in-redis",
        upserts,
        reads=[CARDHOLDERS],
        writes=RedisSink("cardholders", key="card"),
        every=timedelta(seconds=1),
    ),
    Pipeline(
        "in-search",
        upserts,
        reads=[CARDHOLDERS],
        writes=SearchSink("cardholders", key="card"),
        every=timedelta(seconds=1),
    ),
    captures=[CARDHOLDERS],
)
