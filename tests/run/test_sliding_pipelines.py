"""Steps of ours in running pipelines: on time + late = all, killed or not, and planned with a clear word."""

from collections import Counter
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.run.sliding_stories import WITHIN, SlidingStory, at_once, brute_force, measured
from tests.run.stories import BEGIN, FLUSH, Rows, Story, disordered
from tests.run.stories import tumbling as sparks_tumbling

from headwater import (
    AtWatermark,
    Bounded,
    Drop,
    Every,
    Hopping,
    Log,
    Pipeline,
    Refire,
    Settings,
    Topic,
    Tumbling,
    windowed,
)
from headwater.clock import wait_until
from headwater.errors import BadPipeline, BadStep
from headwater.run import columnar
from headwater.run.event_clock import WALL_CLOCK
from headwater.run.explain import explain

pytestmark = pytest.mark.system
SECOND = timedelta(seconds=1)
PATIENCE = timedelta(seconds=60)


@pytest.fixture
def story(log: Log, system: Settings, spark: SparkSession) -> SlidingStory:
    return SlidingStory(log, system, spark)


@pytest.fixture
def plain(log: Log, system: Settings, spark: SparkSession) -> Story:
    return Story(log, system, spark, partitions=1)


def ours(payments: DataFrame, **more: Any) -> DataFrame:
    measures = [F.count("*").alias("payments")]
    counted = payments.transform(windowed, Tumbling(10 * SECOND), measures=measures, **more)
    return counted.selectExpr("window.start AS opens_at", "payments")


def without_late(rows: Rows, story: SlidingStory) -> Rows:
    late = {one.offset for one in story.late()}
    return [row for number, row in enumerate(rows) if number not in late]


def pairs(answers: Counter[tuple[str, float, int]]) -> Counter[tuple[str, int]]:
    found: Counter[tuple[str, int]] = Counter()
    for (card, _, payments), times in answers.items():
        found[card, payments] += times
    return found


def test_on_time_and_late_are_all_and_each_is_told_once(story: SlidingStory) -> None:
    rows = [*disordered(1, 200, 3), ("c0", 2 * FLUSH)]
    story.feed(rows)
    (ran,) = story.finished(story.pipeline(measured, delay=3, batch=40)).figures
    letters = story.late()
    assert 0 < len(letters) == ran.late
    assert max(Counter(one.offset for one in letters).values()) == 1
    for one in letters:
        assert one.missed == ((one.event_at - WITHIN * SECOND, one.event_at),)
    assert pairs(story.answers()) == pairs(brute_force(without_late(rows, story)[:-1]))


