"""Member: one reader of a consumer group; the group's partitions are shared among its members.

Nothing is committed behind the user's back: `commit` says that every record handed out so far is
done. A member that dies without it leaves those records to another: at least once, never lost.
What was fetched but not handed out stays with the member, however its loop is left.

A group's place is kept from its first moment on: where it has none yet, `start` decides and that
is committed at once. A place that retention has overtaken is an error, never a silent jump.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any, Literal, NamedTuple, Self, get_args

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from headwater.errors import BrokerRefused, HeadwaterError, OffsetOutOfRange, PartitionsLost, SpecError
from headwater.log.connection import (
    ANSWER_WITHIN,
    Connection,
    code_of,
    error_for,
    open_only,
    patiently,
    translated,
)
from headwater.log.positions import Beginning, End, Positions
from headwater.log.record import Decode, Record
from headwater.log.topics import Topics
from headwater.log.waiting import SMALL_WAIT, TUNED

GroupStart = Literal["beginning", "end"]
COMMIT_WITHIN = timedelta(seconds=60)
"""How long a commit waits for a broker that is away."""

STALE = (KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.FENCED_INSTANCE_ID)
"""The codes that say: this member's partitions are another's by now."""

_BATCH = 500
_EOF = KafkaError._PARTITION_EOF  # noqa: SLF001
_OVERTAKEN = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)  # noqa: SLF001
_TOO_SLOW = KafkaError._MAX_POLL_EXCEEDED  # noqa: SLF001


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
        start: GroupStart,
        on_assign: OnChange | None,
        on_revoke: OnChange | None,
        session: timedelta,
    ) -> None:
        if start not in get_args(GroupStart):
            raise SpecError(f"a group starts at the beginning or the end, not at {start!r}")
        for topic in decoders:
            Topics(connection).partitions(topic)
        self.group = group
        self._connection = connection
        self._decoders = decoders
        self._start = Beginning() if start == "beginning" else End()
        self._next: dict[Partition, int] = {}
        self._pending: deque[Any] = deque()
        self._raised: Exception | None = None
        self._on_assign, self._on_revoke = on_assign, on_revoke
        self._consumer = self._joined(session)

    def __iter__(self) -> Iterator[Record]:
        while True:
            yield from self.take(SMALL_WAIT)

    def take(self, within: float) -> Iterator[Record]:
        """What is here, or arrives within these seconds: at most a batch, perhaps nothing."""
        if not self._pending:
            self._fetch(within)
        while self._pending:
            message = self._pending.popleft()
            where = Partition(message.topic(), message.partition())
            if message.error() is not None:  # the partition's end, past the markers of transactions
                self._next[where] = message.offset()
            else:
                self._next[where] = message.offset() + 1
                yield Record(message, self._decoders[where.topic])

    def commit(self) -> None:
        """Every record handed out so far is done; PartitionsLost if some went to another member."""
        offsets = self.next_offsets()
        if not offsets:
            return
        try:
            patiently(self._connection, lambda: self._commit(offsets), group=self.group, within=COMMIT_WITHIN)
        except BrokerRefused as error:
            if code_of(error) in STALE:
                raise partitions_lost(self.group, error.message) from error
            raise

    def rewind(self) -> None:
        """Go back to what is committed: the records handed out since come again."""
        self._pending.clear()
        self._next.clear()
        with translated(self._connection, group=self.group):
            for one in self._consumer.committed(self._consumer.assignment(), ANSWER_WITHIN):
                self._consumer.seek(one)

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

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:  # the record in hand has failed: what commits on leaving must not count it
            self._on_revoke = None
        self.close()

    def _fetch(self, within: float) -> None:
        with open_only("member"):
            messages = self._consumer.consume(_BATCH, within)
        faults = [fault for one in messages if (fault := self._kept_or_fault(one))]
        raised, self._raised = self._raised, None
        for error in (raised, *faults):
            if error is not None:
                raise error  # the good messages are kept: the next take hands them out

    def _kept_or_fault(self, message: Any) -> HeadwaterError | None:
        error = message.error()
        if error is None or error.code() == _EOF:
            self._pending.append(message)
            return None
        if error.code() in _OVERTAKEN:
            return OffsetOutOfRange(
                f"group {self.group!r} lost records of {message.topic()}[{message.partition()}] unread",
                detail=error.str(),
                hint="retention overtook it; `headwater groups reset` moves it to what is left",
            )
        if error.retriable() or error.code() == _TOO_SLOW:  # a rebalance follows and tells the rest
            return None
        return error_for(error, self._connection, topic=message.topic() or "", group=self.group)

    def _commit(self, offsets: list[TopicPartition]) -> None:
        for one in self._consumer.commit(offsets=offsets, asynchronous=False) or ():
            if one.error is not None:
                raise KafkaException(one.error)

    def _joined(self, session: timedelta) -> Any:
        config = self._connection.config(
            group_id=self.group,
            enable_auto_commit=False,
            enable_partition_eof=True,
            isolation_level="read_committed",
            auto_offset_reset="error",
            partition_assignment_strategy="cooperative-sticky",
            session_timeout_ms=session // timedelta(milliseconds=1),
            heartbeat_interval_ms=min(1000, session // timedelta(milliseconds=3)),
            **TUNED,
        )
        with translated(self._connection, group=self.group):
            consumer = Consumer(config)
            consumer.subscribe(
                list(self._decoders), on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
            )
        return consumer

    def _assigned(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        try:
            consumer.incremental_assign(self._placed(consumer, partitions))
            if self._on_assign:
                self._on_assign(self, _plain(partitions))
        except Exception as error:  # noqa: BLE001 - told by the next take, which has the batch in safety
            self._raised = error

    def _placed(self, consumer: Any, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Each partition with its place; one that has none gets it, committed, before any record."""
        with translated(self._connection, group=self.group):
            committed = consumer.committed(partitions, ANSWER_WITHIN)
        known = [one for one in committed if one.offset >= 0]
        new = [self._first_place(one) for one in committed if one.offset < 0]
        if new:
            patiently(self._connection, lambda: self._commit(new), group=self.group)
        return known + new

    def _first_place(self, one: TopicPartition) -> TopicPartition:
        place = Positions(self._connection).resolve(one.topic, [one.partition], self._start)
        return TopicPartition(one.topic, one.partition, place[one.partition])

    def _revoked(self, _: object, partitions: list[TopicPartition]) -> None:
        try:
            if self._on_revoke:
                self._on_revoke(self, _plain(partitions))
        except Exception as error:  # noqa: BLE001 - as above
            self._raised = error
        finally:
            self._lost(_, partitions)

    def _lost(self, _: object, partitions: list[TopicPartition]) -> None:
        """They are another's already: nothing of them is left to hand out or to commit."""
        gone = set(_plain(partitions))
        self._next = {where: offset for where, offset in self._next.items() if where not in gone}
        self._pending = deque(
            one for one in self._pending if Partition(one.topic(), one.partition()) not in gone
        )


def partitions_lost(group: str, why: str) -> PartitionsLost:
    """The error for a commit that came too late."""
    return PartitionsLost(
        f"partitions of group {group!r} went to another member before the commit",
        detail=why,
        hint="their records will be handed out again: make what you do with them idempotent",
    )


def _plain(partitions: Sequence[TopicPartition]) -> list[Partition]:
    return [Partition(one.topic, one.partition) for one in partitions]
