"""Delays: a sketch's quantiles against the exact ones."""

from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.run.delays import Delays

NEWEST = 1_700_000_000_000_000
DELAYS = st.lists(st.integers(0, 10_000_000_000), min_size=1, max_size=300)
SHARES = st.floats(0.01, 0.99)


def sketch(delays: list[int]) -> Delays:
    return Delays.of(NEWEST - np.array(delays, np.int64), NEWEST)


@given(delays=DELAYS, share=SHARES)
def test_a_quantile_is_at_most_two_per_cent_above_the_exact_one(delays: list[int], share: float) -> None:
    found = sketch(delays).quantile(share)
    exact = timedelta(microseconds=sorted(delays)[int(np.ceil(share * len(delays))) - 1])
    assert exact <= found + timedelta(microseconds=1)
    assert found <= exact * 1.021 + timedelta(milliseconds=1)


@given(first=DELAYS, second=DELAYS, share=SHARES)
def test_two_sketches_added_are_the_sketch_of_both(first: list[int], second: list[int], share: float) -> None:
    both = sketch(first) + sketch(second)
    assert both.quantile(share) == sketch(first + second).quantile(share)


def test_rows_that_are_ahead_have_no_delay() -> None:
    assert sketch([-5, -1_000_000, 0]).quantile(0.99) == timedelta(0)


def test_what_was_long_ago_fades() -> None:
    old, new = sketch([1_000_000] * 1000), sketch([5_000_000] * 1000)
    found = old.faded(100_000, memory=20_000) + new
    assert found.quantile(0.05) > timedelta(seconds=4)
    assert found.rows == pytest.approx(1000, rel=0.01)
