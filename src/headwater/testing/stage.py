"""Stage: a pipeline in rehearsal, as its tests see it.

Time is the stage's own. Its clock begins where the test says, goes on with the events that are fed, for
nothing can be known before it happened, and through silence; no test ever waits for it. After each move the
pipeline comes to rest: what its windows could say by then, they have said.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession

from headwater.app import Pipeline
from headwater.clock import EPOCH
from headwater.errors import BadRehearsal
from headwater.log.late_letter import LateLetter, Window
from headwater.log.topic import Topic
from headwater.run.judge import RegistryAddress, judge_of
from headwater.testing.account import Account, Counts
from headwater.testing.memory import Fed, MemoryRecord
from headwater.testing.play import Batch, Play

BEGINS = datetime(2026, 1, 1, tzinfo=UTC)
"""When a rehearsal begins, unless it says otherwise."""


@dataclass(frozen=True)
class LateRow:
    """A row that came behind the watermark; `missed` is empty where no window was at stake."""

    topic: str
    row: dict[str, Any]
    missed: tuple[Window, ...] = ()
    late_by: timedelta = field(default=timedelta(0), compare=False)


@dataclass(frozen=True)
class DeadRow:
    """What came in and could not be used, and why."""

    topic: str
    value: bytes | None
    reason: str


class Stage:
    """A pipeline in rehearsal: `rehearse` makes it."""

    def __init__(self, pipeline: Pipeline, spark: SparkSession, folder: Path, begins: datetime) -> None:
        self._now, self._pipeline = begins, pipeline
        self._account = Account()
        self._output: list[dict[str, Any]] = []
        self._late: list[LateRow] = []
        self._dead: list[DeadRow] = []
        self._play = Play(pipeline, spark, folder, lambda: self._now)

    @property
    def now(self) -> datetime:
        """The virtual clock."""
        return self._now

    @property
    def watermark(self) -> datetime | None:
        """How far event time has come; None while nobody can tell."""
        return self._play.watermark

    @property
    def counts(self) -> Counts:
        """How many records came in, and what became of them: on time + late + dead = all."""
        return self._account.counts

    def feed(self, topic: Topic | str, *rows: Fed, partition: int = 0) -> None:
        """Append rows to a topic, all in one batch.

        A text, bytes or None stands in the log as it is: so do records come that are bad.
        """
        name = topic if isinstance(topic, str) else topic.name
        if name not in self._play.topics:
            raise BadRehearsal(
                f"pipeline {self._pipeline.name!r} does not read topic {name!r}",
                hint=f"it reads {', '.join(self._play.topics)}",
            )
        records = self._play.topics[name].records(rows, partition, self._now)
        good = self._judged(name, records)
        self._took(self._play.feed(name, records), good)

    def advance(self, to: datetime) -> None:
        """Move the watermark to a moment, as if all before it had been seen."""
        _check_instant("the watermark moves to", to)
        if self._play.keeper is None:
            raise BadRehearsal(f"pipeline {self._pipeline.name!r} has no watermark")
        if self.watermark is not None and to < self.watermark:
            raise BadRehearsal(f"the watermark is at {self.watermark}, and does not go back to {to}")
        self._took(self._play.advance(to), 0)

    def silence(self, length: timedelta) -> None:
        """Let time pass in which nothing comes."""
        if length < timedelta(0):
            raise BadRehearsal("time does not go back")
        self._goes_on(self._now + length)
        if self._play.is_asleep:
            self._took(self._play.tick(), 0)

    def output(self) -> list[dict[str, Any]]:
        """The rows that came out since this was last asked, batch by batch, each batch sorted."""
        found, self._output = self._output, []
        return found

    def late(self) -> list[LateRow]:
        """The rows that were late and diverted, since this was last asked."""
        return self._behind() if self._pipeline.late_topic else []

    def dropped(self) -> list[LateRow]:
        """The rows that were late and dropped, since this was last asked."""
        return [] if self._pipeline.late_topic else self._behind()

    def dead(self) -> list[DeadRow]:
        """The records that became dead letters, since this was last asked."""
        found, self._dead = self._dead, []
        return found

    def close(self) -> None:
        """End the rehearsal."""
        self._play.stop()

    def _behind(self) -> list[LateRow]:
        found, self._late = self._late, []
        return found

    def _judged(self, name: str, records: Sequence[MemoryRecord]) -> int:
        """Tell the bad ones, move the clock to the newest event of the others; how many those are."""
        topic = self._play.topics[name].topic
        records = [one for one in records if one.value is not None or not topic.compacted]
        judge = judge_of(topic, RegistryAddress(), self._pipeline.future)
        appended = pa.array([(one.appended_at - EPOCH) // timedelta(milliseconds=1) for one in records])
        columns, reasons = judge.columns(pa.array([one.value for one in records], pa.binary()), appended)
        judged = list(zip(records, reasons or [""] * len(records), strict=True))
        self._dead += [DeadRow(name, one.value, why) for one, why in judged if why]
        good = [(one.topic, one.partition, one.offset) for one, why in judged if not why]
        self._account.fed(good, len(judged) - len(good))
        if topic.event_time and good:
            self._hear(columns[topic.spark_schema.names.index(topic.event_time)])
        return len(good)

    def _hear(self, events: pa.Array) -> None:
        newest = max(events.drop_null().view(pa.int64()).to_pylist())
        self._goes_on(EPOCH + timedelta(microseconds=newest))

    def _goes_on(self, to: datetime) -> None:
        """The clock goes on, and whoever has something to say on the way says it then."""
        while (at := self._play.speaks_at) is not None and at <= to:
            self._now = max(self._now, at)
            self._took(self._play.tick(), 0)
        self._now = max(self._now, to)

    def _took(self, batches: Sequence[Batch], good: int) -> None:
        seen = [sum(told.sight.rows.values()) for one in batches for told in one.told.values()]
        self._account.saw(good, sum(seen) if self._play.keeper and seen else None)
        for one in batches:
            self._output += one.rows
            late = self._play.late(one)
            self._account.late(
                [(letter.topic, letter.partition, letter.offset) for letter in late], one.dropped
            )
            self._late += map(self._row, late)

    def _row(self, letter: LateLetter) -> LateRow:
        row = msgspec.json.decode(letter.value or b"{}", type=self._play.topics[letter.topic].topic.row)
        return LateRow(letter.topic, msgspec.structs.asdict(row), letter.missed, letter.late_by)


@contextmanager
def rehearse(pipeline: Pipeline, spark: SparkSession, *, begins: datetime = BEGINS) -> Iterator[Stage]:
    """A stage with this pipeline on it, until the block ends."""
    _check_instant("a rehearsal begins at", begins)
    with TemporaryDirectory(prefix="headwater-", ignore_cleanup_errors=True) as folder:
        stage = Stage(pipeline, spark, Path(folder), begins)
        try:
            yield stage
        finally:
            stage.close()


def _check_instant(what: str, at: datetime) -> None:
    if at.tzinfo is None:
        raise BadRehearsal(f"{what} an instant with its zone, not {at}", hint="tzinfo=UTC")
