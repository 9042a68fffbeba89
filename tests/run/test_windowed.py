"""Windows on columnar state: as Spark's own where both can do it, and in panes where Spark cannot.

How panes relate to those before, and when they are due early, is in tests/transcripts.
"""

from collections import Counter
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from tests.run.by_hand import ByHand, dying
from tests.run.stories import BEGIN

from headwater import (
    AfterCount,
    AtWatermark,
    Global,
    Hopping,
    Refire,
    Session,
    Tumbling,
    windowed,
)
from headwater.run import columnar, manifest, stages
from headwater.run.shelf import Shelf

pytestmark = pytest.mark.system
SECOND = timedelta(seconds=1)
TEN = Tumbling(10 * SECOND)
OURS: dict[str, Any] = {
    "tumbling": TEN,
    "hopping": Hopping(10 * SECOND, 4 * SECOND),
    "session": Session(3 * SECOND),
}
END = 1000


def by_windows(payments: DataFrame, windows: Any, **more: Any) -> DataFrame:
    measures = [F.count("*").alias("payments"), F.sum("amount").alias("total")]
    return payments.transform(windowed, windows, by="card", measures=measures, **more)


def panes(rows: list[Row]) -> list[tuple[Any, ...]]:
    """Of each pane its window's first second, its count, its timing, and what else is to be said of it."""
    found = []
    for row in rows:
        pane, opens = row.pane, int((row.window.start.replace(tzinfo=BEGIN.tzinfo) - BEGIN).total_seconds())
        said = [pane.timing, pane.number, *(["last"] * pane.is_last), *(["back"] * pane.is_retraction)]
        found.append((opens, row.payments, *said))
    return sorted(found, key=str)


def windows_of(rows: list[Row]) -> Counter[Any]:
    return Counter((row.card, row.window.start, row.window.end, row.payments, row.total) for row in rows)


def sparks_own(payments: DataFrame, kind: str) -> DataFrame:
    windows = {
        "tumbling": F.window("paid_at", "10 seconds"),
        "hopping": F.window("paid_at", "10 seconds", "4 seconds"),
        "session": F.session_window("paid_at", "3 seconds"),
    }
    measures = F.count("*").alias("payments"), F.sum("amount").alias("total")
    return payments.groupBy("card", windows[kind].alias("window")).agg(*measures)


@pytest.mark.parametrize("kind", sorted(OURS))
@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    rows=st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 40)), min_size=1, max_size=30),
    cuts=st.lists(st.integers(1, 10), min_size=1, max_size=4),
)
def test_where_spark_has_the_window_both_say_the_same(
    spark: SparkSession, tmp_path_factory: Any, kind: str, rows: list[tuple[str, int]], cuts: list[int]
) -> None:
    """The watermark follows the oldest row that is still to come, so that none is late."""
    ran = ByHand(lambda paid: by_windows(paid, OURS[kind]), spark, tmp_path_factory.mktemp("state"))
    past = ran.rows(rows)
    expected = windows_of(sparks_own(past, kind).collect())
    assert windows_of(by_windows(past, OURS[kind]).collect()) == expected
    left = list(enumerate(rows))
    while left:
        batch, left = left[: cuts[0]], left[cuts[0] :]
        cuts = [*cuts[1:], cuts[0]]
        ran.batch([row for _, row in batch], min((second for _, (_, second) in left), default=END) - 1)
    assert Counter({one[:4]: n for one, n in windows_of(ran.said).items()}) == Counter(
        {one[:4]: n for one, n in expected.items()}
    )


def test_an_event_exactly_a_gap_after_another_is_in_its_session(spark: SparkSession, tmp_path: Path) -> None:
    past = ByHand(partial(by_windows, windows=OURS["session"]), spark, tmp_path).rows([("a", 1), ("a", 4)])
    found = windows_of(by_windows(past, OURS["session"]).collect())
    assert found == windows_of(sparks_own(past, "session").collect())
    assert [row[3] for row in found] == [2]


def test_a_complete_window_speaks_once_and_is_done(spark: SparkSession, tmp_path: Path) -> None:
    ran = ByHand(partial(by_windows, windows=TEN), spark, tmp_path)
    assert ran.batch([("a", 1), ("a", 12)], 9) == []
    assert panes(ran.batch([("a", 2)], 10)) == [(0, 2, "on-time", 0, "last")]
    assert panes(ran.batch([("a", 3), ("a", 13)], 20)) == [(10, 2, "on-time", 0, "last")]


