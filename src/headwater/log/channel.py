"""Channel: what a writer knows of one topic: how to encode it, its key and where a record goes.

A key is hashed to its partition (murmur2, as Java's clients do); records without a key go round
the partitions, one after the other.
"""

from collections.abc import Callable, Mapping
from itertools import cycle
from typing import Self

from headwater.errors import KeyMissing
from headwater.log.connection import Connection
from headwater.log.formats import codec_for
from headwater.log.registry import Schemas
from headwater.log.topic import Topic
from headwater.log.topics import Topics


def key_bytes(key: object, topic: Topic) -> bytes:
    """A key as it stands in the log: text in UTF-8, numbers in digits, binary as it is."""
    if isinstance(key, str):
        return key.encode()
    if isinstance(key, bytes):
        return key
    if key is None:
        raise KeyMissing(
            f"a record of topic {topic.name!r} has no {topic.key!r}, its key",
            hint="a record without its key would lose its place among the others of that key",
        )
    return str(key).encode()


class Channel:
    """A writer's way into one topic."""

    by_key = -1
    """The partition that lets the client hash the key."""

    def __init__(self, topic: Topic | None, encode: Callable[[object], bytes], partitions: int) -> None:
        self.topic = topic
        self.encode = encode
        self._key = topic.key if topic else None
        self.next_in_turn = cycle(range(partitions)).__next__

    @classmethod
    def open(
        cls, name: str, topic: Topic | None, connection: Connection, schemas: Callable[[], Schemas]
    ) -> Self:
        """Look the topic up (UnknownTopic if there is none) and choose its codec."""
        partitions = Topics(connection).partitions(name)
        return cls(topic, codec_for(topic, schemas).encode if topic else _no_codec, partitions)

    def route(self, value: object) -> bytes | None:
        """The key of a row, None for a topic without one."""
        if self._key is None:
            return None
        assert self.topic is not None  # noqa: S101
        found = value.get(self._key) if isinstance(value, Mapping) else getattr(value, self._key)
        return key_bytes(found, self.topic)

    def next_partition(self) -> int:
        """Where the next record goes: by its key, or the next in turn."""
        return self.next_in_turn() if self._key is None else self.by_key


def _no_codec(value: object) -> bytes:
    raise AssertionError(f"no schema to encode {value!r} with")
