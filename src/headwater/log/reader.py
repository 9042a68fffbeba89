"""Reader: one topic from a place on, alone (no group), in the order of each partition.

It reads committed records only. Without `follow` it ends where the log ended when it was opened;
with it, it goes on for ever. A record that retention removed before it was read is an error, never
a silent gap.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Self

from confluent_kafka import Consumer, KafkaError, TopicPartition

from headwater.clock import Deadline
from headwater.errors import OffsetOutOfRange
from headwater.log.connection import Connection, raise_for, translated
from headwater.log.positions import Positions
from headwater.log.record import Decode, Record
from headwater.log.waiting import PATIENCE, SMALL_WAIT, TUNED

_BATCH = 500


class Reader:
    """An iterator over records; close it, or use it in a `with`."""

    def __init__(
        self,
        connection: Connection,
        topic: str,
        decode: Decode,
        *,
        starts: Mapping[int, int],
        follow: bool,
    ) -> None:
        self._connection = connection
        self._topic = topic
        self._decode = decode
        self._follow = follow
        self._starts = dict(starts)
        self.ends = {} if follow else Positions(connection).end(topic, starts, committed=True)
        """Where a bounded read ends: the log's end when it was opened."""
        self._open = {one for one in starts if follow or starts[one] < self.ends[one]}
        self._moved: set[int] = set()
        self._consumer = self._connect()
        self._assign(self._starts)

    def __iter__(self) -> Iterator[Record]:
        """Every record in turn. One loop on purpose: a call a record would cost a fifth of the rate."""
        consume, decode, moved = self._consumer.consume, self._decode, self._moved
        patience = Deadline(PATIENCE)
        while self._open:
            messages = consume(_BATCH, SMALL_WAIT)
            if messages:
                patience = Deadline(PATIENCE)
            elif not self._follow and patience.passed:
                raise self._connection.unreachable(f"reading {self._topic} made no progress")
            near = self._is_near_the_end()
            moved.clear()
            for message in messages:
                if message.error() is not None:
                    self._take_event(message)
                elif moved and message.partition() in moved:
                    continue
                elif not (near and self._is_past_the_end(message)):
                    yield Record(message, decode)

    def seek(self, partition: int, offset: int) -> None:
        """Go on reading a partition from this offset; what was fetched of it before is passed over."""
        Positions(self._connection).check(self._topic, {partition: offset})
        there = self._consumer.position([TopicPartition(self._topic, one) for one in self._starts])
        places = {one.partition: one.offset for one in there if one.offset >= 0}
        self._assign(self._starts | places | {partition: offset})
        self._moved.add(partition)
        if self._follow or offset < self.ends[partition]:
            self._open.add(partition)

    def close(self) -> None:
        """Let go of the broker."""
        self._consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _connect(self) -> Any:
        with translated(self._connection, topic=self._topic):
            return Consumer(
                self._connection.config(
                    group_id="headwater-reader",  # never joined, never committed: the client wants a name
                    enable_auto_commit=False,
                    enable_partition_eof=True,
                    auto_offset_reset="error",
                    isolation_level="read_committed",
                    **TUNED,
                )
            )

    def _assign(self, offsets: dict[int, int]) -> None:
        with translated(self._connection, topic=self._topic):
            self._consumer.assign(
                [TopicPartition(self._topic, one, offset) for one, offset in offsets.items()]
            )

    def _is_near_the_end(self) -> bool:
        """Whether a message of this batch may stand behind the end: asked once a batch."""
        if self._follow:
            return False
        there = self._consumer.position([TopicPartition(self._topic, one) for one in self._open])
        return any(one.offset >= self.ends[one.partition] for one in there)

    def _is_past_the_end(self, message: Any) -> bool:
        end, offset = self.ends[message.partition()], message.offset()
        if offset >= end - 1:
            self._open.discard(message.partition())
        return bool(offset >= end)

    def _take_event(self, message: Any) -> None:
        error, partition = message.error(), message.partition()
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
            if not self._follow and message.offset() >= self.ends[partition]:
                self._open.discard(partition)  # what was left are markers of transactions
        elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):  # noqa: SLF001
            raise OffsetOutOfRange(
                f"partition {partition} of topic {self._topic!r} lost records before they were read",
                detail=error.str(),
                hint="its retention is shorter than the time the reader needed",
            )
        elif not error.retriable():
            raise_for(error, self._connection, topic=self._topic)
