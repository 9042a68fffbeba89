"""Protobuf: rows as messages whose classes are made from the registered text.

Every single value is `optional`, so null and zero differ. What Protobuf has no word for is refused
when it is written: a null list or map, and a null inside one. An empty list and an empty map are fine,
and are what an absent one is read as.
"""

from collections.abc import Callable
from typing import Any

from headwater.log.formats.codec import Row, fitting, mismatch
from headwater.log.formats.framing import Frames, Read, Registered
from headwater.log.formats.proto_class import Scopes, message_class
from headwater.log.formats.proto_rows import columns, fill
from headwater.log.formats.proto_schema import proto_schema
from headwater.log.formats.proto_text import ProtoMessage, parse_proto
from headwater.log.topic import Topic

_FIRST_MESSAGE = b"\0"


class ProtobufCodec:
    """A topic's values as Protobuf under a schema id."""

    def __init__(self, topic: Topic, schemas: Registered) -> None:
        proto_schema(topic)  # a topic that Protobuf cannot say is refused at once
        self._topic = topic
        self._fit = fitting(topic)
        self._frames = Frames(topic, schemas, self._reader)
        self._made: Callable[[], Any] | None = None

    def encode(self, value: object) -> bytes:
        """The row as a framed message."""
        row, message = self._fit(value), self._new()
        try:
            fill(message, row, self._topic.spark_schema)
        except (ValueError, TypeError, OverflowError) as error:
            raise mismatch(self._topic, str(error)) from error
        return self._frames.wrap(_FIRST_MESSAGE + message.SerializeToString(deterministic=True))

    def decode(self, data: bytes) -> Row:
        """The row of a framed message, read with its writer's numbers."""
        return self._frames.unwrap(data)

    def _new(self) -> Any:
        if self._made is None:
            self._made = message_class(self._topic.spark_schema, _scopes(parse_proto(self._frames.text), [0]))
        return self._made()

    def _reader(self, text: str) -> Read:
        struct, file = self._topic.spark_schema, parse_proto(text)
        classes: dict[tuple[int, ...], Callable[[], Any]] = {}

        def read(payload: bytes) -> object:
            indexes, start = _indexes(payload)
            path = tuple(indexes)
            if path not in classes:
                classes[path] = message_class(struct, _scopes(file, indexes))
            message = classes[path]()
            message.ParseFromString(payload[start:])
            return columns(message, struct)

        return read


def _scopes(file: ProtoMessage, indexes: list[int]) -> Scopes:
    scopes: Scopes = (file,)
    for index in indexes:
        inner = list(scopes[-1].messages.values())
        if not 0 <= index < len(inner):
            raise ValueError(f"its schema has no message {'.'.join(map(str, indexes))}")
        scopes = (*scopes, inner[index])
    return scopes


def _indexes(payload: bytes) -> tuple[list[int], int]:
    """Which message of the text it is, by position at each depth, and where the message begins."""
    count, at = _zigzag(payload, 0)
    if not 0 <= count <= len(payload):
        raise ValueError("the message's position in its schema cannot be read")
    indexes: list[int] = []
    for _ in range(count):
        index, at = _zigzag(payload, at)
        indexes.append(index)
    return indexes or [0], at


def _zigzag(payload: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(payload) or shift > 63:
            raise ValueError("the message's position in its schema cannot be read")
        value |= (payload[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if payload[at - 1] < 0x80:
            return (value >> 1) ^ -(value & 1), at
