"""Channel: what a writer knows of one topic: how to encode it, its key and where a record goes.

A key is hashed to its partition (murmur2, as Java's clients do); records without a key go round
the partitions, one after the other.
"""

from collections.abc import Callable, Mapping
from itertools import cycle

from pyspark.sql import types as spark

from headwater.errors import KeyMissing, ValueMismatch
from headwater.log.formats import codec_for
from headwater.log.formats.framing import Registered
from headwater.log.topic import Topic

BY_KEY = -1
"""The partition that lets the client hash the key."""


def turns(partitions: int) -> Callable[[], int]:
    """The partitions, one after the other, for ever."""
    return cycle(range(partitions)).__next__


class Channel:
    """A writer's way into one topic; `turn` gives the partition of a record without a key."""

    def __init__(self, topic: Topic, schemas: Callable[[], Registered], turn: Callable[[], int]) -> None:
        self.topic = topic
        self.encode = codec_for(topic, schemas).encode
        self.next_partition = turn if topic.key is None else _by_key

    def key_of(self, value: object) -> bytes | None:
        """The key of a row, None for a topic without one."""
        name = self.topic.key
        if name is None:
            return None
        found = value.get(name) if isinstance(value, Mapping) else getattr(value, name)
        return found.encode() if type(found) is str else key_bytes(found, self.topic)


def key_bytes(key: object, topic: Topic) -> bytes:
    """A key as it stands in the log: text in UTF-8, numbers in digits, binary as it is."""
    if key is None:
        raise KeyMissing(
            f"a record of topic {topic.name!r} has no {topic.key!r}, its key",
            hint="a record without its key would lose its place among the others of that key",
        )
    kind = topic.spark_schema[topic.key or ""].dataType
    if isinstance(kind, spark.StringType) and isinstance(key, str):
        return key.encode()
    if isinstance(kind, spark.BinaryType) and isinstance(key, bytes | bytearray | memoryview):
        return bytes(key)
    if isinstance(kind, spark.IntegralType) and isinstance(key, int) and not isinstance(key, bool):
        return str(key).encode()
    raise ValueMismatch(f"{key!r} cannot be a key of topic {topic.name!r}, which is {kind.simpleString()}")


def _by_key() -> int:
    return BY_KEY
