"""Transfer: records that are written together with the place up to which others were read.

A transactional producer and a group that nobody joins: its committed offsets are moved in the
same transaction as the records, so that both happen or neither. Opening one fences an older one of the same
name and settles what that left open; what is committed afterwards is the truth.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Self

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from headwater.errors import (
    BrokerRefused,
    BrokerUnreachable,
    HeadwaterError,
    OutcomeUnknown,
    TransactionAborted,
)
from headwater.log.channel import BY_KEY
from headwater.log.connection import TRY_WITHIN, Connection, patiently, translated
from headwater.log.letter import Headers
from headwater.log.member import Partition
from headwater.log.transaction import Transactions
from headwater.log.writer import LARGEST

OPEN_AT_MOST = timedelta(minutes=5)
"""How long one transaction may stay open before the broker rolls it back."""

ANSWER = timedelta(seconds=30)
"""How long the broker has to open or to commit one."""

_PLACED = "placed"  # what stands beside an offset that was never moved


class Transfer:
    """Appends to topics and moves the places of a group, together; close it, or use it in a `with`."""

    def __init__(
        self,
        connection: Connection,
        name: str,
        *,
        group: str,
        largest: int = LARGEST,
        within: timedelta = ANSWER,
    ) -> None:
        self.group = group
        self.unmoved: set[Partition] = set()
        """Where the group stands as it was first placed, as far as `committed` has looked."""
        self._connection = connection
        self._within = within
        with translated(connection, group=group):
            self._producer = Producer(self._sending(name, largest))
            self._transactions = Transactions(self._producer, name, connection, within)
            self._consumer = Consumer(
                connection.config(group_id=group, enable_auto_commit=False, isolation_level="read_committed")
            )

    def committed(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """The group's place in each of these partitions that has one."""
        wanted = [TopicPartition(*one) for one in partitions]

        def ask() -> list[TopicPartition]:
            found = list(self._consumer.committed(wanted, TRY_WITHIN))
            for one in found:
                if one.error is not None:
                    raise KafkaException(one.error)
            return found

        found = patiently(self._connection, ask, group=self.group) if wanted else []
        self.unmoved |= {Partition(one.topic, one.partition) for one in found if one.metadata == _PLACED}
        return {Partition(one.topic, one.partition): one.offset for one in found if one.offset >= 0}

    def place(self, places: Mapping[Partition, int]) -> None:
        """Let the group begin here."""
        with self._together(places, _PLACED):
            pass
        self.unmoved |= set(places)

    @contextmanager
    def transaction(self, places: Mapping[Partition, int], said: str = "") -> Iterator[Self]:
        """What the block appends becomes visible and the group stands at `places`, or neither.

        `said` stands beside the places.
        """
        with self._together(places, said):
            yield self

    @contextmanager
    def _together(self, places: Mapping[Partition, int], said: str) -> Iterator[None]:
        self._transactions.begin()
        try:
            yield
            self._move(places, said)
            self._transactions.commit()
        except BaseException:
            if self._transactions.is_open:
                self._transactions.abort()
            raise

    def append(
        self, topic: str, *, key: bytes | None, value: bytes | None, headers: Headers, partition: int = BY_KEY
    ) -> None:
        """Append a record as it is; the commit waits for it."""
        while True:
            try:
                self._producer.produce(topic, value, key, partition, headers=list(headers))
            except BufferError:  # the buffer is full: wait for the broker
                self._producer.poll(0.05)
            except KafkaException as error:
                self._transactions.give_up(error)
            else:
                return

    def close(self) -> None:
        """Let go of the broker; an open transaction is left to be rolled back."""
        self._consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _move(self, places: Mapping[Partition, int], said: str) -> None:
        offsets = [TopicPartition(*where, offset, said) for where, offset in places.items()]
        if offsets:
            self._transactions.add_offsets(offsets, self._consumer.consumer_group_metadata())

    def _sending(self, name: str, largest: int) -> dict[str, Any]:
        return self._connection.config(
            transactional_id=name,
            transaction_timeout_ms=OPEN_AT_MOST // timedelta(milliseconds=1),
            partitioner="murmur2_random",  # as every writer of ours
            linger_ms=5,
            message_max_bytes=largest,
            delivery_report_only_error=True,
        )


def may_pass(error: HeadwaterError) -> bool:
    """Whether a transfer that failed so may go well with a new one, which then looks what is there."""
    if isinstance(error, BrokerUnreachable | TransactionAborted | OutcomeUnknown):
        return True
    cause = error.__cause__ if isinstance(error, BrokerRefused) else None
    return isinstance(cause, KafkaException) and bool(cause.args[0].retriable())
