"""Rows as blocks, jobs that write them without Spark, and what readers then see."""

from collections import Counter
from datetime import timedelta

import msgspec
import pyarrow as pa

from headwater import Topic, embedded
from headwater.clock import wait_until
from headwater.settings import Settings
from headwater.sink import transactions
from headwater.sink.encode import Encode
from headwater.sink.markers import SLICES, Marker, Markers
from headwater.sink.slices import Slice
from headwater.sink.transactions import Job

SOON = timedelta(seconds=30)


def numbers(name: str, **more) -> Topic:
    """A topic of numbers."""
    return Topic(name, schema="n long", **more)


def block(numbers_in_it, key=None) -> pa.RecordBatch:
    """A block of records that say a number each."""
    found = list(numbers_in_it)
    values = [b'{"n":%d}' % one for one in found]
    return pa.RecordBatch.from_pydict(
        {"key": pa.array([key] * len(found), pa.binary()), "value": pa.array(values, pa.binary())}
    )


def job(
    system: Settings, topic: Topic, batch: int = 0, *, query: str = "q", options=None, slices: int = 3
) -> Job:
    """The writing of one batch, in slices that have a number."""
    settings = Settings(kafka=embedded.kafka_address(system), kafka_options=options or {})
    return Job(
        settings=settings,
        topic=topic.name,
        group=f"test.p.to.{topic.name}",
        slices=tuple(Slice(SLICES, one + 1, batch + 1) for one in range(slices)),
        marker=Marker(query, batch, f"hash/{slices}"),
        encode=Encode(None, settings),
    )


def markers(log, topic: Topic) -> Markers:
    """The markers of the topic's sink."""
    return Markers(log._connection, f"test.p.to.{topic.name}")


def forget() -> None:
    """Be another worker: one that keeps no producers of earlier batches."""
    transactions._WRITERS.clear()


def seen(log, topic: Topic) -> Counter[int]:
    """What committed readers see, how often."""
    return Counter(msgspec.json.decode(record.data)["n"] for record in log.read(topic.name))


def sees(log, topic: Topic, wanted) -> bool:
    """Whether committed readers come to see this, each number once; a commit shows a moment later."""
    expected = Counter(dict.fromkeys(wanted, 1))
    wait_until(lambda: seen(log, topic).total() >= len(expected), timedelta(seconds=10))
    assert seen(log, topic) == expected
    return True
