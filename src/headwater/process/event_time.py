"""Event time: how long a pipeline waits for rows that are under way, and what becomes of later ones."""

from dataclasses import dataclass
from datetime import timedelta

from headwater.errors import BadPipeline


@dataclass(frozen=True)
class Bounded:
    """A watermark that stays `delay` behind the newest event: rows may be out of order by that much."""

    delay: timedelta

    def __post_init__(self) -> None:
        if self.delay < timedelta(0):
            raise BadPipeline("a watermark's delay cannot be negative")


@dataclass(frozen=True)
class Drop:
    """Late rows are dropped and counted."""
