"""A bank's payments: the large ones within milliseconds, each card's activity exactly once.

headwater run examples/bank/bank.py
"""

from datetime import timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater import App, Bounded, Drop, KafkaSink, Pipeline, Topic

PAYMENTS = Topic(
    "payments",
    schema="card string NOT NULL, amount double NOT NULL, country string, paid_at timestamp NOT NULL",
    key="card",
    event_time="paid_at",
    partitions=2,
)
LARGE = Topic(
    "large-payments",
    schema="card string NOT NULL, amount double, country string, paid_at timestamp",
    key="card",
    partitions=2,
)
ACTIVITY = Topic(
    "card-activity",
    schema="card string NOT NULL, opened_at timestamp, payments long, total double",
    key="card",
    partitions=2,
)


def large(payments: DataFrame) -> DataFrame:
    return payments.where("amount > 900")


def activity(payments: DataFrame) -> DataFrame:
    counted = payments.groupBy(F.window("paid_at", "5 seconds"), "card").agg(
        F.count("*").alias("payments"), F.sum("amount").alias("total")
    )
    return counted.selectExpr("card", "window.start AS opened_at", "payments", "total")


app = App(
    "bank",
    Pipeline(
        "large-payments",
        large,
        reads=[PAYMENTS],
        writes=KafkaSink(LARGE, guarantee="at-least-once"),
        latency="real-time",
    ),
    Pipeline(
        "card-activity",
        activity,
        reads=[PAYMENTS],
        writes=KafkaSink(ACTIVITY, guarantee="exactly-once"),
        watermark=Bounded(timedelta(seconds=2)),
        late=Drop(),
    ),
)
