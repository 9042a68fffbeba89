"""The only reader of "now".

Everything that depends on the wall clock or on elapsed time asks here, so that a test can stand
still or jump ahead by replacing one object. Instants are aware and in UTC.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
"""Where the time of computers begins."""


def now() -> datetime:
    """The present instant, aware, in UTC."""
    return datetime.now(UTC)


class Deadline:
    """A moment after which waiting ends; measured on the monotonic clock."""

    def __init__(self, after: timedelta) -> None:
        self._ends = time.monotonic() + after.total_seconds()

    @property
    def left(self) -> float:
        """Seconds left, never below zero."""
        return max(0.0, self._ends - time.monotonic())

    @property
    def passed(self) -> bool:
        """Whether no time is left."""
        return self.left == 0


def wait_until(condition: Callable[[], bool], within: timedelta, pause: float = 0.05) -> bool:
    """Poll `condition` until it holds; tells whether it held in time."""
    deadline = Deadline(within)
    while not condition():
        if deadline.passed:
            return False
        time.sleep(min(pause, deadline.left))
    return True
