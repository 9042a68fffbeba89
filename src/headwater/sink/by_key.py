"""By key: a batch's rows as changes of keys, written by the executors in chunks.

A chunk has at most one change for each key, the newest. The store itself compares it with what is there,
because the changes of a key may come from several tasks, from a task that was given up, or from a replay.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as spark

from headwater.errors import KeyMissing, SinkUnreachable, ValueMismatch
from headwater.sink.failures import as_raised_in_tasks
from headwater.sink.keyed import DELETED, KEPT_POSITION, Keyed
from headwater.sink.plain import plain
from headwater.sink.refused import Refused

AT_ONCE = 500
"""Changes in one round trip."""

_REFUSED = "key string, position long, value binary, reason string"
_ARROW = pa.schema(
    [("key", pa.string()), ("position", pa.int64()), ("value", pa.binary()), ("reason", pa.string())]
)
_PAUSES = (0.1, 0.4, 1.6)
T = TypeVar("T")


class Change(NamedTuple):
    """The newest word on a key: its row, or None when the key is gone."""

    key: tuple[Any, ...]
    position: int
    row: dict[str, Any] | None


Keep = Callable[[Iterator[Sequence[Change]]], Sequence[Refused] | None]
"""Writes what one task has, chunk by chunk; returns when all of it is kept, or refused for good."""


def write_by_key(
    rows: DataFrame, keyed: Keyed, sink: str, keep: Keep, at_once: int = AT_ONCE
) -> list[Refused]:
    """Write a batch's rows from the executors; gives those that the store refused for good."""
    task = Task(keyed, keyed.columns(rows.schema), sink, keep, at_once)
    with as_raised_in_tasks():
        found = keyed.changes(rows).mapInArrow(task, _REFUSED).collect()
    return [Refused(one.key, one.position, bytes(one.value), one.reason) for one in found]


@dataclass(frozen=True)
class Task:
    """What one task does with its part of a batch, for DataFrame.mapInArrow."""

    keyed: Keyed
    columns: spark.StructType
    sink: str
    keep: Keep
    at_once: int

    def __call__(self, blocks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write all; to the end of the rows, because the state behind them is saved only then."""
        chunks = self._chunks(blocks)
        refused = self.keep(chunks) or ()
        deque(chunks, maxlen=0)
        yield pa.RecordBatch.from_pylist([one._asdict() for one in refused], _ARROW)

    def _chunks(self, blocks: Iterator[pa.RecordBatch]) -> Iterator[Sequence[Change]]:
        turn = plain(self.columns)
        for block in blocks:
            found = newest(self._change(turn(row), row) for row in _rows(block, self.sink))
            for start in range(0, len(found), self.at_once):
                yield found[start : start + self.at_once]

    def _change(self, row: dict[str, Any], told: dict[str, Any]) -> Change:
        key, position = tuple(row[one] for one in self.keyed.keys), told[KEPT_POSITION]
        if None in key:
            name = self.keyed.keys[key.index(None)]
            raise KeyMissing(f"a row for the copy {self.sink!r} has no {name!r}, its key")
        if position is None or position < 0:
            what = f"{self.keyed.version!r} of a row for the copy {self.sink!r}"
            raise ValueMismatch(f"{what} is {'null' if position is None else 'negative'}")
        return Change(key, position, None if told[DELETED] else row)


def newest(changes: Iterable[Change]) -> list[Change]:
    """The newest change of each key."""
    found: dict[tuple[Any, ...], Change] = {}
    for one in changes:
        known = found.get(one.key)
        if known is None or known.position < one.position:
            found[one.key] = one
    return list(found.values())


def tried(action: Callable[[], T]) -> T:
    """Do it, again after a pause while the store cannot be reached; three times, then the batch fails."""
    for pause in _PAUSES:
        try:
            return action()
        except SinkUnreachable:
            time.sleep(pause)
    return action()


def _rows(block: pa.RecordBatch, sink: str) -> list[dict[str, Any]]:
    try:
        found: list[dict[str, Any]] = block.to_pylist()
    except (ValueError, OverflowError) as error:  # Python's calendar has the years 1 to 9999
        raise ValueMismatch(f"a row for the copy {sink!r} cannot be read: {error}") from error
    return found
