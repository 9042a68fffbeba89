"""Rows into Protobuf messages and out of them again, column by column.

Instants are google.protobuf.Timestamp; a timestamp without a zone is microseconds and a date is days since
1970; a decimal is its text.
"""

from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from typing import Any

import msgspec
from pyspark.sql import types as spark

from headwater.clock import EPOCH
from headwater.log.formats.numbers import exact_decimal

_NAIVEEPOCH = EPOCH.replace(tzinfo=None)
_DAY_ZERO = date(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_MILLION = 1_000_000


def fill(message: Any, row: msgspec.Struct, struct: spark.StructType) -> None:
    """Set the message's fields from the row; ValueError for what Protobuf cannot say."""
    for column in struct.fields:
        value = getattr(row, column.name)
        match column.dataType:
            case spark.ArrayType() as kind:
                _extend(getattr(message, column.name), kind.elementType, _checked(column, value))
            case spark.MapType() as kind:
                _update(getattr(message, column.name), kind.valueType, _checked(column, value))
            case kind if value is not None:
                _set(message, column.name, kind, value)


def columns(message: Any, struct: spark.StructType) -> dict[str, Any]:
    """The message's fields by column; what its class does not know is left out."""
    known = message.DESCRIPTOR.fields_by_name
    found = [column for column in struct.fields if column.name in known]
    return {one.name: _get(message, known[one.name], one.dataType) for one in found}


def _checked(column: spark.StructField, value: Any) -> Any:
    shape = column.dataType.typeName()
    if value is None:
        raise ValueError(f"protobuf has no null {shape}, only an empty one - at `$.{column.name}`")
    inside = value.values() if isinstance(value, dict) else value
    if any(one is None for one in inside):
        raise ValueError(f"protobuf has no null inside of {shape}s - at `$.{column.name}`")
    return value


def _extend(field: Any, kind: spark.DataType, values: Iterable[Any]) -> None:
    if not isinstance(kind, spark.StructType | spark.TimestampType):
        field.extend(_scalar(kind, one) for one in values)
        return
    for one in values:
        _set_message(field.add(), kind, one)


def _update(field: Any, kind: spark.DataType, values: Mapping[Any, Any]) -> None:
    for key, one in values.items():
        if isinstance(kind, spark.StructType | spark.TimestampType):
            _set_message(field[key], kind, one)
        else:
            field[key] = _scalar(kind, one)


def _set(message: Any, name: str, kind: spark.DataType, value: Any) -> None:
    if isinstance(kind, spark.StructType | spark.TimestampType):
        _set_message(getattr(message, name), kind, value)
    else:
        setattr(message, name, _scalar(kind, value))


def _set_message(message: Any, kind: spark.StructType | spark.TimestampType, value: Any) -> None:
    message.SetInParent()  # a struct of nulls is not a null
    if isinstance(kind, spark.StructType):
        fill(message, value, kind)
    else:
        message.seconds, micros = divmod((value - EPOCH) // _MICROSECOND, _MILLION)
        message.nanos = micros * 1000


def _scalar(kind: spark.DataType, value: Any) -> Any:
    match kind:
        case spark.DateType():
            return (value - _DAY_ZERO).days
        case spark.TimestampNTZType():
            return (value - _NAIVEEPOCH) // _MICROSECOND
        case spark.DecimalType():
            return f"{exact_decimal(value, kind):f}"
    return value


def _get(message: Any, field: Any, kind: spark.DataType) -> Any:
    value = getattr(message, field.name)
    match kind:
        case spark.ArrayType():
            return [_plain(kind.elementType, one) for one in value]
        case spark.MapType():
            return {key: _plain(kind.valueType, value[key]) for key in value}
    if field.has_presence and not message.HasField(field.name):
        return None
    return _plain(kind, value)


def _plain(kind: spark.DataType, value: Any) -> Any:
    match kind:
        case spark.StructType():
            return columns(value, kind)
        case spark.TimestampType():
            return EPOCH + timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
        case spark.DateType():
            return _DAY_ZERO + timedelta(days=value)
        case spark.TimestampNTZType():
            return _NAIVEEPOCH + timedelta(microseconds=value)
    return value
