"""Watermarks in running pipelines: idle inputs, a source that says how far it is, a delay that is learned."""

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.run.stories import BEGIN, FLUSH, Story, hopping, tumbling

from headwater import Adaptive, Bounded, Drop, Log, Punctuated, Settings, Topic
from headwater.clock import wait_until
from headwater.errors import BadPipeline
from headwater.run import divert, witness
from headwater.run.event_clock import WALL_CLOCK
from headwater.run.progress import Progress
from headwater.run.supervise import Supervisor

pytestmark = pytest.mark.system
SECOND = timedelta(seconds=1)
PATIENCE = timedelta(seconds=60)


@pytest.fixture
def story(log: Log, system: Settings, spark: SparkSession) -> Story:
    return Story(log, system, spark)


def by_second(payments: DataFrame) -> DataFrame:
    counted = payments.groupBy(F.window("paid_at", "1 second").alias("w")).agg(F.count("*").alias("payments"))
    return counted.selectExpr("w.start AS opens_at", "payments")


def batches(ran: Supervisor) -> list[Progress]:
    return list(ran.pipelines[0].history)


def test_the_last_window_closes_when_the_topic_is_silent(story: Story) -> None:
    story.feed([("c1", 0), ("c1", 1), ("c1", 12)])
    pipeline = story.pipeline(tumbling, watermark=Bounded(5 * SECOND, idle=2 * SECOND))
    with story.live(pipeline) as ran:
        assert wait_until(lambda: story.counts() == {0: 2, 10: 1}, PATIENCE)
        assert wait_until(lambda: ran.figures[0].held_by == WALL_CLOCK, PATIENCE)
    with_rows = [one.batch for one in batches(ran) if one.rows]
    closing = [one for one in batches(ran) if one.batch > with_rows[0] and one.state_rows == 0]
    assert (
        min(one.batch for one in closing) <= with_rows[-1] + 3
    )  # the newest event's own, a tick, the closing
    assert set(batches(ran)[-1].ends) == {story.topic.name}


def test_a_pipeline_goes_on_when_idle_is_taken_away(story: Story) -> None:
    story.feed([("c1", 0)])
    with story.live(story.pipeline(tumbling, watermark=Bounded(SECOND, idle=SECOND))):
        assert wait_until(lambda: story.counts() == {0: 1}, PATIENCE)
    story.feed([("c1", 400 * 24 * 3600)])
    (ran,) = story.finished(story.pipeline(tumbling)).figures
    assert ran.rows == 1


def test_a_tick_is_no_row_and_leaves_no_letter(story: Story) -> None:
    story.feed([("c1", 0)])
    pipeline = story.pipeline(tumbling, watermark=Bounded(SECOND, idle=SECOND))
    with story.live(pipeline) as ran:
        assert wait_until(lambda: story.counts() == {0: 1}, PATIENCE)
    (found,) = ran.figures
    assert (found.dead, found.late, found.lag) == (0, 0, 0)


def test_an_idle_topic_does_not_hold_back_the_other(log: Log, story: Story) -> None:
    clicks = Topic(f"{story.topic.name}-clicks", schema="at timestamp", event_time="at", partitions=1)
    log.topics.create(clicks)

    def both(payments: DataFrame, clicks: DataFrame) -> DataFrame:
        return tumbling(payments.select("paid_at").union(clicks.select("at")))

    given: dict[str, Any] = {"late": Drop(), "reads": [story.topic, clicks]}
    with story.live(story.pipeline(both, watermark=Bounded(SECOND, idle=3 * SECOND), **given)):
        for second in range(0, 200, 10):
            story.feed([("c1", second)])
            if wait_until(lambda: 0 in story.counts(), SECOND):
                break
        assert story.counts()[0] == 1


