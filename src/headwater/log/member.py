"""Member: one reader of a consumer group; the group's partitions are shared among its members.

Nothing is committed behind the user's back: `commit` says that every record handed out so far is
done. A member that dies without it leaves those records to another: at least once, never lost.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any, Literal, NamedTuple, Self

from confluent_kafka import Consumer, KafkaError, TopicPartition

from headwater.errors import BrokerRefused, PartitionsLost
from headwater.log.connection import Connection, code_of, patiently, raise_for, translated
from headwater.log.record import Decode, Record
from headwater.log.topics import Topics
from headwater.log.waiting import SMALL_WAIT, TUNED

_BATCH = 500
COMMIT_WITHIN = timedelta(seconds=60)
"""How long a commit waits for a broker that is away."""

_STALE = (KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.REBALANCE_IN_PROGRESS)


class Partition(NamedTuple):
    """One partition of a topic."""

    topic: str
    partition: int


OnChange = Callable[["Member", Sequence[Partition]], None]


class Member:
    """An iterator over the group's records that fall to this member; close it, or use a `with`."""

    def __init__(
        self,
        connection: Connection,
        group: str,
        decoders: dict[str, Decode],
        *,
        start: Literal["beginning", "end"],
        on_assign: OnChange | None,
        on_revoke: OnChange | None,
        session: timedelta,
    ) -> None:
        for topic in decoders:
            Topics(connection).partitions(topic)
        self.group = group
        self._connection = connection
        self._decoders = decoders
        self._next: dict[Partition, int] = {}
        self._on_assign, self._on_revoke = on_assign, on_revoke
        self._consumer = self._joined(start, session)

    def __iter__(self) -> Iterator[Record]:
        while True:
            yield from self.take(SMALL_WAIT)

    def take(self, within: float) -> Iterator[Record]:
        """What arrives within these seconds: at most a batch, perhaps nothing."""
        for message in self._consumer.consume(_BATCH, within):
            error = message.error()
            if error is None:
                where = Partition(message.topic(), message.partition())
                self._next[where] = message.offset() + 1
                yield Record(message, self._decoders[where.topic])
            elif not error.retriable():
                raise_for(error, self._connection, topic=message.topic() or "", group=self.group)

    def commit(self) -> None:
        """Every record handed out so far is done; PartitionsLost if some went to another member."""
        offsets = self.next_offsets()
        if not offsets:
            return
        try:
            patiently(
                self._connection,
                lambda: self._consumer.commit(offsets=offsets, asynchronous=False),
                group=self.group,
                within=COMMIT_WITHIN,
            )
        except BrokerRefused as error:
            if code_of(error) in _STALE:
                raise PartitionsLost(
                    f"partitions of group {self.group!r} went to another member before the commit",
                    detail=error.message,
                    hint="their records will be handed out again: make what you do with them idempotent",
                ) from error
            raise

    def assignment(self) -> list[Partition]:
        """The partitions that are this member's now."""
        return [Partition(one.topic, one.partition) for one in self._consumer.assignment()]

    def next_offsets(self) -> list[TopicPartition]:
        """The place after the last record handed out, in each partition of ours."""
        return [TopicPartition(*where, offset) for where, offset in self._next.items()]

    def metadata(self) -> Any:
        """The group's metadata, for a transaction that commits this member's positions."""
        return self._consumer.consumer_group_metadata()

    def close(self) -> None:
        """Leave the group at once, so that the others take over without waiting."""
        self._consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _joined(self, start: str, session: timedelta) -> Any:
        config = self._connection.config(
            group_id=self.group,
            enable_auto_commit=False,
            isolation_level="read_committed",
            auto_offset_reset="earliest" if start == "beginning" else "latest",
            partition_assignment_strategy="cooperative-sticky",
            session_timeout_ms=session // timedelta(milliseconds=1),
            heartbeat_interval_ms=min(1000, session // timedelta(milliseconds=3)),
            **TUNED,
        )
        with translated(self._connection, group=self.group):
            consumer = Consumer(config)
            consumer.subscribe(
                list(self._decoders), on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
            )
        return consumer

    def _assigned(self, _: object, partitions: list[TopicPartition]) -> None:
        if self._on_assign:
            self._on_assign(self, [Partition(one.topic, one.partition) for one in partitions])

    def _revoked(self, _: object, partitions: list[TopicPartition]) -> None:
        gone = [Partition(one.topic, one.partition) for one in partitions]
        if self._on_revoke:
            self._on_revoke(self, gone)
        for one in gone:
            self._next.pop(one, None)
