"""Writer: appends that are durable or reported, alone or as one transaction.

Every append is idempotent and acknowledged by all replicas. Appends are sent in the background;
`flush`, the end of the `with` and the end of a transaction wait for them. What was not
acknowledged is raised as NotAcknowledged with the records themselves, so nothing is lost quietly.

A writer with a transactional id appends only inside `transaction()`: all of it becomes visible to
committed readers, or none; a newer writer with the same id fences this one and settles what it
left open.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Self

from confluent_kafka import KafkaError, KafkaException, Producer

from headwater.errors import KeyMissing, NotAcknowledged, NoTransaction, RecordTooLarge, Unacknowledged
from headwater.log.channel import Channel, key_bytes
from headwater.log.connection import ANSWER_WITHIN, Connection, raise_for, translated
from headwater.log.member import Member
from headwater.log.registry import Schemas
from headwater.log.topic import Topic
from headwater.log.transaction import Transactions
from headwater.settings import Settings

DELIVER_WITHIN = timedelta(seconds=60)
_SERVE_EVERY = 1_000
Headers = Mapping[str, bytes]


class Writer:
    """Appends records; close it, or use it in a `with`."""

    def __init__(
        self,
        connection: Connection,
        settings: Settings,
        *,
        transactional_id: str | None,
        deliver_within: timedelta = DELIVER_WITHIN,
    ) -> None:
        self._connection = connection
        self._settings = settings
        self._schemas: Schemas | None = None
        self._within = deliver_within
        self._channels: dict[str, Channel] = {}
        self._failed: list[Unacknowledged] = []
        self._appended = 0
        with translated(connection):
            self._producer = Producer(self._config(transactional_id))
        self._transactions = (
            Transactions(self._producer, transactional_id, connection, deliver_within)
            if transactional_id is not None
            else None
        )

    def append(self, topic: Topic, value: object, *, headers: Headers | None = None) -> None:
        """Append a row (a mapping or the topic's row). Sent soon; `flush` waits for it."""
        channel = self._channel(topic)
        data = channel.encode(value)
        self._send(topic.name, channel.route(value), data, channel.next_partition(), headers)

    def delete(self, topic: Topic, key: object, *, headers: Headers | None = None) -> None:
        """Append a tombstone: the key has no value any more."""
        if topic.key is None:
            raise KeyMissing(f"topic {topic.name!r} has no key, so nothing in it can be deleted")
        partition = self._channel(topic).next_partition()
        self._send(topic.name, key_bytes(key, topic), None, partition, headers)

    def append_bytes(
        self, topic: str, value: bytes | None, *, key: bytes | None = None, headers: Headers | None = None
    ) -> None:
        """Append bytes as they are to a topic whose schema is not ours to know."""
        channel = self._channels.get(topic) or self._open(topic, None)
        partition = channel.next_in_turn() if key is None else channel.by_key
        self._send(topic, key, value, partition, headers)

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
    def transaction(self) -> Iterator[Self]:
        """All appends of the block become visible together, or (on any error) none."""
        transactions = self._need_transactions()
        transactions.begin()
        try:
            yield self
            transactions.commit()
        except BaseException:
            if transactions.is_open:
                transactions.abort()
            raise
        finally:
            self._failed.clear()  # what was not acknowledged was rolled back with the rest

    def commit_positions(self, member: Member) -> None:
        """Inside a transaction: the group's positions become part of it (read, process, write once)."""
        self._need_transactions().add_positions(member)

    def close(self) -> None:
        """Flush what is under way; an open transaction is left to be rolled back."""
        if self._transactions is None:
            self.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _config(self, transactional_id: str | None) -> dict[str, Any]:
        milliseconds = self._within // timedelta(milliseconds=1)
        config = self._connection.config(
            enable_idempotence=True,
            acks="all",
            partitioner="murmur2_random",  # Java's: a key stands in one partition, whoever appends it
            linger_ms=5,
            delivery_timeout_ms=milliseconds,
            queue_buffering_max_messages=200_000,
            delivery_report_only_error=True,
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

    def _channel(self, topic: Topic) -> Channel:
        channel = self._channels.get(topic.name)
        if channel is not None and (channel.topic is topic or channel.topic == topic):
            return channel
        return self._open(topic.name, topic)

    def _open(self, name: str, topic: Topic | None) -> Channel:
        channel = Channel.open(name, topic, self._connection, self._registry)
        self._channels[name] = channel
        return channel

    def _registry(self) -> Schemas:
        self._schemas = self._schemas or Schemas.open(self._settings)
        return self._schemas

    def _send(
        self, topic: str, key: bytes | None, value: bytes | None, partition: int, headers: Headers | None
    ) -> None:
        if self._failed:
            self._raise_failures()
        if self._transactions is not None and not self._transactions.is_open:
            raise NoTransaction(
                "a transactional writer appends only inside a transaction",
                hint="with writer.transaction(): …",
            )
        self._appended += 1
        if self._appended % _SERVE_EVERY == 0:
            self._producer.poll(0)
        while not self._taken(topic, key, value, partition, headers):
            self._producer.poll(0.05)  # the buffer is full: wait for the broker, drop nothing

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
