"""Time: now, deadlines, and waiting that ends."""

import time
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from headwater import clock
from headwater.clock import Deadline, wait_until

AN_HOUR = timedelta(hours=1)


@pytest.fixture
def virtual(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The monotonic clock as a number to set; sleeping moves it on."""
    now = [100.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", sleep)
    return now


def test_now_is_aware_and_in_utc() -> None:
    before = datetime.now(UTC)
    assert before <= clock.now() <= datetime.now(UTC)
    assert clock.now().utcoffset() == timedelta(0)


def test_a_deadline_passes_and_never_has_less_than_nothing_left(virtual: list[float]) -> None:
    deadline = Deadline(timedelta(seconds=10))
    assert (deadline.left, deadline.passed) == (10, False)
    virtual[0] += 4
    assert deadline.left == 6
    virtual[0] += 100
    assert (deadline.left, deadline.passed) == (0, True)


def test_a_condition_that_holds_is_not_waited_for(virtual: list[float]) -> None:
    assert wait_until(lambda: True, timedelta(0))
    assert virtual == [100.0]


def test_waiting_ends_as_soon_as_the_condition_holds(virtual: list[float]) -> None:
    asked = count()
    assert wait_until(lambda: next(asked) == 3, AN_HOUR, pause=2)
    assert virtual == [106.0]


def test_waiting_in_vain_ends_at_the_deadline_and_not_later(virtual: list[float]) -> None:
    assert not wait_until(lambda: False, timedelta(seconds=5), pause=2)
    assert virtual == [105.0]


def test_the_condition_is_asked_once_more_at_the_deadline(virtual: list[float]) -> None:
    assert wait_until(lambda: virtual[0] >= 105, timedelta(seconds=5), pause=2)
