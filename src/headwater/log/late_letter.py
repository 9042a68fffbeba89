"""A late letter: a record that came after its windows were closed, as it stands in a pipeline's late topic.

It is written as dead letters are, bytes and headers as they were; beside them stand when its event
happened, the watermark that had passed it, and the windows that it missed.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from headwater.log.letter import Letter
from headwater.log.record import Record

REASON = "it came after the watermark"
Window = tuple[datetime, datetime]


@dataclass(frozen=True, kw_only=True)
class LateLetter(Letter):
    """A late record; `missed` is empty where no window was at stake, as in a deduplication."""

    reason: str = REASON
    event_at: datetime
    watermark: datetime
    missed: tuple[Window, ...] = ()

    @property
    def late_by(self) -> timedelta:
        """How far the watermark was ahead of the event."""
        return self.watermark - self.event_at

    def _said(self) -> dict[str, str]:
        return super()._said() | {
            "event-at": self.event_at.isoformat(),
            "watermark": _written(self.watermark),
            "missed": _listed(self.missed),
        }

    @classmethod
    def _from(cls, record: Record, said: Mapping[str, str]) -> dict[str, Any]:
        windows = [map(datetime.fromisoformat, one) for one in json.loads(said["missed"])]
        return super()._from(record, said) | {
            "event_at": datetime.fromisoformat(said["event-at"]),
            "watermark": datetime.fromisoformat(said["watermark"]),
            "missed": tuple((start, end) for start, end in windows),
        }


@lru_cache
def _written(watermark: datetime) -> str:
    return watermark.isoformat()


@lru_cache
def _listed(missed: tuple[Window, ...]) -> str:
    """Many letters have missed the same windows, and those of a batch have one watermark."""
    return json.dumps([[start.isoformat(), end.isoformat()] for start, end in missed])
