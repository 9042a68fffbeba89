"""Matching: what counts as the same row, and how a difference is told."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from headwater.testing.matching import difference, said

DAY = date(2026, 1, 1)
TEN = datetime(2026, 1, 1, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        (5, 5),
        (5, 5.0),
        (0.3, 0.1 + 0.2),
        ("10:00:00", TEN),
        ("2026-01-01T11:00:00+01:00", TEN),
        ("10:00:00", TEN.replace(tzinfo=None)),
        ("2026-01-01", DAY),
        ("12.50", Decimal("12.50")),
        ("text", "text"),
        ("bytes", b"bytes"),
        (True, True),
        (None, None),
        ({"a": 1}, {"a": 1, "b": 2}),
        ([1, 2], [1, 2]),
        ("10:00:00", [TEN]),
    ],
)
def test_a_value_is_what_a_transcript_says(expected: Any, found: Any) -> None:
    assert difference([{"v": expected}], [{"v": found}], DAY) == ""


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        (5, 6),
        (1, True),
        (0, None),
        (None, 0),
        ("5", 5.0),
        ("10:00:01", TEN),
        ("ten", TEN),
        ([1], [1, 2]),
        ({"a": 1}, {"a": 2}),
        ({"c": 1}, {"a": 1}),
        (1, {"a": 1}),
    ],
)
def test_a_value_is_not_what_a_transcript_says(expected: Any, found: Any) -> None:
    assert difference([{"v": expected}], [{"v": found}], DAY) != ""


def test_a_reason_may_be_a_part_of_it() -> None:
    found = [{"reason": "it has no value"}]
    assert difference([{"reason": "no value"}], found, DAY) == ""
    assert difference([{"reason": "no key"}], found, DAY) != ""


def test_rows_have_no_order_and_who_says_more_chooses_first() -> None:
    rows = [{"card": "a", "n": 1}, {"card": "a", "n": 2}]
    assert difference([{"card": "a"}, {"card": "a", "n": 1}], rows, DAY) == ""


def test_a_difference_tells_what_is_missing_and_what_is_too_much() -> None:
    expected: list[dict[str, Any]] = [{"card": "a", "at": "10:00:00", "n": 2}, {"card": "b"}]
    later = {"card": "b", "at": TEN.replace(year=2027), "n": None}
    found: list[dict[str, Any]] = [{"card": "a", "at": TEN, "n": 1.0}, later]
    assert difference(expected, found, DAY).splitlines() == [
        "expected, and not there:  {card: a, at: 10:00:00, n: 2}",
        "there, and not expected:  {card: a, at: 10:00:00, n: 1}",
    ]
    assert said(later, DAY) == "{card: b, at: 2027-01-01T10:00:00Z, n: null}"


def test_a_column_that_rows_do_not_have_matches_none() -> None:
    assert "there, and not expected" in difference([{"colour": None}], [{"card": "a"}], DAY)
