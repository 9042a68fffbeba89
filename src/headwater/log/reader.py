"""Reader: one topic from a place on, alone (no group), in the order of each partition.

It reads committed records only. Without `follow` it ends where the log ended when it was opened;
with it, it goes on for ever, into partitions that are added later too. A record that retention
removed before it was read is an error, never a silent gap; so is a topic that was made anew.
What was fetched but not handed out stays with the reader, however its loop is left.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any, Self

from confluent_kafka import Consumer, KafkaError, TopicPartition

from headwater.clock import Deadline
from headwater.errors import BrokerRefused, BrokerUnreachable, OffsetOutOfRange, UnknownTopic
from headwater.log.connection import Connection, open_only, raise_for, translated
from headwater.log.positions import Positions
from headwater.log.record import Decode, Record
from headwater.log.topics import Topics
from headwater.log.waiting import PATIENCE, SMALL_WAIT, TUNED

LOOK_EVERY = timedelta(seconds=5)
"""How often a following reader looks whether its topic has grown."""

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
        grows: bool = False,
    ) -> None:
        self._connection = connection
        self._topic = topic
        self._decode = decode
        self._follow, self._grows = follow, grows
        self._starts = dict(starts)
        self.ends = {} if follow else Positions(connection).end(topic, starts, committed=True)
        """Where a bounded read ends: the log's end when it was opened."""
        self._open = {one for one in starts if follow or starts[one] < self.ends[one]}
        self._batch: Iterator[Any] = iter(())
        self._near_the_end = False
        self._moved: set[int] = set()
        self._identity = Topics(connection).identity(topic)
        self._look_again = Deadline(LOOK_EVERY)
        self._consumer = self._connect()
        self._assign(self._starts)

    def __iter__(self) -> Iterator[Record]:
        """Every record in turn. One loop on purpose: calls between records cost rate."""
        decode, moved = self._decode, self._moved
        while True:
            near = self._near_the_end
            for message in self._batch:
                if moved and message.partition() in moved:
                    continue
                if message.error() is not None:
                    self._take_event(message)
                elif not (near and self._is_past_the_end(message)):
                    yield Record(message, decode)
            if not self._open:
                return
            self._fetch()

    def seek(self, partition: int, offset: int) -> None:
        """Go on reading a partition from this offset; what was fetched of it before is passed over."""
        if partition not in self._starts:
            raise OffsetOutOfRange(f"partition {partition} of topic {self._topic!r} is not read here")
        Positions(self._connection).check(self._topic, {partition: offset})
        there = self._consumer.position([TopicPartition(self._topic, one) for one in self._starts])
        places = {one.partition: one.offset for one in there if one.offset >= 0}
        self._starts |= places | {partition: offset}
        self._assign(self._starts)
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
            self._consumer.resume([TopicPartition(self._topic, one) for one in offsets])

    def _fetch(self) -> None:
        patience = Deadline(PATIENCE)
        messages: list[Any] = []
        while not messages:
            if self._follow and self._look_again.passed:
                self._look()
            with open_only("reader"):
                messages = self._consumer.consume(_BATCH, SMALL_WAIT)
            if not messages and not self._follow and patience.passed:
                raise self._connection.unreachable(f"reading {self._topic} made no progress")
        self._batch = iter(messages)
        self._moved.clear()
        self._near_the_end = not self._follow and self._reaches_the_end()

    def _reaches_the_end(self) -> bool:
        """Whether a message of this batch may stand behind the end: asked once a batch."""
        there = self._consumer.position([TopicPartition(self._topic, one) for one in self._open])
        return any(one.offset >= self.ends[one.partition] for one in there)

    def _is_past_the_end(self, message: Any) -> bool:
        partition, offset = message.partition(), message.offset()
        if offset >= self.ends[partition] - 1:
            self._finish(partition)
        return bool(offset >= self.ends[partition])

    def _finish(self, partition: int) -> None:
        if partition in self._open:
            self._open.discard(partition)
            self._consumer.pause([TopicPartition(self._topic, partition)])  # writers may go on in it

    def _look(self) -> None:
        """Read partitions that were added; a topic that was made anew is not the one we read."""
        self._look_again = Deadline(LOOK_EVERY)
        with suppress(BrokerUnreachable, BrokerRefused):  # it is away: look again later
            identity = Topics(self._connection).identity(self._topic)
            if identity != self._identity:
                raise UnknownTopic(f"topic {self._topic!r} was deleted and made anew while it was read")
            if self._grows:
                self._add(range(len(self._starts), Topics(self._connection).partitions(self._topic)))

    def _add(self, partitions: range) -> None:
        if partitions:
            self._starts |= dict.fromkeys(partitions, 0)
            self._open |= set(partitions)
            self._consumer.incremental_assign([TopicPartition(self._topic, one, 0) for one in partitions])

    def _take_event(self, message: Any) -> None:
        error, partition = message.error(), message.partition()
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
            if not self._follow and message.offset() >= self.ends[partition]:
                self._finish(partition)  # what was left are markers of transactions
        elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):  # noqa: SLF001
            raise OffsetOutOfRange(
                f"partition {partition} of topic {self._topic!r} lost records before they were read",
                detail=error.str(),
                hint="its retention is shorter than the time the reader needed",
            )
        elif not error.retriable():
            raise_for(error, self._connection, topic=self._topic)
