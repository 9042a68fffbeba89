"""Moments: how transcripts write times and durations. A time of day is one of the day on which it begins."""

import re
from datetime import UTC, date, datetime, timedelta

from headwater.log.late_letter import Window

_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d[T ])?\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[-+]\d\d:\d\d)?")
_LENGTH = re.compile(r"(\d+(?:\.\d+)?) (millisecond|second|minute|hour|day)s?")


def moment(text: str, day: date) -> datetime | None:
    """`10:00:05`, or an instant in full; None for any other text."""
    if not _MOMENT.fullmatch(text):
        return None
    try:
        found = datetime.fromisoformat(text if "-" in text[:5] else f"{day}T{text}")
    except ValueError:  # the thirty-first of February
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def length(text: str) -> timedelta | None:
    """`30 seconds`, `1.5 hours`; None for any other text."""
    found = _LENGTH.fullmatch(text)
    return timedelta(**{f"{found[2]}s": float(found[1])}) if found else None


def shown(at: datetime, day: date) -> str:
    """A moment as a transcript would write it."""
    at = at.replace(tzinfo=UTC)
    return at.time().isoformat() if at.date() == day else at.isoformat().replace("+00:00", "Z")


def shown_window(window: Window, day: date) -> str:
    """A window as a transcript would write it."""
    start, end = window
    return f"{shown(start, day)} to {shown(end, day)}"
