"""Progress: what Spark tells of a batch, as the few figures that people look at."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from pyspark.sql.streaming.listener import StreamingQueryProgress

from headwater.run.ticks import are_ticks

State = Literal["starting", "running", "waiting", "stopped", "done", "failed"]
Offsets = Mapping[str, Mapping[int, int]]
"""The offset of each partition of each topic."""

_NEWEST = 20


@dataclass(frozen=True, kw_only=True)
class Progress:
    """One batch of a query, or a sign of life between batches."""

    batch: int
    rows: int
    rows_per_s: float
    batch_ms: int
    starts: Offsets
    ends: Offsets
    lag: int
    watermark: datetime | None
    late: int
    dead: int
    judged: frozenset[str]
    state_rows: int
    state_bytes: int

    @property
    def read(self) -> set[str]:
        """The topics that it has read something of."""
        return {topic for topic, ends in self.ends.items() if self.starts.get(topic) != ends}

    @property
    def is_clean(self) -> bool:
        """Whether no record was bad; not if nobody looked, as when a sink knew the batch already."""
        return self.dead == 0 and self.read <= self.judged

    @classmethod
    def of(cls, told: StreamingQueryProgress) -> "Progress":
        """Spark's own words, read."""
        return cls.of_json(json.loads(told.json))

    @classmethod
    def of_json(cls, told: Mapping[str, Any]) -> "Progress":
        """Spark's progress as JSON, read."""
        ends = _merged(told, "endOffset")
        operators = told.get("stateOperators", [])
        return cls(
            batch=told["batchId"],
            rows=told["numInputRows"] - _ticks(told),
            rows_per_s=float(told.get("processedRowsPerSecond") or 0),
            batch_ms=told.get("batchDuration", 0),
            starts=_merged(told, "startOffset"),
            ends=ends,
            lag=distance(ends, _merged(told, "latestOffset")),
            watermark=_watermark(told),
            late=sum(one["numRowsDroppedByWatermark"] for one in operators),
            dead=sum(int(one.get("dead") or 0) for one in _judgements(told).values()),
            judged=frozenset(topic for topic, one in _judgements(told).items() if one.get("seen")),
            state_rows=sum(one["numRowsTotal"] for one in operators),
            state_bytes=sum(one["memoryUsedBytes"] for one in operators),
        )


@dataclass(frozen=True, kw_only=True)
class Figures:
    """A pipeline as its users see it: the state it is in, its last batch, and its counts since it started.

    `held_by` is what keeps the watermark from being further, `completeness` the share of rows that were on
    time, and `missed` tells how many late rows each of the newest windows missed.
    """

    pipeline: str
    state: State = "starting"
    batch: int | None = None
    rows: int = 0
    rows_per_s: float = 0.0
    batch_ms: int | None = None
    lag: int | None = None
    watermark: datetime | None = None
    held_by: str = ""
    delay: timedelta | None = None
    completeness: float | None = None
    late: int = 0
    missed: Mapping[str, int] = field(default_factory=dict)
    dead: int = 0
    state_rows: int = 0
    state_bytes: int = 0
    restarts: int = 0
    error: str = field(default="", repr=False)


def newest_missed(windows: Mapping[tuple[datetime, datetime], int]) -> dict[str, int]:
    """How many late rows each of the newest windows missed, by when the window opened."""
    return {start.isoformat(): windows[start, end] for start, end in sorted(windows)[-_NEWEST:]}


def _merged(told: Mapping[str, Any], name: str) -> Offsets:
    return {topic: at for topic, at in _all(told, name).items() if not are_ticks(topic)}


def _all(told: Mapping[str, Any], name: str) -> Offsets:
    found: dict[str, dict[int, int]] = {}
    for source in told["sources"]:
        for topic, offsets in (source.get(name) or {}).items():
            found[topic] = {int(partition): offset for partition, offset in offsets.items()}
    return found


def _ticks(told: Mapping[str, Any]) -> int:
    """Wake-up calls among the records of a batch."""
    ends, starts = _all(told, "endOffset"), _all(told, "startOffset")
    return distance(*({topic: at for topic, at in one.items() if are_ticks(topic)} for one in (starts, ends)))


def distance(start: Offsets, end: Offsets) -> int:
    """How many offsets lie between."""
    return sum(
        max(0, last - start.get(topic, {}).get(partition, 0))
        for topic, ends in end.items()
        for partition, last in ends.items()
    )


def _watermark(told: Mapping[str, Any]) -> datetime | None:
    text = told.get("eventTime", {}).get("watermark")
    found = datetime.fromisoformat(text) if text else None
    return found if found is not None and found.timestamp() > 0 else None


def _judgements(told: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """How many records of each topic were looked at, and how many of them were bad."""
    observed = told.get("observedMetrics") or {}
    mark = "dead."
    return {name.removeprefix(mark): one for name, one in observed.items() if name.startswith(mark)}
