"""Columnar state: a stream says what the past says, whatever crashes, and keeps no more than it needs."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, Row, SparkSession
from tests.run.by_hand import ByHand, dying
from tests.run.sliding_stories import WITHIN, at_once, brute_force, measured

from headwater.errors import StateMismatch
from headwater.run import columnar
from headwater.run.shelf import Shelf

pytestmark = pytest.mark.system
SPARKS_CHOICE = "org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager"
"""How Spark keeps its logs on file systems that are not this machine's."""

ROWS = [("a", 0), ("b", 1), ("a", 3), ("a", 7), ("b", 8), ("a", 10), ("a", 10), ("b", 20)]


def counted(rows: list[Row]) -> Counter[tuple[str, int]]:
    return Counter((row.card, row.payments) for row in rows)


def by_force(rows: list[tuple[str, int]]) -> Counter[tuple[str, int]]:
    found: Counter[tuple[str, int]] = Counter()
    for (card, _, payments), times in brute_force(rows).items():
        found[card, payments] += times
    return found


def folders(place: Path) -> set[str]:
    return {one.name for one in place.glob("columnar/steps/*/*")}


@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    rows=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 40)), min_size=1, max_size=40),
    cuts=st.lists(st.integers(1, 15), min_size=1, max_size=5),
    delay=st.integers(0, 12),
)
def test_what_was_said_of_rows_on_time_is_what_the_past_says_of_them(
    spark: SparkSession, tmp_path_factory: Any, rows: list[tuple[str, int]], cuts: list[int], delay: int
) -> None:
    ran = ByHand(measured, spark, tmp_path_factory.mktemp("state"))
    on_time, watermark, newest = [], -1000, 0
    while rows:
        batch, rows = rows[: cuts[0]], rows[cuts[0] :]
        cuts = [*cuts[1:], cuts[0]]
        on_time += [one for one in batch if one[1] > watermark]
        newest = max(newest, *(second for _, second in batch))
        watermark = max(watermark, newest - delay)
        ran.batch(batch, watermark)
    ran.batch([], 1000)
    assert counted(ran.said) == by_force(on_time)


def test_by_arrival_each_row_is_answered_in_its_batch_from_what_is_known(
    spark: SparkSession, tmp_path: Path
) -> None:
    ran = ByHand(at_once, spark, tmp_path)
    assert counted(ran.batch([("a", 5)], 0)) == {("a", 1): 1}
    assert counted(ran.batch([("a", 3), ("a", 6)], 2)) == {("a", 1): 1, ("a", 3): 1}
    assert counted(ran.batch([("a", 2), ("a", 3 + WITHIN)], 2)) == {("a", 3): 1}
    assert ran.batch([], 1000) == []


def test_over_a_bounded_past_everything_closes(spark: SparkSession, tmp_path: Path) -> None:
    past = ByHand(measured, spark, tmp_path).rows(ROWS)
    assert counted(measured(past).collect()) == counted(at_once(past).collect()) == by_force(ROWS)
    assert "_batch" not in measured(past).columns


def test_state_stands_on_any_file_system_that_hadoop_knows(spark: SparkSession, tmp_path: Path) -> None:
    options = {
        "fs.viewfs.mounttable.elsewhere.link./state": tmp_path.as_uri(),
        "spark.sql.streaming.checkpointFileManagerClass": SPARKS_CHOICE,
    }
    ran = ByHand(measured, spark, tmp_path, place="viewfs://elsewhere/state", options=options)
    ran.batch(ROWS[:3], 2)
    ran.batch(ROWS[3:6], 7)
    ran.restart()
    ran.batch(ROWS[6:], 1000)
    assert counted(ran.said) == by_force(ROWS)
    assert folders(tmp_path)


def test_a_batch_that_is_tried_again_decides_nothing_anew(spark: SparkSession, tmp_path: Path) -> None:
    ran = ByHand(measured, spark, tmp_path)
    ran.batch(ROWS[:4], 2)
    first = counted(ran.batch(ROWS[4:], 9))
    assert counted(ran.again([("z", 0)], 1000)) == first
    assert ran.keeper.watermark == ran.engine._manifests[1].watermark


STEPS: list[tuple[Any, str]] = [
    (columnar, "written"),
    (Shelf, "decide"),
    (columnar.Columnar, "_answered"),
    (columnar.Columnar, "end"),
    (Shelf, "sweep"),
]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(("owner", "step"), STEPS, ids=[step for _, step in STEPS])
def test_a_driver_that_dies_anywhere_costs_nothing_and_doubles_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, step: str, after: bool
) -> None:
    monkeypatch.setattr(columnar, "SWEEP_EVERY", 1)
    ran = ByHand(measured, spark, tmp_path)
    ran.batch(ROWS[:4], 2)
    said = list(ran.said)
    with dying(monkeypatch, owner, step, after=after):
        ran.batch(ROWS[4:6], 6)
    ran.said = said  # a sink that knows the batch leaves what is there
    ran.restart()
    ran.batch(ROWS[4:6], 6)
    ran.restart()
    ran.batch(ROWS[6:], 1000)
    assert counted(ran.said) == by_force(ROWS)
    assert len(folders(tmp_path)) <= 3


def test_of_two_drivers_the_first_decides(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran, other = ByHand(measured, spark, tmp_path), ByHand(measured, spark, tmp_path)
    decided = columnar.Columnar._decided

    def overtaken(self: Any, *given: Any) -> Any:
        mine = decided(self, *given)
        with monkeypatch.context() as patch:
            patch.setattr(columnar.Columnar, "_decided", decided)
            other.batch(ROWS[:4], 5)
        return mine

    with monkeypatch.context() as patch:
        patch.setattr(columnar.Columnar, "_decided", overtaken)
        ran.batch(ROWS[:4], 1000)
    assert counted(ran.said) == counted(other.said)
    ran.batch(ROWS[4:], 1000)
    assert counted(ran.said) == by_force(ROWS)


def test_state_is_as_long_as_the_window_and_in_few_folders(spark: SparkSession, tmp_path: Path) -> None:
    ran = ByHand(measured, spark, tmp_path)
    for second in range(0, 60, 2):
        ran.batch([("a", second)], second - 1)
    assert len(folders(tmp_path)) < 20
    shelf = Shelf(str(tmp_path), spark)
    newest = shelf.manifest(29)
    assert newest is not None
    assert all(one.newest > newest.before * 1000 - WITHIN * 1_000_000 for one in newest.folders)
    assert counted(ran.said) == by_force([("a", second) for second in range(0, 57, 2)])


def test_a_state_of_other_steps_is_not_gone_on_from(spark: SparkSession, tmp_path: Path) -> None:
    ran = ByHand(measured, spark, tmp_path)
    ran.batch(ROWS, 2)

    other = ByHand(named, spark, tmp_path, number=1)
    with pytest.raises(StateMismatch, match="steps: last-minute\n  state: sliding-1"):
        other.batch(ROWS, 3)
    late = ByHand(measured, spark, tmp_path, number=7)
    with pytest.raises(StateMismatch, match="batch 7 of pipeline 'by-hand' goes on from a state that is not"):
        late.batch(ROWS, 3)


def named(payments: DataFrame) -> DataFrame:
    return measured(payments, name="last-minute")
