"""Originals: records at known places of a topic, brought as they stand in the log.

Who knows the places of a few records need not have all of a batch decoded again. Tasks fetch them with
clients of their own, which leap over what is far from any of them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition
from pyspark.sql import SparkSession

from headwater import embedded
from headwater.clock import Deadline
from headwater.log.connection import Connection, raise_for, translated
from headwater.log.waiting import PATIENCE, SMALL_WAIT, TUNED
from headwater.settings import Settings
from headwater.sink.failures import as_raised_in_tasks

LEAP = 20_000
"""Records between two places that are rather leapt over than read."""

PIECE = 100_000
"""Records that a client reads at one go."""

SHARE = 2
"""One slot in so many is taken: who fetches waits for the broker, and the next batch wants to work."""

_AT_ONCE = 1_000
Place = tuple[int, int]
Original = dict[str, Any]


@dataclass(frozen=True)
class Piece:
    """Places of one partition that lie close together."""

    partition: int
    offsets: tuple[int, ...]


def originals(
    spark: SparkSession, topic: str, places: Iterable[Place], settings: Settings
) -> Mapping[Place, Original]:
    """The records at these places (partition and offset); those that retention has taken are not there."""
    found, context = pieces(places), spark.sparkContext
    if not found:
        return {}
    slots = max(1, context.defaultParallelism // SHARE)
    tasks = context.parallelize(found, min(len(found), slots))
    with as_raised_in_tasks():
        brought = tasks.mapPartitions(Fetch(topic, embedded.anywhere(settings))).collect()
    return {(one["partition"], one["offset"]): one for one in brought}


def pieces(places: Iterable[Place]) -> list[Piece]:
    """The places in pieces that are worth a leap."""
    found: list[Piece] = []
    gathered: list[int] = []
    last: Place | None = None
    for partition, offset in sorted(places):
        is_near = last is not None and last[0] == partition and offset - last[1] <= LEAP
        if gathered and last and (not is_near or offset - gathered[0] >= PIECE):
            found.append(Piece(last[0], tuple(gathered)))
            gathered = []
        gathered.append(offset)
        last = partition, offset
    return [*found, *([Piece(last[0], tuple(gathered))] if last else [])]


@dataclass(frozen=True)
class Fetch:
    """What a task does: it brings the records of its pieces."""

    topic: str
    settings: Settings = field(repr=False)

    def __call__(self, given: Iterable[Piece]) -> Iterator[Original]:
        """The records, piece by piece."""
        connection = Connection(self.settings)
        with translated(connection, topic=self.topic):
            consumer = Consumer(_reading(connection))
            try:
                for one in given:
                    yield from self._piece(consumer, one, connection)
            finally:
                consumer.close()

    def _piece(self, consumer: Consumer, piece: Piece, connection: Connection) -> Iterator[Original]:
        wanted, last = frozenset(piece.offsets), piece.offsets[-1]
        consumer.assign([TopicPartition(self.topic, piece.partition, piece.offsets[0])])
        patience = Deadline(PATIENCE)
        while True:
            messages = consumer.consume(_AT_ONCE, SMALL_WAIT)
            if not messages and patience.passed:
                raise connection.unreachable(f"reading {self.topic} made no progress")
            yield from _wanted(messages, wanted, connection)
            if messages and (messages[-1].offset() or 0) >= last:  # a message, or the word that here it ends
                return


def _wanted(messages: Sequence[Any], wanted: frozenset[int], connection: Connection) -> Iterator[Original]:
    for one in messages:
        if one.error() is not None:
            _refuse(one.error(), connection)
        elif one.offset() in wanted:
            yield _original(one)


def _refuse(error: KafkaError, connection: Connection) -> None:
    if error.code() != KafkaError._PARTITION_EOF and not error.retriable():  # noqa: SLF001
        raise_for(error, connection)


def _original(message: Any) -> Original:
    return {
        "partition": message.partition(),
        "offset": message.offset(),
        "millis": message.timestamp()[1],
        "key": message.key(),
        "value": message.value(),
        "headers": [{"key": name, "value": value} for name, value in message.headers() or ()],
    }


def _reading(connection: Connection) -> dict[str, Any]:
    return connection.config(
        group_id="headwater-originals",  # never joined, never committed: the client wants a name
        enable_auto_commit=False,
        enable_partition_eof=True,
        auto_offset_reset="earliest",  # what retention has taken is counted as lost, and is no reason to stop
        isolation_level="read_committed",
        **TUNED | {"queued_min_messages": 2 * _AT_ONCE},
    )
