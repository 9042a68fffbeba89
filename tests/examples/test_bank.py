"""The bank's day is what its truth says, and its account finds whatever is not where it belongs."""

import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headwater import Settings

FOLDER = Path(__file__).parents[2] / "examples/bank"
NINE = datetime(2026, 1, 5, 9, tzinfo=UTC)
FIVE_MINUTES = timedelta(minutes=5)


@pytest.fixture
def bank(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The example's modules; other programs have modules of these names, too."""
    monkeypatch.syspath_prepend(FOLDER)
    yield SimpleNamespace(account=import_module("account"), transactions=import_module("transactions"))
    for name in [file.stem for file in FOLDER.glob("*.py")]:
        sys.modules.pop(name, None)


@pytest.fixture
def day(bank: Any) -> Any:
    return bank.transactions.Day(NINE, 10)


def test_a_day_of_the_same_length_is_the_same_day(bank, day):
    assert bank.transactions.Day(NINE, 10) == day


def test_whatever_the_batches_are_a_payment_is_late_exactly_if_the_truth_says_so(day):
    newest = NINE - FIVE_MINUTES
    for one in [one.row for one in day.records if one.row]:
        closes_at = one["paid_at"] + FIVE_MINUTES - (one["paid_at"] - NINE) % FIVE_MINUTES
        is_night = closes_at <= NINE - FIVE_MINUTES - timedelta(minutes=1)  # the watermark after the opening
        assert is_night == ((one["card"], one["id"]) in day.late)
        assert is_night or closes_at > newest - timedelta(minutes=1)
        newest = max(newest, one["paid_at"])


def test_only_stolen_cards_are_used_too_often_and_all_of_them(day, bank):
    assert day.fraud
    too_often = {window for window, count in day.counts.items() if count >= bank.transactions.TOO_OFTEN}
    assert set(day.fraud) == too_often


def test_every_record_of_a_day_is_on_time_late_bad_or_of_the_evening(day):
    parts = (day.counts, day.late, day.bad)
    assert day.sent == sum(one.total() for one in parts) + len(day.closing)


def account_of(bank: Any, day: Any) -> Any:
    """An account in which all is as it must be."""
    found = bank.account.Account(Settings(), day)
    found.__dict__.update(
        windows=day.counts.copy(), late=day.late.copy(), dead=day.bad.copy(), alerts=day.fraud.copy()
    )
    return found


def test_an_account_in_which_all_came_out_is_right_and_complete(bank, day):
    found = account_of(bank, day)
    assert found.is_right
    assert found.is_complete
    assert (found.wrong, found.wrong_alerts) == (0, 0)


@pytest.mark.parametrize("of", ["windows", "late", "dead", "alerts"])
@pytest.mark.parametrize("change", [-1, 1])
def test_what_was_lost_or_doubled_is_found(bank, day, of, change):
    found = account_of(bank, day)
    counts: Counter[Any] = getattr(found, of)
    counts[next(iter(counts))] += change
    assert not found.is_right
    assert (found.wrong, found.wrong_alerts) == ((0, 1) if of == "alerts" else (1, 0))
    assert found.is_complete == (change > 0)


def test_a_payment_counted_in_the_wrong_window_is_found_although_the_sum_is_right(bank, day):
    found = account_of(bank, day)
    one, other, *_ = found.windows
    found.windows[one] -= 1
    found.windows[other] += 1
    assert (found.is_right, found.wrong) == (False, 2)