def test_a_source_that_says_how_far_it_is_closes_windows(log: Log, story: Story) -> None:
    topic = Topic(
        f"{story.topic.name}-said",
        schema="card string, paid_at timestamp, complete_to timestamp",
        key="card",
        event_time="paid_at",
        partitions=1,
    )
    log.topics.create(topic)
    pipeline = story.pipeline(tumbling, watermark=Punctuated("complete_to"), reads=[topic])

    def append(second: int, complete: int | None = None) -> None:
        at = None if complete is None else BEGIN + complete * SECOND
        with log.writer() as writer:
            row = {"card": "c", "paid_at": BEGIN + second * SECOND, "complete_to": at}
            writer.append(topic, row)

    append(3)
    append(500)
    story.finished(pipeline)
    assert story.counts() == {}
    append(4)
    append(12, complete=10)
    story.finished(pipeline)
    assert story.counts() == {0: 2}
    append(9)
    append(11)
    story.finished(pipeline)
    assert [one.event_at for one in story.late()] == [BEGIN + 9 * SECOND]


def test_a_punctuation_that_is_no_timestamp_is_refused(story: Story) -> None:
    with pytest.raises(BadPipeline, match="has no timestamp 'card' that says how far it is"):
        story.pipeline(tumbling, watermark=Punctuated("card"))


def test_a_learned_delay_lets_the_asked_share_be_late(story: Story) -> None:
    rows = [("c", max(0, n // 10 - (40 if n % 10 == 0 else 0))) for n in range(6000)]
    story.feed([*rows, ("c", FLUSH)])
    spec = Adaptive(0.95, at_most=100 * SECOND)
    ran = story.finished(story.pipeline(by_second, watermark=spec, late=Drop(), batch=200))
    (found,) = ran.figures
    assert found.delay is not None
    assert found.completeness is not None
    assert 8 * SECOND < found.delay < 12 * SECOND
    assert 0.94 <= found.completeness < 0.97


def test_with_too_many_late_rows_to_hand_over_sparks_own_count_stands(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(witness, "LIMIT", 0)
    story.feed([("c1", 0), ("c1", 100)])
    story.finished(story.pipeline(tumbling, late=Drop()))
    story.feed([*((f"c{card}", 42) for card in range(9)), ("c1", FLUSH)])
    (found,) = story.finished(story.pipeline(tumbling, late=Drop())).figures
    assert 1 <= found.late <= 9
    assert found.missed == {}


@pytest.mark.parametrize(("function", "windows"), [(tumbling, 1), (hopping, 2)])
def test_dropped_rows_are_counted_record_by_record_and_by_window(
    story: Story, function: Any, windows: int
) -> None:
    story.feed([("c1", 0), ("c1", 100)])
    story.finished(story.pipeline(function, late=Drop()))
    story.feed([("c2", 42)] * 7 + [("c1", 51), ("c1", FLUSH)])
    (found,) = story.finished(story.pipeline(function, late=Drop())).figures
    missed = Counter({40: 7, 50: 1} if windows == 1 else {40: 7, 35: 7, 50: 1, 45: 1})
    assert found.late == 8
    assert found.missed == {(BEGIN + at * SECOND).isoformat(): n for at, n in sorted(missed.items())}


def test_where_rows_cannot_be_told_sparks_own_count_stands(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hidden(*_: Any) -> None:
        raise BadPipeline("nobody can tell")

    story.feed([("c1", 0), ("c1", 100)])
    story.finished(story.pipeline(tumbling, late=Drop()))
    story.feed([("c2", 42), ("c1", FLUSH)])
    monkeypatch.setattr(divert, "LateRows", hidden)
    (found,) = story.finished(story.pipeline(tumbling, late=Drop())).figures
    assert (found.late, found.missed) == (1, {})


def test_figures_tell_what_holds_the_watermark_back(story: Story) -> None:
    story.feed([("c1", 0), ("c1", 100)])
    (found,) = story.finished(story.pipeline(tumbling, late=Drop())).figures
    assert (found.held_by, found.delay, found.completeness) == (story.topic.name, 5 * SECOND, 1.0)
