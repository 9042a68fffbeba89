"""JSON Schema: the same JSON as plain `json`, with a schema that the registry keeps and compares.

The content model is closed (no additional properties). Only so does adding a nullable column pass
as a backward change: in an open model the old schema allowed anything under the new name already,
also things that the new one refuses.
"""

import json
from typing import Any

from pyspark.sql import types as spark

from headwater.log.formats.codec import JsonCodec, Row
from headwater.log.formats.framing import Frames, Read, Registered, record_name
from headwater.log.topic import Topic

_DRAFT = "http://json-schema.org/draft-07/schema#"


def _integer(bits: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": -(2 ** (bits - 1)), "maximum": 2 ** (bits - 1) - 1}


_SIMPLE: dict[str, dict[str, Any]] = {
    "string": {"type": "string"},
    "boolean": {"type": "boolean"},
    "tinyint": _integer(8),
    "smallint": _integer(16),
    "int": _integer(32),
    "bigint": _integer(64),
    "float": {"type": "number"},
    "double": {"type": "number"},
    "binary": {"type": "string", "contentEncoding": "base64"},
    "date": {"type": "string", "format": "date"},
    "timestamp": {"type": "string", "format": "date-time"},
    "timestamp_ntz": {"type": "string"},  # the format date-time would want a zone
}


class JsonSchemaCodec:
    """A topic's values as JSON under a schema id."""

    def __init__(self, topic: Topic, schemas: Registered) -> None:
        self._json = JsonCodec(topic)
        self._frames = Frames(topic, schemas, self._reader)

    def encode(self, value: object) -> bytes:
        """The row as framed JSON."""
        return self._frames.wrap(self._json.encode(value))

    def decode(self, data: bytes) -> Row:
        """The row of framed JSON; columns that the topic does not know are passed over."""
        return self._frames.unwrap(data)

    def _reader(self, text: str) -> Read:
        json.loads(text)  # JSON needs no schema to be read, but whoever wrote it needed a real one
        return self._json.decode


def json_schema_text(topic: Topic) -> str:
    """The topic's schema in JSON Schema, draft 7."""
    return json.dumps({"$schema": _DRAFT, "title": record_name(topic), **_object(topic.spark_schema)})


def _object(struct: spark.StructType) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {one.name: _column(one.dataType, one.nullable) for one in struct.fields},
        "required": [one.name for one in struct.fields if not one.nullable],
        "additionalProperties": False,
    }


def _column(kind: spark.DataType, nullable: bool = True) -> dict[str, Any]:
    said = _type(kind)
    return {**said, "type": [said["type"], "null"]} if nullable else said


def _type(kind: spark.DataType) -> dict[str, Any]:
    match kind:
        case spark.StructType():
            return _object(kind)
        case spark.ArrayType():
            return {"type": "array", "items": _column(kind.elementType)}
        case spark.MapType():
            return {"type": "object", "additionalProperties": _column(kind.valueType)}
        case spark.DecimalType():
            return {"type": "number"}
    return _SIMPLE[kind.simpleString()]
