"""Avro: compact rows that are read with their writer's schema, whatever the reader's is by now.

A nullable column is a union with null and has null as its default, so that it can be added and
dropped; a column that is NOT NULL has no default. A struct becomes a record of its own, named after
its column's path, because registries compare records by name. Reading does not: columns are matched
by name as in the other formats, so that records of other people, who name theirs otherwise, are read too.
"""

import io
import json
from typing import Any

import fastavro
import msgspec
from pyspark.sql import types as spark

from headwater.errors import SpecError
from headwater.log.formats.codec import Row, fitting, mismatch
from headwater.log.formats.framing import Frames, Read, Registered, check_names, record_name
from headwater.log.formats.numbers import exact_decimal
from headwater.log.topic import Topic

_SIMPLE: dict[str, Any] = {
    "string": "string",
    "boolean": "boolean",
    "tinyint": "int",
    "smallint": "int",
    "int": "int",
    "bigint": "long",
    "float": "float",
    "double": "double",
    "binary": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
    "timestamp_ntz": {"type": "long", "logicalType": "local-timestamp-micros"},
}


class AvroCodec:
    """A topic's values as Avro under a schema id."""

    def __init__(self, topic: Topic, schemas: Registered) -> None:
        self._topic = topic
        self._fit = fitting(topic)
        self._schema: Any = fastavro.parse_schema(json.loads(avro_schema(topic)))
        self._frames = Frames(topic, schemas, self._reader)

    def encode(self, value: object) -> bytes:
        """The row as framed Avro."""
        row, payload = self._fit(value), io.BytesIO()
        try:
            fastavro.schemaless_writer(payload, self._schema, _record(row, self._topic.spark_schema))
        except (ValueError, TypeError, OverflowError) as error:
            raise mismatch(self._topic, str(error)) from error
        return self._frames.wrap(payload.getvalue())

    def decode(self, data: bytes) -> Row:
        """The row of framed Avro, read with its writer's schema."""
        return self._frames.unwrap(data)

    def _reader(self, text: str) -> Read:
        written: Any = fastavro.parse_schema(json.loads(text))

        def read(payload: bytes) -> object:
            stream = io.BytesIO(payload)
            found = fastavro.schemaless_reader(stream, written, None)
            if left := len(payload) - stream.tell():
                raise ValueError(f"{left} bytes are left over")
            return found

        return read


def avro_schema(topic: Topic) -> str:
    """The topic's schema in Avro."""
    return json.dumps({"type": "record", "name": record_name(topic), "fields": _fields(topic)})


def _fields(topic: Topic, struct: spark.StructType | None = None, path: str = "") -> list[dict[str, Any]]:
    struct, path = struct or topic.spark_schema, path or record_name(topic)
    check_names(topic, struct)
    fields: list[dict[str, Any]] = []
    for column in struct.fields:
        kind = _type(topic, column.dataType, path, column.name)
        nullable = {"name": column.name, "type": ["null", kind], "default": None}
        fields.append(nullable if column.nullable else {"name": column.name, "type": kind})
    return fields


def _type(topic: Topic, kind: spark.DataType, path: str, column: str) -> Any:
    match kind:
        case spark.DecimalType():
            size = {"precision": kind.precision, "scale": kind.scale}
            return {"type": "bytes", "logicalType": "decimal", **size}
        case spark.ArrayType():
            return {"type": "array", "items": ["null", _type(topic, kind.elementType, path, column)]}
        case spark.MapType():
            _check_key(topic, kind, column)
            return {"type": "map", "values": ["null", _type(topic, kind.valueType, path, column)]}
        case spark.StructType():
            name = f"{column}_record"
            fields = _fields(topic, kind, f"{path}.{name}")
            return {"type": "record", "name": name, "namespace": path, "fields": fields}
    return _SIMPLE[kind.simpleString()]


def _check_key(topic: Topic, kind: spark.MapType, column: str) -> None:
    if not isinstance(kind.keyType, spark.StringType):
        raise SpecError(
            f"column {column!r} of topic {topic.name!r} is {kind.simpleString()}: Avro wants text as key",
            hint="make it map<string, ...>, or an array of structs with a key and a value",
        )


def _record(row: msgspec.Struct, struct: spark.StructType) -> dict[str, Any]:
    return {one.name: _value(getattr(row, one.name), one.dataType) for one in struct.fields}


def _value(value: Any, kind: spark.DataType) -> Any:
    match kind if value is not None else None:
        case spark.StructType() as struct:
            return _record(value, struct)
        case spark.ArrayType(elementType=inside):
            return [_value(one, inside) for one in value]
        case spark.MapType(valueType=inside):
            return {key: _value(one, inside) for key, one in value.items()}
        case spark.DecimalType() as decimal:
            return exact_decimal(value, decimal)
    return value
