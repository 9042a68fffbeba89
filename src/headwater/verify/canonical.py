"""Canonical values: one form for values that are the same, whichever system told them.

A decimal is the same with and without zeros at its end, an instant in every time zone, a truth as a number
(MariaDB's), and NaN is equal to itself. A row's digest is made of these.
"""

import struct
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

import msgspec
from pyspark.sql import types as spark

Row = Mapping[str, Any]
Digest = bytes
Turn = Callable[[Any], Any]
DIGEST_BYTES = 16


def digest_of(columns: spark.StructType) -> Callable[[Row], Digest]:
    """What makes the digest of a row with these columns."""
    turn = canonical(columns)
    return lambda row: blake2b(msgspec.json.encode(turn(row)), digest_size=DIGEST_BYTES).digest()


def canonical(kind: spark.DataType) -> Turn:
    """What brings a value into its one form, which JSON can tell."""
    turn = _canonical(kind)
    return lambda value: None if value is None else turn(value)


def _canonical(kind: spark.DataType) -> Turn:
    match kind:
        case spark.StructType():
            fields = [(one.name, canonical(one.dataType)) for one in kind.fields]
            return lambda row: [turn(row[name]) for name, turn in fields]
        case spark.ArrayType():
            inside = canonical(kind.elementType)
            return lambda found: [inside(one) for one in found]
        case spark.MapType():
            key, value = canonical(kind.keyType), canonical(kind.valueType)
            return lambda found: sorted(
                ([key(one), value(two)] for one, two in found.items()), key=msgspec.json.encode
            )
        case spark.IntegralType():
            return int
    return _SIMPLE.get(type(kind), lambda value: value)


def _decimal(value: Any) -> str:
    text = format(value, "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def _double(value: float) -> float | str:
    return str(value) if value - value else value + 0.0  # NaN and infinity by name; -0.0 is 0.0


def _float(value: float) -> float | str:
    """Some systems tell a float with the digits of a double."""
    return _double(struct.unpack("f", struct.pack("f", value))[0])


def _instant(value: datetime) -> str:
    aware = value if value.tzinfo else value.replace(tzinfo=UTC)
    return aware.astimezone(UTC).isoformat(timespec="microseconds")


def _local(value: datetime) -> str:
    return _instant(value)[:26]


def _truth(value: Any) -> bool:
    return any(value) if isinstance(value, bytes) else bool(value)


def _date(value: Any) -> str:
    return str(value.date() if isinstance(value, datetime) else value)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


_SIMPLE: dict[type[spark.DataType], Turn] = {
    spark.StringType: _text,
    spark.BooleanType: _truth,
    spark.DecimalType: _decimal,
    spark.DoubleType: _double,
    spark.FloatType: _float,
    spark.TimestampType: _instant,
    spark.TimestampNTZType: _local,
    spark.DateType: _date,
    spark.BinaryType: bytes,
    spark.DayTimeIntervalType: lambda value: value.total_seconds(),
}
