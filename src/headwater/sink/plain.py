"""Plain values: from Arrow's Python values to those that codecs and clients take, and to JSON's.

JSON has few kinds of values, so what would be rounded in it stands as text: decimals with all their digits,
instants in UTC with their microseconds, bytes in base64, numbers that are not finite by their names.
"""

import base64
from collections.abc import Callable
from datetime import timedelta
from math import isfinite
from typing import Any

import msgspec
from pyspark.sql import types as spark

Turn = Callable[[Any], Any]
_NAMES = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def plain(kind: spark.DataType) -> Turn:
    """Python's own values: a map is a list of pairs in Arrow, and a dict here."""
    match kind:
        case spark.StructType():
            fields = [(one.name, plain(one.dataType)) for one in kind.fields]
            return lambda row: row and {name: turn(row[name]) for name, turn in fields}
        case spark.ArrayType():
            inside = plain(kind.elementType)
            return lambda found: None if found is None else [inside(one) for one in found]
        case spark.MapType():
            key, value = plain(kind.keyType), plain(kind.valueType)
            return lambda found: None if found is None else {key(one): value(two) for one, two in found}
    return lambda value: value


def in_json(kind: spark.DataType) -> Turn:
    """JSON's values, from which the row can be made again; a map without texts as keys is a list of pairs."""
    turn = _in_json(kind)
    return lambda value: None if value is None else turn(value)


def _in_json(kind: spark.DataType) -> Turn:
    match kind:
        case spark.StructType():
            fields = [(one.name, in_json(one.dataType)) for one in kind.fields]
            return lambda row: {name: turn(row[name]) for name, turn in fields}
        case spark.ArrayType():
            inside = in_json(kind.elementType)
            return lambda found: [inside(one) for one in found]
        case spark.MapType():
            key, value = in_json(kind.keyType), in_json(kind.valueType)
            if isinstance(kind.keyType, spark.StringType):
                return lambda found: {one: value(two) for one, two in found.items()}
            return lambda found: [[key(one), value(two)] for one, two in found.items()]
    return _SIMPLE.get(type(kind), lambda value: value)


def text(kind: spark.DataType) -> Turn:
    """Bytes that people can read: texts as they are, everything else as JSON has it without its quotes."""
    if isinstance(kind, spark.BinaryType):
        return bytes
    turn = _in_json(kind)

    def told(value: Any) -> bytes:
        found = turn(value)
        return found.encode() if isinstance(found, str) else msgspec.json.encode(found)

    return told


def _number(value: float) -> float | str:
    return value if isfinite(value) else _NAMES[str(value)]


def _duration(value: timedelta) -> str:
    return str(msgspec.to_builtins(value))


def _instant(value: Any) -> str:
    """As ISO 8601 has it; UTC is Z."""
    return str(value.isoformat()).replace("+00:00", "Z")


_SIMPLE: dict[type[spark.DataType], Turn] = {
    spark.DecimalType: lambda value: format(value, "f"),
    spark.FloatType: _number,
    spark.DoubleType: _number,
    spark.TimestampType: _instant,
    spark.TimestampNTZType: _instant,
    spark.DateType: lambda value: value.isoformat(),
    spark.BinaryType: lambda value: base64.b64encode(value).decode(),
    spark.DayTimeIntervalType: _duration,
}
