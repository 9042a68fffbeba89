"""A stage: rows fed, time moved, and what comes of it."""

from collections import Counter
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.testing.rehearsing import BEGIN, SECOND, at, of_the_bank, paid

from headwater import KafkaSink, Pipeline, Source, Topic
from headwater.errors import BadPipeline, BadRehearsal, ColumnsMismatch, PipelineFailed
from headwater.testing import Counts, DeadRow, LateRow, rehearse

PER_MINUTE = of_the_bank("per-minute")
PAYMENTS = PER_MINUTE.sources[0].topic
NOT_JSON = "a record of topic 'payments' is not json"


def plain(function: Any, schema: str, *reads: Topic | Source) -> Pipeline:
    """A pipeline without event time."""
    return Pipeline(
        "plain", function, reads=reads or (PAYMENTS,), writes=KafkaSink(Topic("on", schema=schema))
    )


def test_a_window_comes_out_when_the_watermark_has_passed_it(spark: SparkSession) -> None:
    with rehearse(PER_MINUTE, spark) as stage:
        assert stage.watermark is None
        stage.feed(PAYMENTS, paid(1), paid(59))
        assert stage.output() == []
        stage.feed(PAYMENTS, paid(69.9))
        assert stage.output() == []
        stage.feed(PAYMENTS, paid(70))
        assert stage.output() == [{"opened_at": BEGIN, "payments": 2}]
        assert stage.output() == []
        assert stage.watermark == at(60)


def test_rows_behind_a_watermark_that_was_advanced_are_late(spark: SparkSession) -> None:
    with rehearse(of_the_bank("diverting"), spark) as stage:
        stage.feed("payments", paid(1))
        stage.advance(to=at(60))
        assert stage.output() == [{"opened_at": BEGIN, "payments": 1}]
        stage.feed("payments", paid(58, "b"), paid(61), b"no JSON", {"card": "c"}, None)
        (late,) = stage.late()
        assert late == LateRow("payments", paid(58, "b"), ((at(0), at(60)),))
        assert late.late_by == 2 * SECOND
        assert (stage.late(), stage.dropped()) == ([], [])
        assert stage.dead() == [
            DeadRow("payments", b"no JSON", f"{NOT_JSON}: JSON is malformed: invalid character (byte 4)"),
            DeadRow("payments", b'{"card":"c"}', "its event time 'paid_at' is null"),
            DeadRow("payments", None, "it has no value"),
        ]
        assert stage.counts == Counts(fed=6, on_time=2, late=1, dead=3)


def test_silence_lets_the_last_window_close(spark: SparkSession) -> None:
    with rehearse(of_the_bank("never-stalled"), spark, begins=BEGIN) as stage:
        stage.feed(PAYMENTS, paid(1))
        stage.silence(29 * SECOND)
        assert stage.output() == []
        stage.silence(60 * SECOND)
        assert stage.output() == [{"opened_at": BEGIN, "payments": 1}]
        assert stage.now == at(90)
        stage.silence(600 * SECOND)
        assert stage.watermark == at(80)  # no row waits any more, and who waits for nothing is not woken


@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.lists(st.integers(0, 400), max_size=5), min_size=1, max_size=5),
    st.none() | st.integers(0, 400),
)
def test_panes_and_late_rows_are_those_of_a_model(
    spark: SparkSession, feeds: list[list[int]], advance: int | None
) -> None:
    windows, late, watermark = Counter[int](), Counter[int](), -1_000_000
    with rehearse(PER_MINUTE, spark) as stage:
        for number, seconds in enumerate(feeds):
            stage.feed(PAYMENTS, *map(paid, seconds))
            for second in seconds:
                window = second // 60 * 60
                (late if window + 60 <= watermark else windows)[window] += 1
            watermark = max([watermark, *(second - 10 for second in seconds)])
            if number == 0 and advance is not None and advance >= watermark:
                stage.advance(at(advance))
                watermark = advance
        stage.advance(at(1000))
        found = {row["opened_at"]: row["payments"] for row in stage.output()}
        assert found == {at(window): count for window, count in windows.items()}
        missed = Counter(start for one in stage.dropped() for start, _ in one.missed)
        assert missed == {at(window): count for window, count in late.items()}
        total, behind = sum(map(len, feeds)), late.total()
        assert stage.counts == Counts(fed=total, on_time=total - behind, late=behind, dead=0)


def test_a_pipeline_without_event_time_answers_at_once_and_as_often_as_it_is_fed(spark: SparkSession) -> None:
    pipeline = plain(lambda rows: rows.selectExpr("card", "amount * 2 AS twice"), "card string, twice double")
    with rehearse(pipeline, spark) as stage:
        stage.feed(PAYMENTS, paid(1, "b"), paid(2, "a", 3))
        stage.feed(PAYMENTS, paid(3, "c"))
        assert [(row["card"], row["twice"]) for row in stage.output()] == [("a", 6), ("b", 2), ("c", 2)]
        with pytest.raises(BadRehearsal, match="pipeline 'plain' has no watermark"):
            stage.advance(BEGIN)


