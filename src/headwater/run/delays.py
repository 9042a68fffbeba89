"""Delays: how late rows come, as a sketch that workers fill, the driver adds up, and time fades.

A histogram whose buckets are two per cent wide, from a millisecond up: enough for any quantile, small enough
to travel with every task. A row's delay is how far the newest event before its batch was ahead of it.
"""

from dataclasses import dataclass
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

_WIDTH = float(np.log(1.02))
_BUCKETS = 1200  # up to 240 days

Micros = NDArray[np.int64]


@dataclass(frozen=True)
class Delays:
    """How many rows had which delay."""

    counts: NDArray[np.float64]

    @classmethod
    def none(cls) -> "Delays":
        """Of no rows."""
        return cls(np.zeros(_BUCKETS))

    @classmethod
    def of(cls, events: Micros, newest: int) -> "Delays":
        """Of events, when the newest before them was this; all in microseconds since 1970."""
        late = np.maximum((newest - events) / 1000, 0)
        bucket = np.ceil(np.log(np.maximum(late, 1)) / _WIDTH) + (late > 0)
        found = np.minimum(bucket, _BUCKETS - 1).astype(int)
        return cls(np.bincount(found, minlength=_BUCKETS).astype(float))

    def __add__(self, other: "Delays") -> "Delays":
        return Delays(self.counts + other.counts)

    def faded(self, rows: float, memory: float) -> "Delays":
        """What is left of it when so many more rows have been seen."""
        return Delays(self.counts * np.exp(-rows / memory))

    @property
    def rows(self) -> float:
        """How many rows it stands for."""
        return float(self.counts.sum())

    def quantile(self, share: float) -> timedelta:
        """The delay that this share of the rows stays below."""
        bucket = int(np.searchsorted(self.counts.cumsum(), share * self.rows))
        return timedelta(milliseconds=float(np.exp((bucket - 1) * _WIDTH)) if bucket else 0)
