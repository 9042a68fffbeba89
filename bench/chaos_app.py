"""The app that bench/chaos_pipelines.py kills: one pipeline without state, some with."""

from dataclasses import replace
from datetime import timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater import App, Bounded, Divert, Drop, KafkaSink, Pipeline, Topic, sliding

EVENTS = Topic(
    "chaos-events",
    schema="number long NOT NULL, card string NOT NULL, amount double NOT NULL, paid_at timestamp NOT NULL",
    key="card",
    event_time="paid_at",
    partitions=4,
)
PASSED = Topic(
    "chaos-passed",
    schema="number long NOT NULL, card string NOT NULL, doubled double",
    key="card",
    partitions=3,
)
COUNTED = Topic(
    "chaos-counted",
    schema="card string NOT NULL, opened_at timestamp NOT NULL, events long, largest double, numbers long",
    key="card",
    partitions=3,
)
PROMPT = replace(COUNTED, name="chaos-prompt")
LATE = "chaos-late"
RECENT = Topic(
    "chaos-recent",
    schema="number long NOT NULL, card string NOT NULL, recent long, paid_at timestamp NOT NULL",
    key="card",
    partitions=3,
)


def passed(events: DataFrame) -> DataFrame:
    return events.where("number % 3 <> 0").selectExpr("number", "card", "amount * 2 AS doubled")


def counted(events: DataFrame) -> DataFrame:
    windows = events.groupBy(F.window("paid_at", "1 minute"), "card").agg(
        F.count("*").alias("events"), F.max("amount").alias("largest"), F.sum("number").alias("numbers")
    )
    return windows.selectExpr("card", "window.start AS opened_at", "events", "largest", "numbers")


def recent(events: DataFrame) -> DataFrame:
    measures = [F.count("*").alias("recent")]
    found = events.transform(
        sliding, by="card", within=timedelta(minutes=1), measures=measures, fires="watermark"
    )
    return found.select("number", "card", "recent", "paid_at")


app = App(
    "chaos",
    Pipeline("passed", passed, reads=[EVENTS], writes=KafkaSink(PASSED, guarantee="exactly-once")),
    Pipeline(
        "counted",
        counted,
        reads=[EVENTS],
        writes=KafkaSink(COUNTED, guarantee="exactly-once"),
        watermark=Bounded(timedelta(minutes=60)),
        late=Drop(),
    ),
    Pipeline(
        "prompt",
        counted,
        reads=[EVENTS],
        writes=KafkaSink(PROMPT, guarantee="exactly-once"),
        watermark=Bounded(timedelta(minutes=1)),
        late=Divert(LATE),
    ),
    Pipeline(
        "recent",
        recent,
        reads=[EVENTS],
        writes=KafkaSink(RECENT, guarantee="exactly-once"),
        watermark=Bounded(timedelta(minutes=60)),
        late=Drop(),
    ),
)
