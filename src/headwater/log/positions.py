"""Where reading starts: the beginning, the end, an offset, or a moment of the log's own clock.

And the offsets that such a place is in each partition, asked of the broker.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import OffsetSpec

from headwater.errors import OffsetOutOfRange, SpecError
from headwater.log.connection import TRY_WITHIN, Connection, patiently


@dataclass(frozen=True)
class Beginning:
    """The oldest record that the log still has."""


@dataclass(frozen=True)
class End:
    """After the newest record."""


@dataclass(frozen=True)
class Offset:
    """This offset, in every partition that is read."""

    offset: int

    def __post_init__(self) -> None:
        if self.offset < 0:
            raise SpecError(f"an offset is not negative: {self.offset}")


@dataclass(frozen=True)
class Since:
    """The first record appended at this moment or later."""

    moment: datetime

    def __post_init__(self) -> None:
        if self.moment.tzinfo is None:
            raise SpecError("a moment needs a time zone", hint="datetime.now(UTC), or …Z in text")


@dataclass(frozen=True)
class Last:
    """This many offsets before the end of each partition."""

    count: int

    def __post_init__(self) -> None:
        if self.count < 0:
            raise SpecError(f"a count is not negative: {self.count}")


Start = Beginning | End | Offset | Since | Last


class Positions:
    """Asks the broker for offsets."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def first(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """The oldest offset of each partition."""
        return self._list(topic, partitions, OffsetSpec.earliest())

    def end(self, topic: str, partitions: Iterable[int], *, committed: bool = False) -> dict[int, int]:
        """The next offset of each partition; with `committed`, up to the first open transaction."""
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        return self._list(topic, partitions, OffsetSpec.latest(), level)

    def resolve(self, topic: str, partitions: Iterable[int], start: Start) -> dict[int, int]:
        """The offset in each partition at which reading from `start` begins."""
        wanted = list(partitions)
        match start:
            case Beginning():
                return self.first(topic, wanted)
            case End():  # before what is not decided yet, or it would be skipped when it is
                return self.end(topic, wanted, committed=True)
            case Last(count):
                first = self.first(topic, wanted)
                return {one: max(first[one], end - count) for one, end in self.end(topic, wanted).items()}
            case Since(moment):
                return self._since(topic, wanted, moment)
            case Offset(offset):
                self.check(topic, dict.fromkeys(wanted, offset))
                return dict.fromkeys(wanted, offset)

    def _since(self, topic: str, partitions: list[int], moment: datetime) -> dict[int, int]:
        milliseconds = max(0, int(moment.timestamp() * 1000))  # Kafka knows no moment before 1970
        found = self._list(topic, partitions, OffsetSpec.for_timestamp(milliseconds))
        ends = self.end(topic, partitions)
        return {one: ends[one] if offset < 0 else offset for one, offset in found.items()}

    def check(self, topic: str, offsets: dict[int, int]) -> None:
        """OffsetOutOfRange unless the log holds these offsets, or ends at them."""
        first, end = self.first(topic, offsets), self.end(topic, offsets)
        for partition, offset in offsets.items():
            if not first[partition] <= offset <= end[partition]:
                raise OffsetOutOfRange(
                    f"offset {offset} is not in partition {partition} of topic {topic!r}",
                    detail=f"it holds {first[partition]} up to {end[partition]}",
                    hint="read from the beginning, the end, or a moment",
                )

    def _list(
        self,
        topic: str,
        partitions: Iterable[int],
        spec: Any,
        level: Any = IsolationLevel.READ_UNCOMMITTED,
    ) -> dict[int, int]:
        wanted = {TopicPartition(topic, one): spec for one in partitions}
        if not wanted:
            return {}

        def ask() -> dict[int, int]:
            futures = self._connection.admin.list_offsets(
                wanted, isolation_level=level, request_timeout=TRY_WITHIN
            )
            return {where.partition: future.result().offset for where, future in futures.items()}

        return patiently(self._connection, ask, topic=topic)
