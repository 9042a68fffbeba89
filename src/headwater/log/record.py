"""Record: one entry of the log as a reader gets it.

It wraps the client's message and decodes the value only when asked, so that counting or moving
records costs nothing more than reading them.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME

Decode = Callable[[bytes], Any]


class Record(msgspec.Struct, gc=False, eq=False):  # made in C: one is made for every record read
    """One entry of the log: where it stands, its key, its value."""

    _message: Any
    _decode: Decode

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self._message.topic()  # type: ignore[no-any-return]

    @property
    def partition(self) -> int:
        """The partition that it stands in."""
        return self._message.partition()  # type: ignore[no-any-return]

    @property
    def offset(self) -> int:
        """Its place in the partition."""
        return self._message.offset()  # type: ignore[no-any-return]

    @property
    def key(self) -> bytes | None:
        """The key's bytes."""
        return self._message.key()  # type: ignore[no-any-return]

    @property
    def data(self) -> bytes | None:
        """The value's bytes; None is a tombstone."""
        return self._message.value()  # type: ignore[no-any-return]

    @property
    def value(self) -> Any:
        """The value as the topic's row; None is a tombstone. Undecodable if the bytes are no such row."""
        data = self._message.value()
        return None if data is None else self._decode(data)

    @property
    def appended_at(self) -> datetime:
        """The timestamp of the log: when the record was appended."""
        return datetime.fromtimestamp(self._message.timestamp()[1] / 1000, UTC)

    @property
    def is_append_time(self) -> bool:
        """Whether `appended_at` is the broker's word; in other people's topics it may be the writer's."""
        return bool(self._message.timestamp()[0] == TIMESTAMP_LOG_APPEND_TIME)

    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        """The headers, in their order."""
        return self._message.headers() or []

    def __repr__(self) -> str:
        return f"Record({self.topic}[{self.partition}]@{self.offset}, key={self.key!r})"


def as_bytes(data: bytes) -> bytes:
    """The decoder of a topic without a schema: its bytes as they are."""
    return data
