"""The pipelines that bench/pipelines.py measures, as Headwater's users write them."""

from datetime import timedelta

from bench.events import CLICKS, IMPRESSIONS, PAYMENTS
from bench.functions import attributed, hopping, large, sessions, tumbling
from headwater import App, Bounded, Drop, KafkaSink, Pipeline, Topic

LARGE = Topic("large", schema=PAYMENTS.schema, key="card", partitions=4)
ONCE = Topic("once", schema=PAYMENTS.schema, key="card", partitions=4)
WINDOW = "shop string, opened_at timestamp, payments long, largest double"
TUMBLING = Topic("tumbling", schema=WINDOW, key="shop", partitions=4)
HOPPING = Topic("hopping", schema=WINDOW, key="shop", partitions=4)
SESSIONS = Topic(
    "sessions",
    schema="card string, opened_at timestamp, closed_at timestamp, payments long, total double",
    key="card",
    partitions=4,
)
ATTRIBUTED = Topic(
    "attributed",
    schema="ad string, campaign string, shown_at timestamp, clicked_at timestamp",
    key="ad",
    partitions=4,
)
TEN_SECONDS = timedelta(seconds=10)


def pipeline(name: str, function: object, output: Topic, **more: object) -> Pipeline:
    """At least once, as Spark's own sink is, so that the two sides promise the same."""
    given = {"reads": [PAYMENTS], "writes": KafkaSink(output, guarantee="at-least-once")} | more
    return Pipeline(name, function, **given)  # type: ignore[arg-type]


EVENT_TIME = {"watermark": Bounded(TEN_SECONDS), "late": Drop()}
app = App(
    "bench",
    pipeline("filter", large, LARGE),
    pipeline("tumbling", tumbling, TUMBLING, **EVENT_TIME),
    pipeline("hopping", hopping, HOPPING, **EVENT_TIME),
    pipeline("session", sessions, SESSIONS, **EVENT_TIME),
    pipeline("join", attributed, ATTRIBUTED, reads=[IMPRESSIONS, CLICKS], batch=250_000, **EVENT_TIME),
    pipeline("sink-spark", large, LARGE, batch=500_000),
    pipeline("sink-once", large, ONCE, writes=KafkaSink(ONCE, guarantee="exactly-once"), batch=500_000),
)
