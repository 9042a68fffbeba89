"""What the measured pipelines compute: plain PySpark, the same on both sides."""

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F


def large(payments: DataFrame) -> DataFrame:
    return payments.where("amount > 500")


def tumbling(payments: DataFrame) -> DataFrame:
    return _counted(payments, F.window("paid_at", "10 seconds"))


def hopping(payments: DataFrame) -> DataFrame:
    return _counted(payments, F.window("paid_at", "10 seconds", "2 seconds"))


def _counted(payments: DataFrame, window: Column) -> DataFrame:
    counted = payments.groupBy(window.alias("window"), "shop").agg(
        F.count("*").alias("payments"), F.max("amount").alias("largest")
    )
    return counted.selectExpr("shop", "window.start AS opened_at", "payments", "largest")


def sessions(payments: DataFrame) -> DataFrame:
    found = payments.groupBy(F.session_window("paid_at", "10 seconds").alias("session"), "card").agg(
        F.count("*").alias("payments"), F.sum("amount").alias("total")
    )
    return found.selectExpr(
        "card",
        "session.start AS opened_at",
        "session.end AS closed_at",
        "payments",
        "round(total, 2) AS total",
    )


def attributed(impressions: DataFrame, clicks: DataFrame) -> DataFrame:
    within = "ad = shown AND clicked_at >= shown_at AND clicked_at <= shown_at + INTERVAL 10 SECONDS"
    return impressions.join(clicks, F.expr(within)).select("ad", "campaign", "shown_at", "clicked_at")


BY_CASE: dict[str, Callable[..., DataFrame]] = {
    "filter": large,
    "tumbling": tumbling,
    "hopping": hopping,
    "session": sessions,
    "join": attributed,
}