class ShortThenLong:
    """Three seconds, then seven, counted from 1970: windows of one's own."""

    span = 7 * SECOND

    def assign(self, time: Column) -> Column:
        ten, three, second = (F.lit(one * 1_000_000) for one in (10, 3, 1))
        opened = time - F.pmod(time, ten)
        is_short = F.pmod(time, ten) < three
        start = F.when(is_short, opened).otherwise(opened + three)
        return F.array(
            F.struct(start.alias("start"), (start + F.when(is_short, 3).otherwise(7) * second).alias("end"))
        )


def test_windows_of_ones_own_speak_when_they_end(spark: SparkSession, tmp_path: Path) -> None:
    ran = ByHand(partial(by_windows, windows=ShortThenLong()), spark, tmp_path)
    rows = [("a", 1), ("a", 2), ("a", 3), ("a", 9)]
    assert panes(ran.batch(rows, 5)) == [(0, 2, "on-time", 0, "last")]
    assert panes(ran.batch([("a", 4), ("a", 11)], 12)) == [(3, 3, "on-time", 0, "last")]
    assert panes(ran.batch([], END)) == [(10, 1, "on-time", 0, "last")]
    past = by_windows(ran.rows([*rows, ("a", 4), ("a", 11)]), ShortThenLong())
    assert panes(past.collect()) == panes(ran.said)


def test_a_late_row_makes_its_window_speak_again_within_the_grace(
    spark: SparkSession, tmp_path: Path
) -> None:
    ran = ByHand(partial(by_windows, windows=TEN), spark, tmp_path, late=Refire(20 * SECOND))
    assert panes(ran.batch([("a", 1), ("a", 2)], 15)) == [(0, 2, "on-time", 0)]
    assert panes(ran.batch([("a", 3)], 25)) == [(0, 3, "late", 1)]
    assert ran.batch([("b", 25)], 25) == []
    assert panes(ran.batch([("a", 4)], 30)) == [(0, 4, "late", 2, "last"), (20, 1, "on-time", 0)]
    assert ran.batch([("a", 5)], 31) == []
    assert ran.engine._manifests[4].late == 1


def test_late_rows_too_few_for_a_pane_are_in_the_last_one(spark: SparkSession, tmp_path: Path) -> None:
    trigger = AtWatermark(late=AfterCount(2))
    ran = ByHand(partial(by_windows, windows=TEN, trigger=trigger), spark, tmp_path, late=Refire(20 * SECOND))
    assert panes(ran.batch([("a", 1), ("b", 1)], 10)) == [(0, 1, "on-time", 0), (0, 1, "on-time", 0)]
    assert ran.batch([("a", 2)], 29) == []
    assert panes(ran.batch([], 30)) == [(0, 2, "late", 1, "last")]


def test_a_global_window_speaks_early_and_never_ends(spark: SparkSession, tmp_path: Path) -> None:
    trigger = AtWatermark(early=AfterCount(2))
    ran = ByHand(partial(by_windows, windows=Global(), trigger=trigger), spark, tmp_path)
    ran.batch([("a", 1), ("a", 2), ("b", 3)], 500)
    ran.batch([("a", 1), ("a", 1), ("b", 3)], END)
    assert Counter((row.card, row.payments, row.pane.timing) for row in ran.said) == Counter(
        [("a", 2, "early"), ("a", 4, "early"), ("b", 2, "early")]
    )
    over = by_windows(ran.rows([("a", 1), ("a", 2)]), Global(), trigger=trigger).collect()
    assert [(row.payments, row.pane.timing, row.pane.is_last) for row in over] == [(2, "on-time", True)]


def test_sessions_that_a_row_joins_are_one_and_closed_ones_stay_closed(
    spark: SparkSession, tmp_path: Path
) -> None:
    ran = ByHand(partial(by_windows, windows=Session(3 * SECOND)), spark, tmp_path)
    assert ran.batch([("a", 10), ("a", 14)], 12) == []
    assert ran.batch([("a", 12)], 12) == []
    assert panes(ran.batch([("a", 30)], 17)) == [(10, 3, "on-time", 0, "last")]
    assert ran.batch([("a", 15)], 17) == []
    assert panes(ran.batch([], END)) == [(15, 1, "on-time", 0, "last"), (30, 1, "on-time", 0, "last")]


SPREES = partial(by_windows, windows=Session(3 * SECOND), panes="retracting")
EARLY_SPREES = partial(SPREES, trigger=AtWatermark(early=AfterCount(2)))


