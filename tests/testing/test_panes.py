"""Pipelines on columnar state, rehearsed: their panes are those of a model, and their laws are the same."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.testing.rehearsing import SECOND, at, of_the_bank, paid

from headwater import Drop, Topic, Tumbling, windowed
from headwater.errors import BadPipeline, BadRehearsal
from headwater.testing import Counts, rehearse

EARLY_AND_LATE = of_the_bank("early-and-late", "panes.py")
NEVER_STALLED = of_the_bank("never-stalled", "panes.py")
PAYMENTS = EARLY_AND_LATE.sources[0].topic
ALERTS = Topic("alerts", schema="card string, alerted_at timestamp", event_time="alerted_at")
SIZE, DELAY, GRACE, EVERY = 60, 10, 60, 2
Pane = tuple[int, int, str, int, bool]
"""The second when its window opens, payments, timing, number, and whether it is the last."""


@dataclass
class Model:
    """Windows of a minute that speak early after two rows, on time, and late with each row: seconds only."""

    watermark: int = -1_000_000
    late: int = 0
    counts: dict[int, int] = field(default_factory=dict)
    new: dict[int, int] = field(default_factory=dict)
    numbers: dict[int, int] = field(default_factory=dict)

    def batch(self, seconds: list[int], watermark: int) -> list[Pane]:
        """What is said in a batch, sorted."""
        before, self.watermark = self.watermark, max(self.watermark, watermark)
        for opens in (second // SIZE * SIZE for second in seconds):
            if opens + SIZE <= before - GRACE:
                self.late += 1
            else:
                self.counts[opens] = self.counts.get(opens, 0) + 1
                self.new[opens] = self.new.get(opens, 0) + 1
        return sorted(self._panes(before))

    def _panes(self, before: int) -> Iterator[Pane]:
        for opens, count in self.counts.items():
            timing = self._timing(opens + SIZE, before, self.new.get(opens, 0))
            if timing and opens + SIZE > before - GRACE:
                self.new[opens], number = 0, self.numbers.get(opens, 0)
                self.numbers[opens] = number + 1
                yield opens, count, timing, number, opens + SIZE <= self.watermark - GRACE

    def _timing(self, closes: int, before: int, new: int) -> str:
        if closes <= before:
            return "late" if new else ""
        if closes <= self.watermark:
            return "on-time"
        return "early" if new >= EVERY else ""


def panes(rows: list[dict[str, Any]]) -> list[Pane]:
    found = []
    for row in rows:
        pane, opens = row["pane"], (row["opened_at"] - at(0)) // SECOND
        found.append((opens, row["payments"], pane["timing"], pane["number"], pane["is_last"]))
    return sorted(found)


@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    feeds=st.lists(st.lists(st.integers(0, 400), max_size=5), min_size=2, max_size=3),
    advance=st.none() | st.integers(0, 400),
)
def test_panes_their_numbers_and_late_rows_are_those_of_a_model(
    spark: SparkSession, feeds: list[list[int]], advance: int | None
) -> None:
    model = Model()
    with rehearse(EARLY_AND_LATE, spark) as stage:
        for number, seconds in enumerate(feeds):
            stage.feed(PAYMENTS, *map(paid, seconds))
            newest = max((second - DELAY for second in seconds), default=model.watermark)
            assert panes(stage.output()) == model.batch(seconds, newest)
            if number == 0 and advance is not None and advance >= model.watermark:
                stage.advance(at(advance))
                assert panes(stage.output()) == model.batch([], advance)
        stage.advance(at(1000))
        assert panes(stage.output()) == model.batch([], 1000)
        total = sum(map(len, feeds))
        assert len(stage.dropped()) == model.late
        assert stage.counts == Counts(fed=total, on_time=total - model.late, late=model.late, dead=0)


def test_a_partition_that_never_had_an_event_holds_nothing_back(spark: SparkSession) -> None:
    with rehearse(NEVER_STALLED, spark, begins=at(0)) as stage:
        stage.feed(PAYMENTS, paid(40), partition=1)
        assert stage.watermark == at(30)
        stage.feed(PAYMENTS, paid(20), b"no JSON")
        assert stage.watermark == at(30)  # it never goes back
        stage.feed(PAYMENTS, paid(49), partition=1)
        assert stage.output() == []
        stage.silence(30 * SECOND)
        assert stage.now == at(79)
        assert [row["payments"] for row in stage.output()] == [3]
        assert stage.watermark == at(69)
        assert [one.value for one in stage.dead()] == [b"no JSON"]
        stage.silence(600 * SECOND)
        stage.silence(600 * SECOND)
        assert stage.watermark == at(669)  # no row is kept any more, and who waits for nothing is not woken


def both(payments: DataFrame, alerts: DataFrame) -> DataFrame:
    windows = Tumbling(SIZE * SECOND)
    counted = [
        rows.transform(windowed, windows, by="card", measures=[F.count("*").alias("payments")])
        for rows in (payments, alerts)
    ]
    opened, closed = F.col("window.start").alias("opened_at"), F.col("window.end").alias("closed_at")
    return counted[0].unionAll(counted[1]).select("card", opened, closed, "payments", "pane")


def test_of_two_topics_the_slower_one_decides_and_late_rows_are_told_of_each(spark: SparkSession) -> None:
    pipeline = replace(EARLY_AND_LATE, function=both, reads=[PAYMENTS, ALERTS], late=Drop())
    with rehearse(pipeline, spark) as stage:
        stage.feed(PAYMENTS, paid(1), paid(100))
        assert stage.watermark is None
        stage.feed(ALERTS, {"card": "a", "alerted_at": at(2)}, {"card": "a", "alerted_at": at(70)})
        assert stage.watermark == at(60)
        assert panes(stage.output()) == [(0, 1, "on-time", 0, True)] * 2
        stage.feed(ALERTS, {"card": "b", "alerted_at": at(3)})
        stage.feed(PAYMENTS, paid(4), paid(71))
        assert [(one.topic, one.row["card"]) for one in stage.dropped()] == [
            ("alerts", "b"),
            ("payments", "a"),
        ]
        assert stage.counts == Counts(fed=7, on_time=5, late=2, dead=0)


def test_the_watermark_of_columnar_state_does_not_go_back_either(spark: SparkSession) -> None:
    with rehearse(NEVER_STALLED, spark) as stage:
        stage.advance(at(10))
        with pytest.raises(BadRehearsal, match=r"the watermark is at .*10:00:10.* does not go back"):
            stage.advance(at(9))


def test_what_production_refuses_is_refused(spark: SparkSession) -> None:
    pipeline = replace(NEVER_STALLED, output="update")
    with pytest.raises(BadPipeline, match="on columnar state, which has no output"):
        with rehearse(pipeline, spark):
            pass
