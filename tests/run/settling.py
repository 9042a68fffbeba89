"""What the tests of settling share: a topic with bad records among good ones, and what became of them."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from headwater import KafkaSink, Log, Pipeline, Settings, Topic
from headwater.app import Source, Start
from headwater.clock import wait_until
from headwater.log.letter import Letter, dead_topic
from headwater.log.positions import Positions
from headwater.run.history import Planned
from headwater.run.judge import RegistryAddress, judge_of
from headwater.run.letters import BadRecords, Ranges
from headwater.run.progress import Offsets, Progress
from headwater.run.settle import Settlement

SHORT = timedelta(seconds=5)


@contextmanager
def settling(
    topic: Topic,
    spark: Any,
    settings: Settings,
    *,
    start: Start = "beginning",
    batches: Mapping[int, Planned] | None = None,
) -> Iterator[Settlement]:
    history: Any = Remembered(batches or {})
    reads = Source(topic, start=start)
    made = Settlement(f"bank.{topic.name}", reading(reads), spark, settings, history, within=SHORT)
    try:
        yield made
    finally:
        made.close()


@dataclass(frozen=True)
class Remembered:
    """What a checkpoint says of a query's batches, without one."""

    batches: Mapping[int, Planned] = field(default_factory=dict)

    @property
    def exists(self) -> bool:
        return bool(self.batches)

    @property
    def newest(self) -> int | None:
        return max(self.batches, default=None)

    def batch(self, number: int) -> Planned | None:
        return self.batches.get(number)


def reading(source: Source) -> Pipeline:
    """A pipeline that reads a topic; it is settled, not run."""
    return Pipeline(
        "passing", lambda rows: rows, reads=[source], writes=KafkaSink(Topic("on", schema="n int"))
    )


def told(ends: Offsets, *, clean: bool, starts: Offsets | None = None, number: int = 0) -> Progress:
    """What Spark tells of a batch that ended there."""
    return Progress(
        batch=number,
        rows=0,
        rows_per_s=0,
        batch_ms=0,
        starts=starts or {},
        ends=ends,
        lag=0,
        watermark=None,
        late=0,
        dead=0,
        judged=frozenset(ends) if clean else frozenset(),
        state_rows=0,
        state_bytes=0,
    )


def fill(log: Log, topic: Topic, count: int, *, bad: int) -> dict[str, dict[int, int]]:
    """Append good records and bad ones in turn; tells where the log ends."""
    with log.writer() as writer:
        for number in range(max(count, bad)):
            if number < count:
                writer.append(topic, {"n": number})
            if number < bad:
                writer.append_bytes(topic.name, b"bad", headers={"h": b"1"})
    return ends(log, topic)


def ends(log: Log, topic: Topic) -> dict[str, dict[int, int]]:
    return {topic.name: Positions(log._connection).end(topic.name, range(2))}


def buried(log: Log, topic: Topic) -> list[Letter]:
    """The letters that a committed reader sees, when the broker has decided on all of them."""
    dead = dead_topic(topic.name)
    assert wait_until(lambda: is_decided(log, dead), timedelta(seconds=20))
    return [letter for record in log.read(dead) if (letter := Letter.read(record))]


def is_decided(log: Log, topic: str) -> bool:
    positions, partitions = Positions(log._connection), range(log.topics.partitions(topic))
    return positions.end(topic, partitions, committed=True) == positions.end(topic, partitions)


def assert_once(log: Log, topic: Topic, bad: int) -> None:
    """Every bad record of the topic has one letter, and nothing else has."""
    found = Counter((one.partition, one.offset) for one in buried(log, topic))
    expected = [(one.partition, one.offset) for one in log.read(topic.name) if one.data == b"bad"]
    assert (len(expected), found) == (bad, Counter(expected))


def assert_committed(log: Log, topic: Topic, expected: Mapping[int, int]) -> None:
    """The group stands there: at once, or when the broker has made the transaction visible."""

    def committed() -> dict[int, int]:
        found = log.groups.committed(f"bank.{topic.name}")
        return {where.partition: at for where, at in found.items() if where.topic == topic.name}

    wait_until(lambda: committed() == expected, timedelta(seconds=20))
    assert committed() == expected


def read_here(self: BadRecords, source: Source, ranges: Ranges) -> Iterator[Letter]:
    """What Spark does, without Spark: the bad records of these ranges."""
    topic = source.topic
    judge = judge_of(topic, RegistryAddress())
    for record in Log.open(self._settings).read(topic.name):
        start, end = ranges.get(record.partition, (0, 0))
        if start <= record.offset < end and (reason := judge._judge(record.data)[1]):
            place = {"topic": topic.name, "partition": record.partition, "offset": record.offset}
            what = {"timestamp": record.appended_at, "key": record.key, "value": record.data}
            yield Letter(**place, **what, headers=record.headers, reason=reason, pipeline=self._label)  # type: ignore[arg-type]
