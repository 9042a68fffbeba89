"""Restored values: from JSON's values and from texts back to Python's, as `plain` has made them of rows."""

import base64
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
from pyspark.sql import types as spark

from headwater.sink.plain import Turn

_SIMPLE: dict[type[spark.DataType], Callable[[Any], Any]] = {
    spark.DecimalType: Decimal,
    spark.FloatType: float,
    spark.DoubleType: float,
    spark.TimestampType: datetime.fromisoformat,
    spark.TimestampNTZType: datetime.fromisoformat,
    spark.DateType: date.fromisoformat,
    spark.BinaryType: base64.b64decode,
    spark.DayTimeIntervalType: lambda text: msgspec.convert(text, timedelta),
}


def from_json(kind: spark.DataType) -> Turn:
    """From what `in_json` makes; a field that is missing is null."""
    turn = _from_json(kind)
    return lambda value: None if value is None else turn(value)


def _from_json(kind: spark.DataType) -> Turn:
    match kind:
        case spark.StructType():
            fields = [(one.name, from_json(one.dataType)) for one in kind.fields]
            return lambda found: {name: turn(found.get(name)) for name, turn in fields}
        case spark.ArrayType():
            inside = from_json(kind.elementType)
            return lambda found: [inside(one) for one in found]
        case spark.MapType():
            key, value = from_json(kind.keyType), from_json(kind.valueType)
            pairs = dict.items if isinstance(kind.keyType, spark.StringType) else iter
            return lambda found: {key(one): value(two) for one, two in pairs(found)}
    return _SIMPLE.get(type(kind), lambda value: value)


def from_text(kind: spark.DataType) -> Callable[[bytes], Any]:
    """From what `text` makes."""
    if isinstance(kind, spark.BinaryType):
        return bytes
    if isinstance(kind, spark.StringType):
        return bytes.decode
    turn = _from_json(kind)
    if type(kind) in _SIMPLE:
        return lambda data: turn(data.decode())
    return lambda data: turn(msgspec.json.decode(data))
