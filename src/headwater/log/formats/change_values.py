"""The values of a captured row, as a connector writes them in JSON and as a row has them.

`CONNECTOR` has them written without loss: decimals as text, days since 1970, microseconds since 1970 or
since midnight, bytes in base64. What a double can be and JSON cannot (NaN, infinities) comes as text, and a
MariaDB's boolean as 0 or 1, or as a boolean if its table was made so before the connector's eyes. These are
for a second, wide `Values`, which reads the rows that the first cannot.
"""

from collections.abc import Callable, Mapping
from datetime import date, timedelta
from typing import Annotated, Any, Literal

import msgspec
from pyspark.sql import types as spark

from headwater.clock import EPOCH
from headwater.errors import SpecError
from headwater.log.schema import python_type

NOT_SENT = "headwater:not-sent"
"""What the connector writes for a value that the database did not send."""

CONNECTOR: Mapping[str, str] = {
    "decimal.handling.mode": "string",
    "time.precision.mode": "microseconds",  # as text, 24:00 would be 0:00, and 25:00 null
    "binary.handling.mode": "bytes",  # base64 in JSON; the mode of that name has null for what was not sent
    "interval.handling.mode": "string",
    "bigint.unsigned.handling.mode": "precise",
    "unavailable.value.placeholder": NOT_SENT,
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    "value.converter.decimal.format": "NUMERIC",
}
"""The options of a connector whose values are read here; docs/reference/column-types.md has them all."""

MICROSECOND = timedelta(microseconds=1)
_NAIVE_EPOCH = EPOCH.replace(tzinfo=None)
_DAY_ZERO = EPOCH.toordinal()
_SINGLE = 3.4028235677973366e38  # below it, a double is rounded to a single that is finite
_NO_NUMBER = Literal["NaN", "Infinity", "-Infinity"]
_WIDE: dict[type[spark.DataType], Any] = {
    spark.BooleanType: bool | Literal[0, 1],
    spark.FloatType: Annotated[float, msgspec.Meta(gt=-_SINGLE, lt=_SINGLE)] | _NO_NUMBER,
    spark.DoubleType: float | _NO_NUMBER,
}
Turn = Callable[[Any], Any]
"""From a value as the envelope has it to one of the row, or back; it is never given null."""


class Values:
    """A struct of the row and the one that the envelope has in its place."""

    def __init__(self, kind: spark.StructType, *, wide: bool = False) -> None:
        self._row: Any = python_type(kind)
        self._turns = [(one.name, _read(one.dataType, wide=wide)) for one in kind.fields]
        self._writes = [(one.name, _write(one.dataType)) for one in kind.fields]
        self._is_same = not any(turn for _, turn in self._turns)
        fields = [_field(one, wide=wide) for one in kind.fields]
        self.wire: Any = self._row if self._is_same else msgspec.defstruct("Wire", fields, kw_only=True)

    def of(self, wire: Any) -> Any:
        """The row's struct."""
        if self._is_same:
            return wire
        row = {}
        try:
            for name, turn in self._turns:
                row[name] = _turned(turn, getattr(wire, name))
        except (ValueError, OverflowError) as error:
            raise ValueError(f"{name!r} is outside the years 1 to 9999, or infinity") from error
        return self._row(**row)

    def told(self, row: Any) -> dict[str, Any]:
        """The envelope's struct."""
        return {name: _turned(turn, getattr(row, name)) for name, turn in self._writes}


def is_wide(kind: spark.StructType) -> bool:
    """Whether it has columns whose values come in more than one form."""
    return any(type(_inner(one.dataType)) in _WIDE for one in kind.fields)


def arrays(kind: spark.StructType) -> tuple[str, ...]:
    """Its columns of arrays."""
    return tuple(one.name for one in kind.fields if isinstance(one.dataType, spark.ArrayType))


def check_columns(kind: spark.StructType, table: str) -> None:
    """SpecError for types that no column of a database arrives in."""
    for one in kind.fields:
        if isinstance(_inner(one.dataType), spark.StructType | spark.MapType | spark.ArrayType):
            raise SpecError(
                f"column {one.name!r} of table {table!r} cannot be {one.dataType.simpleString()}",
                hint="JSON arrives as text: declare it as string, and open it with F.from_json",
            )


def _inner(kind: spark.DataType) -> spark.DataType:
    return kind.elementType if isinstance(kind, spark.ArrayType) else kind


def _field(column: spark.StructField, *, wide: bool) -> tuple[str, Any] | tuple[str, Any, Any]:
    kind = _wire(column.dataType, wide=wide)
    return (column.name, kind | None, None) if column.nullable else (column.name, kind)


def _wire(kind: spark.DataType, *, wide: bool) -> Any:
    match kind:
        case spark.DateType() | spark.TimestampNTZType():
            return int
        case spark.ArrayType():
            return list[_wire(kind.elementType, wide=wide) | None]  # type: ignore[misc]
    return _WIDE.get(type(kind), python_type(kind)) if wide else python_type(kind)


def _read(kind: spark.DataType, *, wide: bool) -> Turn | None:
    match kind:
        case spark.DateType():
            return lambda days: date.fromordinal(_DAY_ZERO + days)
        case spark.TimestampNTZType():
            return lambda micros: _NAIVE_EPOCH + micros * MICROSECOND
        case spark.FloatType() | spark.DoubleType():
            return float if wide else None
        case spark.BooleanType():
            return bool if wide else None
        case spark.ArrayType():
            return _each(_read(kind.elementType, wide=wide))
    return None


def _write(kind: spark.DataType) -> Turn | None:
    match kind:
        case spark.DateType():
            return lambda day: day.toordinal() - _DAY_ZERO
        case spark.TimestampNTZType():
            return lambda moment: (moment - _NAIVE_EPOCH) // MICROSECOND
        case spark.ArrayType():
            return _each(_write(kind.elementType))
    return None


def _each(turn: Turn | None) -> Turn | None:
    if turn is None:
        return None
    return lambda values: [_turned(turn, one) for one in values]


def _turned(turn: Turn | None, value: Any) -> Any:
    return value if turn is None or value is None else turn(value)