def test_records_have_their_place_and_the_moment_when_they_came(spark: SparkSession) -> None:
    topic = Topic("noted", schema="card string", key="card", partitions=2, compacted=True, format="avro")
    places = "key binary, partition int, offset bigint, timestamp timestamp"
    pipeline = plain(lambda rows: rows.selectExpr("_record.*"), places, Source(topic, record=True))
    with rehearse(pipeline, spark, begins=BEGIN) as stage:
        stage.feed(topic, {"card": "a"}, {"card": "b"}, partition=1)
        stage.silence(5 * SECOND)
        stage.feed(topic, {"card": "c"}, None, partition=1)  # a tombstone: no row, and nothing bad
        found = [tuple(row.values()) for row in stage.output()]
        assert found == [(b"a", 1, 0, at(0)), (b"b", 1, 1, at(0)), (b"c", 1, 2, at(5))]
        assert stage.dead() == []


def test_a_topic_that_is_read_twice_is_counted_once(spark: SparkSession) -> None:
    def doubled(payments: DataFrame) -> DataFrame:
        rows = payments.union(payments).groupBy(F.window("paid_at", "1 minute").alias("w"))
        return rows.agg(F.count("*").alias("payments")).selectExpr("w.start AS opened_at", "payments")

    with rehearse(replace(PER_MINUTE, function=doubled), spark) as stage:
        stage.feed(PAYMENTS, paid(1))
        stage.advance(at(60))
        assert stage.output() == [{"opened_at": BEGIN, "payments": 2}]
        stage.feed(PAYMENTS, paid(2))
        assert [one.row for one in stage.dropped()] == [paid(2)]
        assert stage.counts == Counts(fed=2, on_time=1, late=1, dead=0)


def test_what_a_stage_cannot_do_is_refused(spark: SparkSession) -> None:
    with rehearse(PER_MINUTE, spark) as stage:
        with pytest.raises(
            BadRehearsal, match="pipeline 'per-minute' does not read topic 'clicks'"
        ) as refused:
            stage.feed("clicks", {})
        assert refused.value.hint == "it reads payments"
        with pytest.raises(BadRehearsal, match="topic 'payments' has no partition 1") as refused:
            stage.feed(PAYMENTS, paid(1), partition=1)
        assert refused.value.hint == "it has 1, counted from 0"
        stage.advance(at(10))
        with pytest.raises(
            BadRehearsal, match=r"the watermark is at .*10:00:10.* does not go back to .*10:00:09"
        ):
            stage.advance(at(9))
        with pytest.raises(BadRehearsal, match="the watermark moves to an instant with its zone"):
            stage.advance(datetime(2026, 1, 1))
        with pytest.raises(BadRehearsal, match="time does not go back"):
            stage.silence(-SECOND)


def test_a_rehearsal_begins_at_an_instant(spark: SparkSession) -> None:
    with pytest.raises(BadRehearsal, match="a rehearsal begins at an instant with its zone, not 2026"):
        with rehearse(PER_MINUTE, spark, begins=datetime(2026, 1, 1)):
            pass


def test_a_step_that_fails_ends_the_rehearsal_with_its_own_words(spark: SparkSession) -> None:
    divided = F.udf(lambda amount: 1 / amount, "double")
    pipeline = plain(lambda rows: rows.select(divided("amount").alias("n")), "n double")
    with rehearse(pipeline, spark) as stage:
        with pytest.raises(PipelineFailed) as failed:
            stage.feed(PAYMENTS, paid(1, amount=0))
    assert failed.value.detail == "ZeroDivisionError: float division by zero"


def test_columns_that_its_sink_does_not_take_are_refused_at_once(spark: SparkSession) -> None:
    with pytest.raises(ColumnsMismatch):
        with rehearse(plain(lambda rows: rows.select("card"), "n int"), spark):
            pass


def hidden(payments: DataFrame) -> DataFrame:
    function: Any = PER_MINUTE.function
    return function(payments.mapInArrow(lambda blocks: blocks, payments.schema))  # type: ignore[no-any-return]


def test_a_step_that_hides_where_rows_come_from_is_refused_as_in_production(spark: SparkSession) -> None:
    with pytest.raises(BadPipeline, match="behind MapInArrow"):
        with rehearse(replace(of_the_bank("diverting"), function=hidden), spark):
            pass


def test_where_dropped_rows_cannot_be_told_nobody_pretends(spark: SparkSession) -> None:
    with rehearse(replace(PER_MINUTE, function=hidden), spark) as stage:
        stage.feed(PAYMENTS, paid(1))
        stage.advance(at(60))
        assert stage.output() == [{"opened_at": BEGIN, "payments": 1}]
        with pytest.raises(BadRehearsal, match="may have dropped rows, and nobody can tell which") as refused:
            stage.feed(PAYMENTS, paid(2))
        assert "MapInArrow" in refused.value.detail
