"""A rehearsal is what production does: any operator keeps the law, and Kafka gives the same answer."""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.run.stories import BEGIN, FLUSH, KINDS, Rows, Story, disordered, tumbling

from headwater import AfterCount, AtWatermark, Hopping, Log, Settings, windowed
from headwater.testing import LateRow, Stage, play, rehearse


def paid(rows: Rows, first: int = 0) -> list[dict[str, Any]]:
    """The rows of a story, as it writes them."""
    return [
        {"card": card, "amount": float(number), "paid_at": BEGIN + timedelta(seconds=second)}
        for number, (card, second) in enumerate(rows, start=first)
    ]


def in_panes(payments: DataFrame) -> DataFrame:
    """Hopping windows on columnar state, each pane with what is new."""
    measures, trigger = [F.count("*").alias("payments")], AtWatermark(early=AfterCount(40))
    windows = Hopping(timedelta(seconds=10), timedelta(seconds=5))
    panes = payments.transform(windowed, windows, measures=measures, trigger=trigger, panes="discarding")
    return panes.selectExpr("window.start AS opens_at", "payments")


ALL: dict[str, tuple[Callable[..., DataFrame], int]] = {**KINDS, "in-panes": (in_panes, 2)}


def fed(stage: Stage, topic: str, rows: Rows, size: int) -> None:
    for start in range(0, len(rows), size):
        stage.feed(topic, *paid(rows[start : start + size], start))


def windows_of(late: Sequence[LateRow], each: int) -> int:
    return sum(max(1, len(one.missed)) for one in late) * each


@settings(max_examples=7, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    kind=st.sampled_from(sorted(ALL)),
    seed=st.integers(0, 1000),
    delay=st.integers(0, 12),
    size=st.sampled_from([100, 301]),
)
def test_on_time_and_late_are_all_whatever_the_operator(
    log: Log, system: Settings, spark: SparkSession, kind: str, seed: int, delay: int, size: int
) -> None:
    story, (function, windows) = Story(log, system, spark), ALL[kind]
    rows = disordered(seed, 300, delay)
    with rehearse(story.pipeline(function, delay=delay), spark) as stage:
        fed(stage, story.topic.name, rows, size)
        stage.advance(BEGIN + timedelta(days=1))
        out, late = stage.output(), stage.late()
    on_time = sum(row["payments"] for row in out)
    assert on_time + windows_of(late, 2 if kind == "shaped" else 1) == windows * len(rows)
    assert stage.counts.late == len(late)


@pytest.mark.system
@pytest.mark.parametrize("kind", ["hopping", "session", "in-panes"])
def test_kafka_gives_the_same_answer(log: Log, system: Settings, spark: SparkSession, kind: str) -> None:
    story, (function, _) = Story(log, system, spark, partitions=1), ALL[kind]
    pipeline = story.pipeline(function, delay=2, batch=1000)
    rows = [one for one in disordered(4, 200, 2) if one[1] < FLUSH]
    with rehearse(pipeline, spark) as stage:
        for start in (0, 100):
            some = rows[start : start + 100]
            stage.feed(story.topic.name, *paid(some))
            story.feed(some)
            story.finished(pipeline)
        out, late = stage.output(), stage.late()
    assert late
    windows = Counter((one.value.opens_at, one.value.payments) for one in log.read(story.output))
    assert windows == Counter((row["opens_at"], row["payments"]) for row in out)
    letters = Counter((one.event_at, one.missed) for one in story.late())
    assert letters == Counter((one.row["paid_at"], one.missed) for one in late)


def test_a_row_that_is_on_time_in_a_rehearsal_is_so_without_its_pauses(
    log: Log, system: Settings, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a batch between two feeds Spark is a watermark behind: it spares some rows."""
    story, rows = Story(log, system, spark), disordered(4, 200, 2)
    found = []
    for pauses in ("true", "false"):
        between = {"spark.sql.streaming.noDataMicroBatches.enabled": pauses}
        monkeypatch.setattr(play, "_OPTIONS", play._OPTIONS | between)
        with rehearse(story.pipeline(tumbling, delay=2), spark) as stage:
            fed(stage, story.topic.name, rows, 40)
            found.append({one.row["amount"] for one in stage.late()})
    with_pauses, without = found
    assert without < with_pauses
