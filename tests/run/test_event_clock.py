"""The event clock: pure arithmetic on what was seen, and when."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater import Adaptive, Bounded, Monotonic, Punctuated
from headwater.clock import EPOCH
from headwater.run.delays import Delays
from headwater.run.event_clock import ENOUGH, WALL_CLOCK, EventClock, Sight

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
PAID = {"paid": {0: 0, 1: 0}}


def micros(seconds: float) -> int:
    return int(seconds * 1_000_000)


def saw(seconds: float, partition: int = 0, rows: int = 1) -> Sight:
    return Sight({partition: rows}, {partition: micros(seconds)})


def test_a_bounded_watermark_stays_its_delay_behind_the_newest_event() -> None:
    clock = EventClock(Bounded(5 * SECOND), {"paid": 2}, NOW)
    assert clock.advance({"paid": saw(100)}, PAID, NOW) == (95_000, "paid")
    assert clock.advance({"paid": saw(90, 1)}, PAID, NOW).watermark == 95_000
    assert clock.advance({"paid": saw(101, 1)}, PAID, NOW).watermark == 96_000


def test_a_monotonic_one_stays_at_it_and_grace_waits_longer() -> None:
    clock = EventClock(Monotonic(), {"paid": 1}, NOW, grace=2 * SECOND)
    assert clock.advance({"paid": saw(100)}, PAID, NOW).watermark == 98_000


@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 3), st.integers(0, 1000))))
def test_a_watermark_never_goes_back(seen: list[tuple[str, int, int]]) -> None:
    clock = EventClock(Bounded(5 * SECOND, idle=2 * SECOND), {"a": 4, "b": 4}, EPOCH, by_partition=True)
    before = 0
    for number, (topic, partition, second) in enumerate(seen):
        ends = {"a": dict.fromkeys(range(4), 0), "b": dict.fromkeys(range(4), 0)}
        found = clock.advance({topic: saw(second, partition)}, ends, EPOCH + number * SECOND).watermark
        assert found >= before
        before = found


def test_the_slowest_of_several_inputs_decides_and_is_named() -> None:
    clock = EventClock(Bounded(5 * SECOND), {"paid": 1, "clicks": 1}, NOW)
    assert clock.advance({"paid": saw(100)}, {}, NOW) == (0, "clicks")
    assert clock.advance({"clicks": saw(50)}, {}, NOW) == (45_000, "clicks")
    assert clock.advance({"clicks": saw(200)}, {}, NOW) == (95_000, "paid")


def test_an_input_that_is_idle_does_not_hold_the_others_back() -> None:
    clock = EventClock(Bounded(5 * SECOND, idle=10 * SECOND), {"paid": 1, "clicks": 1}, NOW)
    assert clock.advance({"paid": saw(100)}, {}, NOW + 9 * SECOND) == (0, "clicks")
    assert clock.advance({"paid": saw(101)}, {}, NOW + 10 * SECOND) == (96_000, "paid")
    assert clock.advance({"clicks": saw(60)}, {}, NOW + 11 * SECOND) == (96_000, "clicks")


def test_when_all_are_idle_event_time_is_the_wall_clocks() -> None:
    clock = EventClock(Bounded(5 * SECOND, idle=10 * SECOND), {"paid": 1}, NOW)
    clock.advance({"paid": saw(100)}, PAID, NOW)
    assert not clock.is_silent(NOW + 9 * SECOND)
    assert clock.is_silent(NOW + 10 * SECOND)
    found = clock.advance({}, PAID, NOW + 10 * SECOND)
    assert found.held_by == WALL_CLOCK
    assert EPOCH + timedelta(milliseconds=found.watermark) == NOW + 5 * SECOND


def test_a_source_that_says_how_far_it_is_is_believed_partition_by_partition() -> None:
    clock = EventClock(Punctuated("complete_to"), {"paid": 0}, NOW)
    assert clock.advance({"paid": saw(100)}, PAID, NOW) == (0, "paid[1]")
    assert clock.advance({"paid": saw(70, 1)}, PAID, NOW) == (70_000, "paid[1]")
    assert clock.advance({"paid": Sight({1: 5}, {})}, PAID, NOW) == (70_000, "paid[1]")
    grown = {"paid": {0: 0, 1: 0, 2: 0}}
    assert clock.advance({"paid": saw(170, 1)}, grown, NOW) == (70_000, "paid[2]")


def late_by(*seconds: float) -> Sight:
    delays = Delays.of(-np.array([micros(one) for one in seconds], np.int64), 0)
    return Sight({0: len(seconds)}, {0: micros(1000)}, delays)


def test_an_adaptive_one_is_careful_until_it_has_seen_enough() -> None:
    clock = EventClock(Adaptive(0.9, at_most=60 * SECOND), {"paid": 1}, NOW)
    clock.advance({"paid": late_by(*[1.0] * (ENOUGH - 1))}, PAID, NOW)
    assert clock.delay("paid") == 60 * SECOND
    clock.advance({"paid": late_by(*[1.0] * 10)}, PAID, NOW)
    assert clock.delay("paid") == pytest.approx(SECOND, rel=0.021)


def test_an_adaptive_one_follows_the_quantile_within_its_bounds() -> None:
    spec = Adaptive(0.9, at_least=2 * SECOND, at_most=60 * SECOND)
    clock = EventClock(spec, {"paid": 1}, NOW)
    clock.advance({"paid": late_by(*[0.1] * 950, *[30.0] * 50)}, PAID, NOW)
    assert clock.delay("paid") == 2 * SECOND
    clock.advance({"paid": late_by(*[30.0] * 50_000)}, PAID, NOW)
    assert clock.delay("paid") == pytest.approx(30 * SECOND, rel=0.021)
    clock.advance({"paid": late_by(*[300.0] * 50_000)}, PAID, NOW)
    assert clock.delay("paid") == 60 * SECOND
