"""Writer: appends that are durable or reported, alone or as one transaction.

Every append is idempotent and acknowledged by all replicas. Appends are sent in the background;
`flush`, the end of the `with` and the end of a transaction wait for them. What was not
acknowledged is raised as NotAcknowledged with the records themselves, so nothing is lost quietly.

A writer with a transactional id appends only inside `transaction()`: all of it becomes visible to
committed readers, or none; a newer writer with the same id fences this one and settles what it
left open. A writer belongs to one thread.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self

from confluent_kafka import KafkaError, KafkaException, Producer

from headwater.errors import (
    Closed,
    KeyMissing,
    NotAcknowledged,
    NoTransaction,
    RecordTooLarge,
    Unacknowledged,
)
from headwater.log.channel import BY_KEY, Channel, key_bytes, turns
from headwater.log.connection import ANSWER_WITHIN, Connection, raise_for, translated
from headwater.log.member import Member
from headwater.log.schemas import open_schemas
from headwater.log.topic import Topic
from headwater.log.topics import Topics
from headwater.log.transaction import Transactions
from headwater.settings import Settings

if TYPE_CHECKING:
    from headwater.log.registry import Schemas

DELIVER_WITHIN = timedelta(seconds=60)
LARGEST = 1_000_000
"""Bytes of the largest record; a broker takes a little more unless told otherwise."""

_SERVE_EVERY = 1_000
Headers = Mapping[str, bytes | None]


class Writer:
    """Appends records; close it, or use it in a `with`."""

    def __init__(
        self,
        connection: Connection,
        settings: Settings,
        *,
        transactional_id: str | None = None,
        deliver_within: timedelta = DELIVER_WITHIN,
        largest: int = LARGEST,
    ) -> None:
        self._connection = connection
        self._settings = settings
        self._schemas: Schemas | None = None
        self._within = deliver_within
        self._channels: dict[str, Channel] = {}
        self._turns: dict[str, Callable[[], int]] = {}
        self._failed: list[Unacknowledged] = []
        self._appended = 0
        self._is_closed = False
        with translated(connection):
            self._producer = Producer(self._config(transactional_id, largest))
        self._transactions = (
            Transactions(self._producer, transactional_id, connection, deliver_within)
            if transactional_id is not None
            else None
        )

    def append(self, topic: Topic, value: object, *, headers: Headers | None = None) -> None:
        """Append a row (a mapping or the topic's row). Sent soon; `flush` waits for it."""
        channel = self._channels.get(topic.name)
        if channel is None or not (channel.topic is topic or channel.topic == topic):
            channel = self._open(topic)
        data = channel.encode(value)
        self._send(topic.name, channel.key_of(value), data, channel.next_partition(), headers)

    def delete(self, topic: Topic, key: object, *, headers: Headers | None = None) -> None:
        """Append a tombstone: the key has no value any more."""
        if topic.key is None:
            raise KeyMissing(f"topic {topic.name!r} has no key, so nothing in it can be deleted")
        self._turn(topic.name)
        self._send(topic.name, key_bytes(key, topic), None, BY_KEY, headers)

    def append_bytes(
        self, topic: str, value: bytes | None, *, key: bytes | None = None, headers: Headers | None = None
    ) -> None:
        """Append bytes as they are to a topic whose schema is not ours to know."""
        turn = self._turns.get(topic) or self._turn(topic)
        self._send(topic, key, value, turn() if key is None else BY_KEY, headers)

    def flush(self) -> None:
        """Wait until all is acknowledged; NotAcknowledged tells what was not."""
        left = self._producer.flush(self._within.total_seconds() + ANSWER_WITHIN)
        self._raise_failures()
        if left:
            raise NotAcknowledged(
                f"{left:,} records are still on their way",
                detail=f"the broker at {self._connection.address} has not answered in time",
                hint="call flush again to wait longer; a process that ends now leaves their fate open",
                records=(),
            )

    @contextmanager
    def transaction(self, reads: Member | None = None) -> Iterator[Self]:
        """All appends of the block become visible together, or (on any error) none.

        With `reads`, what that member has handed out is committed in the same stroke, and on an
        error it goes back: read, process and write, each record once.
        """
        transactions = self._need_transactions()
        transactions.begin()
        try:
            yield self
            if reads is not None:
                transactions.add_positions(reads)
            transactions.commit()
        except BaseException:
            if transactions.is_open:
                transactions.abort()
            if reads is not None:
                reads.rewind()
            raise
        finally:
            self._failed.clear()  # what was not acknowledged was rolled back with the rest

    def close(self) -> None:
        """Flush what is under way; an open transaction is left to be rolled back."""
        self._is_closed = True
        if self._transactions is None:
            self.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            self.close()
        except NotAcknowledged as lost:
            if error is None:
                raise
            error.add_note(str(lost))  # the error of the block comes first

    def _config(self, transactional_id: str | None, largest: int) -> dict[str, Any]:
        milliseconds = self._within // timedelta(milliseconds=1)
        config = self._connection.config(
            enable_idempotence=True,
            acks="all",
            partitioner="murmur2_random",  # Java's: a key stands in one partition, whoever appends it
            linger_ms=5,
            delivery_timeout_ms=milliseconds,
            queue_buffering_max_messages=200_000,
            delivery_report_only_error=True,
            message_max_bytes=largest,
        )
        config["on_delivery"] = self._delivered
        if transactional_id is not None:
            config |= {"transactional.id": transactional_id, "transaction.timeout.ms": milliseconds}
        return config

    def _need_transactions(self) -> Transactions:
        if self._transactions is None:
            raise NoTransaction(
                "this writer has no transactional id", hint='open it with writer(transactional_id="…")'
            )
        return self._transactions

    def _open(self, topic: Topic) -> Channel:
        channel = Channel(topic, self._registry, self._turn(topic.name))
        self._channels[topic.name] = channel
        return channel

    def _turn(self, topic: str) -> Callable[[], int]:
        """The partitions of a topic in turn; UnknownTopic if there is none."""
        if topic not in self._turns:
            self._turns[topic] = turns(Topics(self._connection).partitions(topic))
        return self._turns[topic]

    def _registry(self) -> "Schemas":
        self._schemas = self._schemas or open_schemas(self._settings)
        return self._schemas

    def _send(
        self, topic: str, key: bytes | None, value: bytes | None, partition: int, headers: Headers | None
    ) -> None:
        if self._is_closed:
            raise Closed("this writer is closed", hint="open a new one; nothing was appended")
        if self._transactions is not None and not self._transactions.is_open:
            raise NoTransaction(
                "a transactional writer appends only inside a transaction",
                hint="with writer.transaction(): …",
            )
        while not self._taken(topic, key, value, partition, headers):
            self._producer.poll(0.05)  # the buffer is full: wait for the broker, drop nothing
        self._appended += 1
        if self._appended % _SERVE_EVERY == 0:
            self._producer.poll(0)
        if self._failed:  # of earlier records: this one is on its way
            self._raise_failures()

    def _taken(
        self, topic: str, key: bytes | None, value: bytes | None, partition: int, headers: Headers | None
    ) -> bool:
        try:
            if headers is None:
                self._producer.produce(topic, value, key, partition)
            else:
                self._producer.produce(topic, value, key, partition, headers=dict(headers))
        except BufferError:
            return False
        except KafkaException as error:
            self._refused(topic, value, error)
        return True

    def _refused(self, topic: str, value: bytes | None, error: KafkaException) -> None:
        reason: KafkaError = error.args[0]
        if reason.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            raise RecordTooLarge(
                f"a record of {len(value or b''):,} bytes is too large for topic {topic!r}",
                hint="nothing of it was written; keep large things elsewhere and append their address",
            ) from error
        if self._transactions is not None:
            self._transactions.give_up(error)
        raise_for(reason, self._connection, topic=topic, cause=error)

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            self._failed.append(Unacknowledged(message.topic(), message.key(), message.value(), error.str()))

    def _raise_failures(self) -> None:
        if not self._failed:
            return
        failed, self._failed = tuple(self._failed), []
        reasons = sorted({f"{one.topic}: {one.reason}" for one in failed})
        raise NotAcknowledged(
            f"{len(failed):,} records were not acknowledged",
            detail="\n".join(reasons[:5]),
            hint="each may or may not be in the log; the error's `records` hold them to append again",
            records=failed,
        )
