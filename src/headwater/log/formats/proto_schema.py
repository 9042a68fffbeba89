"""A topic's schema as .proto text, whose numbers never change their meaning.

In Protobuf the number is the field. A first version numbers its columns by position; after that a
column keeps the number that it had in any earlier version of the subject, and a new one takes the
next number after the largest that was ever used. The registry's history is the memory of that:
`reserved` is not written, because the embedded registry takes it for an incompatible change.
"""

from collections.abc import Iterator, Sequence

from pyspark.sql import types as spark

from headwater.errors import SpecError
from headwater.log.formats.framing import check_names, record_name
from headwater.log.formats.proto_class import TIMESTAMP
from headwater.log.formats.proto_text import ProtoMessage, parse_proto
from headwater.log.topic import Topic

_SCALARS = {
    "string": "string",
    "boolean": "bool",
    "tinyint": "int32",
    "smallint": "int32",
    "int": "int32",
    "bigint": "int64",
    "float": "float",
    "double": "double",
    "binary": "bytes",
    "date": "int32",
    "timestamp_ntz": "int64",
    "timestamp": TIMESTAMP,
}
_KEYS = ("string", "boolean", "tinyint", "smallint", "int", "bigint")


def proto_schema(topic: Topic, earlier: Sequence[str] = ()) -> str:
    """The topic's schema in Protobuf, numbered after all earlier versions (the oldest first)."""
    name = record_name(topic)
    before = [file.messages[name] for file in map(parse_proto, earlier) if name in file.messages]
    body = "\n".join(_message(topic, name, topic.spark_schema, before))
    imports = 'import "google/protobuf/timestamp.proto";\n' if TIMESTAMP in body else ""
    return f'syntax = "proto3";\n{imports}\n{body}\n'


def proto_version(topic: Topic, history: Sequence[str]) -> int | None:
    """Which of the subject's versions is this topic already, counted from zero; the newest counts."""
    for at in range(len(history) - 1, -1, -1):
        if proto_schema(topic, history[: at + 1]).strip() == history[at].strip():
            return at
    return None


def _message(
    topic: Topic, name: str, struct: spark.StructType, before: Sequence[ProtoMessage]
) -> Iterator[str]:
    check_names(topic, struct)
    numbers = _numbers(struct, before)
    yield f"message {name} {{"
    for column in struct.fields:
        inner, inner_name = _struct_in(column.dataType), _inner_name(column.name, struct)
        if inner is not None:
            older = [one.messages[inner_name] for one in before if inner_name in one.messages]
            yield from (f"  {line}" for line in _message(topic, inner_name, inner, older))
        yield f"  {_shape(topic, column, inner_name)} {column.name} = {numbers[column.name]};"
    yield "}"


def _numbers(struct: spark.StructType, before: Sequence[ProtoMessage]) -> dict[str, int]:
    known = {one.name: one.number for version in before for one in version.fields.values()}
    largest = max((version.largest for version in before), default=0)
    fresh = [name for name in struct.names if name not in known]
    return known | {name: largest + 1 + at for at, name in enumerate(fresh)}


def _inner_name(column: str, struct: spark.StructType) -> str:
    name = f"{column}_record"
    while name in struct.names:
        name += "_"
    return name


def _struct_in(kind: spark.DataType) -> spark.StructType | None:
    match kind:
        case spark.ArrayType():
            return _struct_in(kind.elementType)
        case spark.MapType():
            return _struct_in(kind.valueType)
        case spark.StructType():
            return kind
    return None


def _shape(topic: Topic, column: spark.StructField, inner_name: str) -> str:
    match column.dataType:
        case spark.ArrayType() as kind:
            return f"repeated {_single(topic, column, kind.elementType, inner_name)}"
        case spark.MapType() as kind:
            if kind.keyType.simpleString() not in _KEYS:
                raise _refused(topic, column, "a map's key is a text, a whole number or a boolean")
            key = _SCALARS[kind.keyType.simpleString()]
            return f"map<{key}, {_single(topic, column, kind.valueType, inner_name)}>"
        case kind:
            return f"optional {_single(topic, column, kind, inner_name)}"


def _single(topic: Topic, column: spark.StructField, kind: spark.DataType, inner_name: str) -> str:
    match kind:
        case spark.ArrayType() | spark.MapType():
            raise _refused(topic, column, "there are no lists or maps right inside lists or maps")
        case spark.StructType():
            return inner_name
        case spark.DecimalType():
            return "string"
    return _SCALARS[kind.simpleString()]


def _refused(topic: Topic, column: spark.StructField, why: str) -> SpecError:
    return SpecError(
        f"column {column.name!r} of topic {topic.name!r} cannot be said in protobuf: {why}",
        detail=f"it is {column.dataType.simpleString()}",
        hint="put a struct in between, or use the format avro or json-schema",
    )
