"""Late rows: on time + late + dead = all, whatever the operator, and each late record is told once."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.run.stories import BEGIN, FLUSH, IN_SQL, KINDS, Rows, Story, disordered, tumbling

from headwater import Bounded, Grace, KafkaSink, Log, Settings, Source, Topic
from headwater.run import divert

pytestmark = pytest.mark.system


@pytest.fixture
def story(log: Log, system: Settings, spark: SparkSession) -> Story:
    return Story(log, system, spark)


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    kind=st.sampled_from(sorted(KINDS)),
    seed=st.integers(0, 1000),
    delay=st.integers(0, 12),
    batch=st.sampled_from([37, 100, 400]),
    bad=st.sampled_from([0, 9]),
    dies_after=st.sampled_from([None, 0, 1, 3]),
)
def test_on_time_and_late_and_dead_are_all(
    log: Log,
    system: Settings,
    spark: SparkSession,
    kind: str,
    seed: int,
    delay: int,
    batch: int,
    bad: int,
    dies_after: int | None,
) -> None:
    story, (function, windows) = Story(log, system, spark), KINDS[kind]
    rows = disordered(seed, 300, delay)
    story.feed(rows, bad=bad)
    pipeline = story.pipeline(function, delay=delay, batch=batch)
    if dies_after is not None:
        with pytest.MonkeyPatch.context() as patch, broken(patch, dies_after):
            story.run(pipeline)
    (ran,) = story.finished(pipeline).figures
    letters = story.late()
    missed = sum(max(1, len(one.missed)) for one in letters) * (2 if kind == "shaped" else 1)
    assert story.on_time() + missed == windows * (len(rows) - 1)
    assert max(Counter((one.partition, one.offset) for one in letters).values(), default=1) == 1
    if dies_after is None:
        assert (ran.late, ran.dead) == (len(letters), bad)
    for one in letters:
        assert all(end <= one.watermark for _, end in one.missed)


def test_a_late_letter_is_the_record_as_it_was_and_says_what_it_missed(story: Story) -> None:
    story.feed([("c1", 0), ("c1", 100)])
    story.finished(story.pipeline(tumbling))
    story.feed([("c2", 42), ("c1", 101), ("c1", FLUSH)])
    story.finished(story.pipeline(tumbling))
    (letter,) = story.late()
    window = (BEGIN + timedelta(seconds=40), BEGIN + timedelta(seconds=50))
    assert (letter.key, letter.missed) == (b"c2", (window,))
    assert b'"card":"c2"' in (letter.value or b"")
    assert letter.event_at == BEGIN + timedelta(seconds=42)
    assert (letter.watermark, letter.late_by) == (BEGIN + timedelta(seconds=95), timedelta(seconds=53))


@pytest.mark.parametrize(("future", "record"), [(timedelta(hours=1), False), (None, True)])
def test_a_late_letter_has_the_records_key_and_headers_whatever_else_is_looked_at(
    log: Log, story: Story, future: timedelta | None, record: bool
) -> None:
    watermark, source = Bounded(timedelta(seconds=5), future=future), Source(story.topic, record=record)
    pipeline = story.pipeline(tumbling, watermark=watermark, reads=[source])
    story.feed([("c1", 100)])
    story.finished(pipeline)
    with log.writer() as writer:
        row = {"card": "c2", "amount": 1.0, "paid_at": BEGIN}
        writer.append(story.topic, row, headers={"trace": b"7"})
    story.finished(pipeline)
    (letter,) = story.late()
    assert (letter.key, letter.headers) == (b"c2", [("trace", b"7")])


def test_a_window_that_ends_at_the_watermark_is_closed(story: Story) -> None:
    story.feed([("c1", 0), ("c1", 55)])  # with a delay of 5 seconds, the watermark is at 50
    story.finished(story.pipeline(tumbling))
    story.feed([("c2", 42), ("c2", 50), ("c1", FLUSH)])
    story.finished(story.pipeline(tumbling))
    assert [one.event_at for one in story.late()] == [BEGIN + timedelta(seconds=42)]
    assert story.on_time() == 3


def test_sql_diverts_as_functions_do(story: Story) -> None:
    rows = disordered(5, 300, 5)
    story.feed(rows)
    table = story.topic.name.replace("-", "_")
    table = f"`{table}`" if table[0].isdigit() else table
    story.finished(story.pipeline(IN_SQL.format(table=table)))
    late = story.late()
    assert late
    assert story.on_time() + len(late) == len(rows) - 1


def test_a_join_of_two_streams_diverts_either_side(log: Log, story: Story) -> None:
    name = story.topic.name.removesuffix("-in")
    clicks = Topic(f"{name}-clicks", schema="who string, at timestamp", event_time="at", partitions=2)
    pairs = Topic(f"{name}-pairs", schema="amount double, at timestamp", partitions=1)
    for one in (clicks, pairs):
        log.topics.create(one)

    def clicked(payments: DataFrame, clicks: DataFrame) -> DataFrame:
        within = "card = who AND at >= paid_at AND at <= paid_at + INTERVAL 3 SECONDS"
        return payments.join(clicks.where("who IS NOT NULL"), F.expr(within)).select("amount", "at")

    rows, seconds = disordered(11, 150, 2), disordered(12, 150, 2)
    story.feed(rows)
    with log.writer() as writer:
        for who, second in seconds:
            writer.append(clicks, {"who": who, "at": BEGIN + timedelta(seconds=second)})
    reads, writes = [story.topic, clicks], KafkaSink(pairs)
    pipeline = story.pipeline(clicked, delay=2, batch=100)
    story.finished(replace(pipeline, reads=reads, writes=writes))

    late = {(one.topic, one.partition, one.offset) for one in story.late()}
    assert {topic for topic, _, _ in late} == {story.topic.name, clicks.name}
    left = [one.value for one in log.read(story.topic) if (one.topic, one.partition, one.offset) not in late]
    right = [one.value for one in log.read(clicks) if (one.topic, one.partition, one.offset) not in late]
    gap = timedelta(seconds=3)
    expected = [
        (a.amount, b.at)
        for a in left
        for b in right
        if a.card == b.who and a.paid_at <= b.at <= a.paid_at + gap
    ]
    found = [(one.value.amount, one.value.at) for one in log.read(pairs)]
    assert Counter(found) == Counter(expected)
    assert len(late) + len(left) + len(right) == len(rows) + len(seconds)


def test_grace_lets_late_rows_count(story: Story) -> None:
    rows: Rows = [("c1", 0), ("c1", 20), ("c1", 3), ("c1", FLUSH)]
    story.feed(rows)
    pipeline = story.pipeline(tumbling, delay=0, batch=1, late=Grace(timedelta(seconds=30)))
    (ran,) = story.finished(pipeline).figures
    assert (story.on_time(), ran.late) == (3, 0)


@contextmanager
def broken(monkeypatch: pytest.MonkeyPatch, after: int) -> Iterator[None]:
    """Every diversion but the first few fails, as if the driver died between a batch and its settling."""
    write, count = divert.Diversion.write, iter(range(10_000))

    def written(self: Any, *given: Any, **more: Any) -> Any:
        if next(count) >= after:
            raise RuntimeError("killed")
        return write(self, *given, **more)

    with monkeypatch.context() as patch:
        patch.setattr(divert.Diversion, "write", written)
        yield


@pytest.mark.parametrize("after", [0, 1, 3])
def test_a_driver_that_dies_before_it_diverted_costs_no_row_and_doubles_none(
    story: Story, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    rows = disordered(7, 400, 2)
    story.feed(rows)
    with broken(monkeypatch, after):
        assert len(story.run(story.pipeline(tumbling, delay=2)).errors) == 1
    story.finished(story.pipeline(tumbling, delay=2))
    late = story.late()
    assert len(late) > after
    assert story.on_time() + len(late) == len(rows) - 1
    assert len({one.identity for one in late}) == len(late)


def test_a_step_that_hides_where_rows_come_from_is_refused(story: Story) -> None:
    def hidden(payments: DataFrame) -> DataFrame:
        return tumbling(payments.mapInArrow(lambda blocks: blocks, payments.schema))

    story.feed([("c1", 0)])
    (error,) = story.run(story.pipeline(hidden)).errors
    assert "MapInArrow" in str(error)


def test_an_event_from_the_future_is_a_dead_letter_and_moves_nothing(story: Story) -> None:
    year = 400 * 24 * 3600
    now = int((datetime.now(UTC) - BEGIN).total_seconds())
    story.feed([("c1", now), ("c2", now + year), ("c1", now - 4), ("c1", now + 30)])
    future = Bounded(timedelta(seconds=5), future=timedelta(hours=1))
    (ran,) = story.finished(story.pipeline(tumbling, batch=1, watermark=future)).figures
    assert (ran.dead, ran.late, story.late()) == (1, 0, [])
