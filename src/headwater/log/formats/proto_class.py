"""Message classes made as they are needed: the topic's columns under the numbers of a .proto text.

Nothing is compiled. Only fields that the topic has as columns are built, so a writer's message may hold
whatever else it likes; a field keeps its writer's scalar type, because the bytes are in it.
A column whose field is of another shape (a list here, a single value there) is refused.
"""

from collections.abc import Callable
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2
from pyspark.sql import types as spark

from headwater.log.formats.proto_text import ProtoField, ProtoMessage

TIMESTAMP = "google.protobuf.Timestamp"
_FIELD: Any = descriptor_pb2.FieldDescriptorProto
_WORDS = (
    "double float int64 uint64 int32 fixed64 fixed32 bool string bytes uint32 sfixed32 sfixed64 sint32 sint64"
)
SCALARS: dict[str, int] = {word: getattr(_FIELD, f"TYPE_{word.upper()}") for word in _WORDS.split()}
"""Protobuf's scalar types by their names in a text."""

Scopes = tuple[ProtoMessage, ...]
"""The file, a message in it, a message in that one, and so on inwards."""


def message_class(struct: spark.StructType, scopes: Scopes) -> Callable[[], Any]:
    """The class of the innermost message, with the columns that it has; ValueError when one differs."""
    file = descriptor_pb2.FileDescriptorProto(
        name="row.proto", syntax="proto3", dependency=[timestamp_pb2.DESCRIPTOR.name]
    )
    _describe(file.message_type.add(name="Row"), "Row", struct, scopes)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    made: Callable[[], Any] = message_factory.GetMessageClass(pool.FindMessageTypeByName("Row"))
    return made


def _describe(message: Any, path: str, struct: spark.StructType, scopes: Scopes) -> None:
    for column in struct.fields:
        said = scopes[-1].fields.get(column.name)
        if said is not None:
            _check_shape(column, said)
            _add(message, path, column.dataType, said, scopes)


def _check_shape(column: spark.StructField, said: ProtoField) -> None:
    is_map, is_list = isinstance(column.dataType, spark.MapType), isinstance(column.dataType, spark.ArrayType)
    if is_map != bool(said.key) or is_list != said.repeated:
        shape = f"map<{said.key}, {said.type}>" if said.key else "repeated " * said.repeated + said.type
        raise ValueError(f"column {column.name!r} is {column.dataType.simpleString()} here and {shape} there")


def _add(message: Any, path: str, kind: spark.DataType, said: ProtoField, scopes: Scopes) -> None:
    added = message.field.add(name=said.name, json_name=said.name, number=said.number)
    added.label = _FIELD.LABEL_REPEATED if said.repeated or said.key else _FIELD.LABEL_OPTIONAL
    if isinstance(kind, spark.MapType):
        _be_map(added, message, path, kind, said, scopes)
        return
    if isinstance(kind, spark.ArrayType):
        kind = kind.elementType
    _be(added, message, path, kind, said, scopes)
    if said.explicit and not said.repeated and added.type != _FIELD.TYPE_MESSAGE:
        added.proto3_optional, added.oneof_index = True, len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{said.name}_{said.number}")


def _be_map(
    added: Any, message: Any, path: str, kind: spark.MapType, said: ProtoField, scopes: Scopes
) -> None:
    name = "".join(part[:1].upper() + part[1:] for part in said.name.split("_")) + "Entry"
    entry = message.nested_type.add(name=name)
    entry.options.map_entry = True
    added.type, added.type_name = _FIELD.TYPE_MESSAGE, f".{path}.{name}"
    entry.field.add(name="key", number=1, label=_FIELD.LABEL_OPTIONAL, type=SCALARS[said.key])
    value = entry.field.add(name="value", number=2, label=_FIELD.LABEL_OPTIONAL)
    # a struct's message stands beside the entry: an entry may hold nothing else
    _be(value, message, path, kind.valueType, said, scopes)


def _be(added: Any, message: Any, path: str, kind: spark.DataType, said: ProtoField, scopes: Scopes) -> None:
    inner = find_message(said.type, scopes)
    if isinstance(kind, spark.StructType) and inner:
        name = f"Message_{said.number}"
        added.type, added.type_name = _FIELD.TYPE_MESSAGE, f".{path}.{name}"
        _describe(message.nested_type.add(name=name), f"{path}.{name}", kind, inner)
    elif isinstance(kind, spark.TimestampType) and said.type.lstrip(".") == TIMESTAMP:
        added.type, added.type_name = _FIELD.TYPE_MESSAGE, f".{TIMESTAMP}"
    elif not isinstance(kind, spark.StructType | spark.TimestampType) and said.type in SCALARS:
        added.type = SCALARS[said.type]
    else:
        raise ValueError(f"column {said.name!r} is {kind.simpleString()} here and {said.type} there")


def find_message(name: str, scopes: Scopes) -> Scopes | None:
    """The scopes of a message by its name, looked for from the innermost scope outwards."""
    package = scopes[0].package
    plain = name.lstrip(".")
    plain = plain.removeprefix(f"{package}.") if package else plain
    for depth in range(len(scopes), 0, -1):
        found = _inside(scopes[:depth], plain.split("."))
        if found:
            return found
    return None


def _inside(scopes: Scopes, parts: list[str]) -> Scopes | None:
    for part in parts:
        inner = scopes[-1].messages.get(part)
        if inner is None:
            return None
        scopes = (*scopes, inner)
    return scopes
