"""A stage: rows fed, time moved, and what comes of it."""

from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import SparkSession
from tests.transcripts.bank import PAYMENTS, app

from headwater import Pipeline
from headwater.testing import Counts, LateRow, rehearse

BEGIN = datetime(2026, 1, 1, 10, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def named(name: str) -> Pipeline:
    (found,) = app.only([name]).pipelines
    return found


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def paid(seconds: float, card: str = "a", amount: float = 1) -> dict[str, Any]:
    return {"card": card, "amount": amount, "paid_at": at(seconds)}


def test_a_window_comes_out_when_the_watermark_has_passed_it(spark: SparkSession) -> None:
    with rehearse(named("per-minute"), spark) as stage:
        stage.feed(PAYMENTS, paid(1), paid(59))
        assert stage.output() == []
        stage.feed(PAYMENTS, paid(69.9))
        assert stage.output() == []
        stage.feed(PAYMENTS, paid(70))
        assert stage.output() == [{"opened_at": BEGIN, "payments": 2}]
        assert stage.output() == []
        assert stage.watermark == at(60)


def test_the_watermark_can_be_advanced_and_rows_behind_it_are_late(spark: SparkSession) -> None:
    with rehearse(named("diverting"), spark) as stage:
        stage.feed(PAYMENTS, paid(1))
        stage.advance(to=at(60))
        assert stage.output() == [{"opened_at": BEGIN, "payments": 1}]
        stage.feed(PAYMENTS, paid(58, "b"), paid(61), "no JSON", {"card": "c"})
        assert stage.late() == [LateRow("payments", paid(58, "b"), ((at(0), at(60)),))]
        assert stage.dropped() == []
        assert [one.reason for one in stage.dead()] != []
        assert stage.counts == Counts(fed=5, on_time=2, late=1, dead=2)


def test_silence_lets_the_last_window_close(spark: SparkSession) -> None:
    with rehearse(named("never-stalled"), spark) as stage:
        stage.feed(PAYMENTS, paid(1))
        stage.silence(29 * SECOND)
        assert stage.output() == []
        stage.silence(60 * SECOND)
        assert stage.output() == [{"opened_at": BEGIN, "payments": 1}]
        assert stage.now == at(90)