@pytest.mark.parametrize("step", ["answer", "_decided", "end"])
def test_a_driver_that_dies_in_a_batch_writes_each_answer_once(
    story: SlidingStory, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    rows = [*disordered(2, 120, 3), ("c0", 2 * FLUSH)]
    story.feed(rows)
    real, count = getattr(columnar.Columnar, step), iter(range(100))

    def dies(self: Any, *given: Any) -> Any:
        found = real(self, *given)
        if next(count) == 1:
            raise RuntimeError("killed")
        return found

    pipeline = story.pipeline(measured, delay=3, batch=40)
    with monkeypatch.context() as patch:
        patch.setattr(columnar.Columnar, step, dies)
        assert len(story.run(pipeline).errors) == 1
    story.finished(pipeline)
    assert pairs(story.answers()) == pairs(brute_force(without_late(rows, story)[:-1]))
    assert len({one.offset for one in story.late()}) == len(story.late())


def test_dropped_rows_are_counted_and_the_state_is_figured(story: SlidingStory) -> None:
    story.feed([("a", 0), ("a", 100)])
    story.finished(story.pipeline(at_once, late=Drop()))
    story.feed([("a", 42)] * 3 + [("a", 101)])
    (found,) = story.finished(story.pipeline(at_once, late=Drop())).figures
    assert (found.late, found.state_rows, found.watermark) == (3, 3, BEGIN + 96 * SECOND)
    assert found.state_bytes > 0
    assert sum(story.answers().values()) == 3


def test_both_engines_say_the_same_of_one_topic(plain: Story) -> None:
    rows = disordered(4, 150, 0)
    plain.feed(rows)
    plain.finished(plain.pipeline(sparks_tumbling, delay=60, late=Drop(), batch=50))
    sparks = plain.counts()
    made = plain.pipeline(ours, delay=60, late=Drop(), batch=50)
    plain.finished(
        Pipeline("ours", ours, reads=made.reads, writes=made.writes, watermark=made.watermark, late=Drop())
    )
    assert plain.counts() == sparks
    assert plain.on_time() == 2 * (len(rows) - 1)


def test_a_row_that_missed_some_of_its_windows_has_a_letter_with_those(plain: Story) -> None:
    rows = disordered(5, 150, 2)
    plain.feed(rows)

    def hopping(payments: DataFrame) -> DataFrame:
        windows = Hopping(10 * SECOND, 5 * SECOND)
        counted = payments.transform(windowed, windows, measures=[F.count("*").alias("payments")])
        return counted.selectExpr("window.start AS opens_at", "payments")

    (ran,) = plain.finished(plain.pipeline(hopping, delay=2, batch=40)).figures
    letters = plain.late()
    assert 1 in {len(one.missed) for one in letters}
    assert ran.late == len(letters)
    assert plain.on_time() + sum(len(one.missed) for one in letters) == 2 * (len(rows) - 1)


def test_two_topics_are_one_batch_and_the_slower_one_decides(log: Log, plain: Story) -> None:
    clicks = Topic(
        f"{plain.topic.name}-clicks", schema="who string, at timestamp", event_time="at", partitions=1
    )
    log.topics.create(clicks)

    def both(payments: DataFrame, clicks: DataFrame) -> DataFrame:
        return ours(payments).unionAll(ours(clicks))

    plain.feed([("c1", 0), ("c1", 1), ("c1", 50)])
    pipeline = plain.pipeline(both, reads=[plain.topic, clicks], late=Drop())
    plain.finished(pipeline)
    assert plain.counts() == {}
    with log.writer() as writer:
        for second in (2, 12, 30):
            writer.append(clicks, {"who": "c1", "at": BEGIN + second * SECOND})
    plain.finished(pipeline)
    found = Counter((row.opens_at, row.payments) for row in (one.value for one in log.read(plain.output)))
    assert found == Counter([(BEGIN, 2), (BEGIN, 1), (BEGIN + 10 * SECOND, 1)])


def test_a_silent_topic_lets_the_last_window_close(plain: Story) -> None:
    plain.feed([("c1", 0), ("c1", 1)])
    with plain.live(plain.pipeline(ours, watermark=Bounded(SECOND, idle=2 * SECOND))) as ran:
        assert wait_until(lambda: plain.counts() == {0: 2}, PATIENCE)
        assert wait_until(lambda: ran.figures[0].held_by == WALL_CLOCK, PATIENCE)  # told when its batch ends


def test_a_window_speaks_by_the_clock_although_nothing_comes(plain: Story) -> None:
    trigger = AtWatermark(early=Every(2 * SECOND))

    def early(payments: DataFrame) -> DataFrame:
        return ours(payments, trigger=trigger)

    pipeline = plain.pipeline(early, late=Drop())
    with plain.live(pipeline):
        for count in (1, 2):
            plain.feed([("c1", count)])
            assert wait_until(partial(plain.says, {0: count}), PATIENCE)
    with plain.live(pipeline) as ran:  # who starts again does not know what waits, and looks
        assert wait_until(lambda: ran.figures[0].batch is not None, PATIENCE)


def refused(story: SlidingStory, function: Any, spark: SparkSession, settings: Settings, **more: Any) -> str:
    with pytest.raises((BadPipeline, BadStep)) as caught:
        explain(story.pipeline(function, **more), spark, settings)
    return str(caught.value)


@pytest.mark.parametrize(
    ("beside", "named"),
    [
        (lambda rows: rows.groupBy("card").count(), "groupBy, or another aggregation"),
        (lambda rows: rows.dropDuplicates(["card"]), "dropDuplicates"),
        (lambda rows: rows.join(rows.select("card"), "card"), "a join of two streams"),
        (lambda rows: rows.limit(3), "a limit"),
        (lambda rows: rows.orderBy("card"), "a sort"),
    ],
)
def test_sparks_own_state_beside_a_step_of_ours_is_refused_by_name(
    story: SlidingStory, spark: SparkSession, system: Settings, beside: Any, named: str
) -> None:
    said = refused(story, lambda rows: beside(measured(rows)), spark, system)
    assert f"{named} stands beside a step of ours in pipeline 'story'" in said


def test_what_a_step_cannot_do_is_refused_when_it_is_planned(
    story: SlidingStory, spark: SparkSession, system: Settings
) -> None:
    def chained(rows: DataFrame) -> DataFrame:
        return measured(rows.transform(measured).drop("payments", "total"))

    def twice(rows: DataFrame) -> DataFrame:
        return measured(rows, name="a").union(measured(rows, name="a"))

    refire = Refire(SECOND)
    assert "reads what another one says" in refused(story, chained, spark, system)
    assert "two steps of a function are called 'a'" in refused(story, twice, spark, system)
    assert "'A b' cannot be the name of a step" in refused(
        story, lambda r: measured(r, name="A b"), spark, system
    )
    assert "write it in the function of a Pipeline with a watermark" in refused(
        story, measured, spark, system, watermark=None, late=None
    )
    assert 'has no output="update"' in refused(story, measured, spark, system, output="update")
    assert "sliding-1 of pipeline 'story' cannot speak again" in refused(
        story, measured, spark, system, late=refire
    )
    assert "are Spark's own, and cannot fire again" in refused(
        story, sparks_tumbling, spark, system, late=refire
    )


def test_explain_says_which_engine_runs_and_why(
    story: SlidingStory, plain: Story, spark: SparkSession, system: Settings
) -> None:
    found = explain(story.pipeline(measured), spark, system)
    assert found.engine == "columnar state: Spark has no sliding (sliding-1)"
    assert found.stateful == ("sliding (sliding-1)",)
    native = explain(plain.pipeline(sparks_tumbling), spark, system)
    assert native.engine == "native: what it does, Spark's own operators do"
