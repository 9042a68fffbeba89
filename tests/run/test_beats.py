"""Beats: a pipeline is woken for a trigger's clock when rows wait for it, and only then."""

from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql.types import StructType

from headwater import AfterCount, AtWatermark, Every, Tumbling
from headwater.process.windowed import Windowed
from headwater.run.beats import Beats
from headwater.run.manifest import Folder, Kept, Manifest
from headwater.run.steps import Met, Steps

BEGIN = datetime(2026, 1, 1, 10, tzinfo=UTC)
SECOND = timedelta(seconds=1)
ROWS = Folder("steps/windowed-1/0-a", 1, 1, 0, 0)


def beats_of(*triggers: AtWatermark) -> Beats:
    steps = [Windowed(Tumbling(60 * SECOND), (), (), one, "accumulating", "paid_at") for one in triggers]
    met = [Met(f"windowed-{n}", one, StructType(), StructType()) for n, one in enumerate(steps, start=1)]
    return Beats(Steps(tuple(met), StructType()))


def batch(since: float, at: float, *, added: bool = False, kept: bool = False) -> Manifest:
    state = Kept((ROWS,) if kept else (), ROWS if added else None)
    before, now = BEGIN + since * SECOND, BEGIN + at * SECOND
    return Manifest(batch=1, since=before, at=now, steps={"windowed-1": state})


@pytest.fixture
def beats() -> Beats:
    made = beats_of(AtWatermark(early=Every(10 * SECOND)))
    made.after(batch(0, 1))
    return made


def test_who_waits_for_nothing_is_not_woken(beats: Beats) -> None:
    assert beats.next is None
    beats.after(batch(1, 2, kept=True))
    assert beats.next is None


def test_new_rows_wait_for_the_next_beat_and_no_longer(beats: Beats) -> None:
    beats.after(batch(1, 3, added=True))
    beats.after(batch(3, 4, kept=True))
    assert beats.next == BEGIN + 10 * SECOND
    beats.after(batch(4, 10, kept=True))
    assert beats.next is None


def test_rows_of_the_batch_in_which_the_clock_strikes_are_in_its_panes(beats: Beats) -> None:
    beats.after(batch(9, 11, added=True))
    assert beats.next is None


def test_what_an_earlier_run_has_kept_may_wait() -> None:
    beats = beats_of(AtWatermark(early=Every(10 * SECOND)))
    beats.after(batch(12, 13, kept=True))
    assert beats.next == BEGIN + 20 * SECOND
    beats.after(batch(13, 20, kept=True))
    assert beats.next is None


def test_the_first_of_several_clocks_strikes_first() -> None:
    beats = beats_of(AtWatermark(early=Every(10 * SECOND), late=Every(4 * SECOND)))
    beats.after(batch(0, 1, added=True))
    assert beats.next == BEGIN + 4 * SECOND
    beats.after(batch(1, 5))
    assert beats.next == BEGIN + 10 * SECOND


def test_triggers_without_a_clock_have_no_beats() -> None:
    beats = beats_of(AtWatermark(early=AfterCount(2)))
    beats.after(batch(0, 100, added=True))
    assert beats.next is None
