"""The frame around a value that has a schema: a zero byte, the schema's id, then the value.

It is Confluent's wire format, so that every client and tool of that world reads our records and we
read theirs. A writer registers its schema before its first record, and so finds out that the change is not
allowed before anything is written; a reader asks for the schema that each record was written with,
once for each id.
"""

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import msgspec
from pyspark.sql import types as spark

from headwater.errors import SpecError, Undecodable, UnknownSchema
from headwater.log.formats.codec import Row, undecodable
from headwater.log.topic import Topic

Kind = Literal["avro", "json-schema", "protobuf"]
"""The formats whose schemas a registry keeps."""

Read = Callable[[bytes], object]
"""From a value's bytes to its columns; it may fail in any way."""

_HEADER = struct.Struct(">BI")
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class SchemaText:
    """A schema as the registry keeps it."""

    kind: Kind
    text: str


class Registered(Protocol):
    """What a codec needs of a registry."""

    def register(self, topic: Topic) -> int:
        """The id of the topic's schema, which is registered if it is new."""

    def schema(self, schema_id: int) -> SchemaText:
        """The schema of an id; UnknownSchema when there is none."""


class Frames:
    """The frames of one topic: the id that it writes, and a reader for each id that arrives."""

    def __init__(self, topic: Topic, schemas: Registered, reader: Callable[[str], Read]) -> None:
        self._topic = topic
        self._schemas = schemas
        self._reader = reader
        self._readers: dict[int, Read] = {}
        self._own: int | None = None

    @property
    def own(self) -> int:
        """The id of the topic's own schema; the first look registers it."""
        if self._own is None:
            self._own = self._schemas.register(self._topic)
        return self._own

    @property
    def text(self) -> str:
        """The topic's own schema as it is registered."""
        return self._schemas.schema(self.own).text

    def wrap(self, payload: bytes) -> bytes:
        """The value's bytes in a frame."""
        return _HEADER.pack(0, self.own) + payload

    def unwrap(self, data: bytes) -> Row:
        """The row in a frame, read with its writer's schema."""
        if len(data) < _HEADER.size:
            raise undecodable(self._topic, f"{len(data)} bytes are too few")
        magic, schema_id = _HEADER.unpack_from(data)
        if magic != 0:
            raise undecodable(self._topic, f"its first byte is {magic}, not 0")
        read = self._readers.get(schema_id) or self._learn(schema_id)
        return self._row(read, data[_HEADER.size :])

    def _row(self, read: Read, payload: bytes) -> Row:
        try:
            return msgspec.convert(read(payload), self._topic.row)
        except Undecodable:
            raise
        except Exception as error:  # wrong bytes lead a decoder anywhere, and none of it is a bug
            raise undecodable(self._topic, str(error) or type(error).__name__) from error

    def _learn(self, schema_id: int) -> Read:
        try:
            found = self._schemas.schema(schema_id)
        except UnknownSchema as error:
            raise undecodable(self._topic, f"its schema {schema_id} is unknown to the registry") from error
        if found.kind != self._topic.format:
            raise undecodable(self._topic, f"its schema {schema_id} is {found.kind}")
        self._readers[schema_id] = self._build(schema_id, found.text)
        return self._readers[schema_id]

    def _build(self, schema_id: int, text: str) -> Read:
        try:
            return self._reader(text)
        except Exception as error:  # other people's schemas can be anything
            raise undecodable(self._topic, f"its schema {schema_id} cannot be used: {error}") from error


def record_name(topic: Topic) -> str:
    """The name of the topic's rows where a name cannot begin with a digit."""
    name = topic.row.__name__
    return f"T{name}" if name[0].isdigit() else name


def check_names(topic: Topic, struct: spark.StructType) -> None:
    """Refuse columns whose names the format cannot spell."""
    for column in struct.fields:
        if not _PLAIN_NAME.fullmatch(column.name):
            raise SpecError(
                f"column {column.name!r} of topic {topic.name!r} cannot be named in {topic.format}",
                hint="use letters from a to z, digits and underscore, or the format json-schema",
            )
