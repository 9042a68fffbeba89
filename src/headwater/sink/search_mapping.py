"""The mapping of an index, from the columns of the rows: strict, and no type tells more than it keeps.

A document's source holds every value exactly, and is what is read back; the mapping says how it is found.
Dates are found by the millisecond and decimals as doubles, because servers have nothing finer: a decimal
of more than fifteen digits has its text beside it, in `.exact`.
"""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import types as spark

from headwater.errors import ColumnsMismatch

Mapped = dict[str, Any]
_DOUBLE_KEEPS = 15
"""Digits of a decimal that a double tells apart."""

_LONGEST_TERM = 8191
"""Characters of a term: Lucene takes 32,766 bytes, and a character has up to four."""

_SIMPLE: dict[type[spark.DataType], Mapped] = {
    spark.StringType: {
        "type": "text",
        "fields": {"keyword": {"type": "keyword", "ignore_above": _LONGEST_TERM}},
    },
    spark.BooleanType: {"type": "boolean"},
    spark.ByteType: {"type": "byte"},
    spark.ShortType: {"type": "short"},
    spark.IntegerType: {"type": "integer"},
    spark.LongType: {"type": "long"},
    spark.FloatType: {"type": "float", "ignore_malformed": True},  # NaN and the infinite stand in the source
    spark.DoubleType: {"type": "double", "ignore_malformed": True},
    spark.DateType: {"type": "date", "format": "strict_date"},
    spark.TimestampType: {"type": "date", "format": "strict_date_optional_time"},
    spark.TimestampNTZType: {"type": "date", "format": "strict_date_optional_time"},
    spark.DayTimeIntervalType: {"type": "keyword"},
    spark.BinaryType: {"type": "binary"},
}


def mapping(columns: spark.StructType, own: Mapping[str, Any]) -> Mapped:
    """The mapping of rows with these columns; `own` has what the user wants of some of them."""
    for name in own:
        if name not in columns.names:
            raise ColumnsMismatch(
                f"the mapping has a field {name!r}, which is no column",
                detail=f"rows: {columns.simpleString()}",
            )
    return {"dynamic": "strict", "properties": _properties(columns, own)}


def _properties(columns: spark.StructType, own: Mapping[str, Any]) -> Mapped:
    return {one.name: own.get(one.name) or _field(one.dataType, one.name) for one in columns.fields}


def _field(kind: spark.DataType, path: str) -> Mapped:
    match kind:
        case spark.DecimalType():
            exact = {} if kind.precision <= _DOUBLE_KEEPS else {"fields": {"exact": {"type": "keyword"}}}
            return {"type": "double", **exact}
        case spark.ArrayType():
            return _field(kind.elementType, path)  # every field may have several values
        case spark.StructType():
            return {"properties": {one.name: _field(one.dataType, f"{path}.{one.name}") for one in kind}}
        case spark.MapType():
            return {"type": "object", "enabled": False}  # a key is data, and no field of its own
    if type(kind) not in _SIMPLE:
        raise ColumnsMismatch(f"column {path!r} is {kind.simpleString()}, which no search index has")
    return _SIMPLE[type(kind)]