def test_a_session_that_speaks_early_takes_back_what_it_and_its_parts_said(
    spark: SparkSession, tmp_path: Path
) -> None:
    ran = ByHand(EARLY_SPREES, spark, tmp_path)
    assert ran.batch([("a", 10)], 0) == []
    assert panes(ran.batch([("a", 14), ("a", 15)], 0)) == [(14, 2, "early", 0)]
    assert panes(ran.batch([("a", 12)], 0)) == [(10, 4, "early", 1), (14, 2, "early", 0, "back")]
    assert panes(ran.batch([], END)) == [(10, 4, "early", 1, "back"), (10, 4, "on-time", 2, "last")]


def test_a_late_row_makes_sessions_that_were_over_one(spark: SparkSession, tmp_path: Path) -> None:
    ran = ByHand(SPREES, spark, tmp_path, late=Refire(20 * SECOND))
    assert panes(ran.batch([("a", 10), ("a", 14)], 18)) == [(10, 1, "on-time", 0), (14, 1, "on-time", 0)]
    assert panes(ran.batch([("a", 12)], 18)) == [
        (10, 1, "on-time", 0, "back"),
        (10, 3, "late", 1),
        (14, 1, "on-time", 0, "back"),
    ]
    assert ran.batch([], 40) == []
    assert ran.batch([("a", 15)], 40) == []
    assert [ran.engine._manifests[number].late for number in (2, 3)] == [0, 1]


def standing(rows: list[Row]) -> Counter[Any]:
    """What is left when all retractions are heard."""
    found: Counter[Any] = Counter()
    for row in rows:
        window = row.card, row.window.start, row.window.end, row.payments
        found[window] += -1 if row.pane.is_retraction else 1
    assert min(found.values(), default=0) >= 0
    return +found


@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    batches=st.lists(
        st.tuples(
            st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 25)), max_size=6), st.integers(0, 30)
        ),
        min_size=2,
        max_size=4,
    )
)
def test_what_stands_of_sessions_in_the_end_is_what_the_past_says(
    spark: SparkSession, tmp_path_factory: Any, batches: list[tuple[list[tuple[str, int]], int]]
) -> None:
    """However early, late, and in whatever order; with what was said merged as often as can be."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest, "AT_ONCE", 2)
        ran = ByHand(EARLY_SPREES, spark, tmp_path_factory.mktemp("state"), late=Refire(2 * END * SECOND))
        for rows, watermark in [*batches, ([], END)]:
            ran.batch(rows, watermark)
    past = ran.rows([row for rows, _ in batches for row in rows])
    assert standing(ran.said) == standing(SPREES(past).collect())


STEPS: list[tuple[Any, str]] = [
    (columnar, "written"),
    (Shelf, "decide"),
    (stages, "spoken"),
    (columnar.Columnar, "end"),
]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(("owner", "step"), STEPS, ids=[step for _, step in STEPS])
def test_a_driver_that_dies_knows_again_what_it_said(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, step: str, after: bool
) -> None:
    monkeypatch.setattr(columnar, "SWEEP_EVERY", 1)
    trigger = AtWatermark(early=AfterCount(2))
    ran = ByHand(partial(by_windows, windows=TEN, trigger=trigger, panes="discarding"), spark, tmp_path)
    ran.batch([("a", 1), ("a", 2)], 0)
    with dying(monkeypatch, owner, step, after=after):
        ran.batch([("a", 3), ("a", 4), ("a", 5)], 0)
    ran.restart()
    assert panes(ran.batch([("a", 3), ("a", 4), ("a", 5)], 0)) == [(0, 3, "early", 1)]
    ran.restart()
    assert panes(ran.batch([("a", 6)], END)) == [(0, 1, "on-time", 2, "last")]


def test_what_was_said_is_forgotten_with_its_window(spark: SparkSession, tmp_path: Path) -> None:
    trigger = AtWatermark(early=AfterCount(1))
    ran = ByHand(partial(by_windows, windows=TEN, trigger=trigger), spark, tmp_path)
    for second in range(0, 48, 2):
        ran.batch([("a", second)], second - 1)
    kept = ran.engine._manifests[23].steps["windowed-1"]
    assert len(kept.said) < 9
    assert sum(one.rows for one in kept.said) < 12
    on_time = [one for one in panes(ran.said) if "on-time" in one]
    assert on_time == [(at, 5, "on-time", 5, "last") for at in (0, 10, 20, 30)]
