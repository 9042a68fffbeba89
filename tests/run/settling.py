"""What the tests of settling share: a topic with bad records among good ones, and what became of them."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from headwater import Log, Settings, Topic
from headwater.app import Source, Start
from headwater.clock import wait_until
from headwater.log.letter import Letter, dead_topic
from headwater.log.positions import Positions
from headwater.run.judge import RegistryAddress, judge_of
from headwater.run.settle import Settlement

SHORT = timedelta(seconds=5)


@contextmanager
def settling(
    topic: Topic, spark: Any, settings: Settings, *, start: Start = "beginning", has_run: bool = False
) -> Iterator[Settlement]:
    sources = [Source(topic, start=start)]
    made = Settlement(f"bank.{topic.name}", sources, spark, settings, has_run=has_run, within=SHORT)
    try:
        yield made
    finally:
        made.close()


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


def committed(log: Log, topic: Topic) -> dict[int, int]:
    found = log.groups.committed(f"bank.{topic.name}")
    return {where.partition: at for where, at in found.items() if where.topic == topic.name}


def read_here(_: object, topic: Topic, ranges: Any, settings: Settings, pipeline: str) -> Iterator[Letter]:
    """What Spark does, without Spark: the bad records of these ranges."""
    judge = judge_of(topic, RegistryAddress())
    for record in Log.open(settings).read(topic.name):
        start, end = ranges.get(record.partition, (0, 0))
        if start <= record.offset < end and (reason := judge._judge(record.data)[1]):
            place = {"topic": topic.name, "partition": record.partition, "offset": record.offset}
            what = {"timestamp": record.appended_at, "key": record.key, "value": record.data}
            yield Letter(**place, **what, headers=record.headers, reason=reason, pipeline=pipeline)  # type: ignore[arg-type]
