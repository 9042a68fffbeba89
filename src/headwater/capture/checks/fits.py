"""Fits: which Spark types hold which columns of a database, without loss.

The first type of each list is the one to declare. docs/reference/column-types.md shows them all, and its test
sends each through a real connector; what stands in neither list cannot be captured.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import types as spark

_TEXT = ("string",)
_NAMES = {"integer": "int"}
"""Where Spark's DDL calls a type by another name."""

POSTGRES: Mapping[str, tuple[str, ...]] = {
    "int2": ("short", "integer", "long"),
    "int4": ("integer", "long"),
    "int8": ("long",),
    "oid": ("long",),
    "numeric": ("decimal", "string"),
    "money": ("decimal", "string"),
    "float4": ("float", "double"),
    "float8": ("double",),
    "bool": ("boolean",),
    "bit": ("binary",),
    "varbit": ("binary",),
    "bytea": ("binary",),
    "date": ("date",),
    "timestamp": ("timestamp_ntz",),
    "timestamptz": ("timestamp", "string"),
    "time": ("long",),
    **dict.fromkeys(("text", "varchar", "bpchar", "char", "uuid", "enum"), _TEXT),
    **dict.fromkeys(("json", "jsonb", "xml", "tsvector", "interval", "timetz"), _TEXT),
    **dict.fromkeys(("inet", "cidr", "macaddr", "macaddr8", "int4range", "int8range", "numrange"), _TEXT),
    **dict.fromkeys(("tsrange", "tstzrange", "daterange"), _TEXT),
}
IN_ARRAYS = (
    *(
        "int2",
        "int4",
        "int8",
        "numeric",
        "float4",
        "float8",
        "bool",
        "bytea",
        "date",
        "timestamp",
        "timestamptz",
    ),
    *("time", "text", "varchar", "bpchar", "uuid", "enum", "json", "jsonb", "inet"),
)
"""Of these, PostgreSQL's arrays arrive, too."""

MARIADB: Mapping[str, tuple[str, ...]] = {
    "tinyint": ("byte", "short", "integer", "long"),
    "tinyint unsigned": ("short", "integer", "long"),
    "smallint": ("short", "integer", "long"),
    "smallint unsigned": ("integer", "long"),
    "mediumint": ("integer", "long"),
    "mediumint unsigned": ("integer", "long"),
    "int": ("integer", "long"),
    "int unsigned": ("long",),
    "bigint": ("long",),
    "bigint unsigned": ("decimal",),
    "year": ("integer", "short", "long"),
    "decimal": ("decimal", "string"),
    "float": ("float", "double"),
    "double": ("double",),
    "bit": ("binary",),
    "date": ("date",),
    "datetime": ("timestamp_ntz",),
    "timestamp": ("timestamp",),
    "time": ("long",),
    **dict.fromkeys(("char", "varchar", "tinytext", "text", "mediumtext", "longtext"), _TEXT),
    **dict.fromkeys(("enum", "set", "uuid"), _TEXT),
    **dict.fromkeys(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"), ("binary",)),
}
FIXED = {"bigint unsigned": (20, 0), "money": (19, 2)}
"""The digits of what is read as a decimal and is not declared as one."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column as a database has it: `kind` as people write it, `base` as the lists above do."""

    name: str
    kind: str
    base: str
    types: tuple[str, ...]
    nullable: bool = True
    is_array: bool = False
    digits: tuple[int, int] | None = field(default=None)
    """The precision and scale of a decimal."""


def misfit(column: Column, declared: spark.DataType) -> str:
    """Why a declared type cannot hold the column's values, or an empty text."""
    if not column.types:
        return "no connector writes its values so that they can be read back"
    if isinstance(declared, spark.ArrayType) == column.is_array and _holds(_inner(declared), column):
        return ""
    return f"declare it as {offered(column)}"


def may_overflow(column: Column, declared: spark.DataType) -> bool:
    """Whether a decimal is declared for a column whose digits nothing bounds."""
    return isinstance(_inner(declared), spark.DecimalType) and column.digits is None


def offered(column: Column) -> str:
    """The types that hold the column, as a schema has them."""
    words = [word for one in column.types if (word := _word(one, column.digits))]
    return " or ".join(f"array<{one}>" if column.is_array else one for one in words)


def _word(kind: str, digits: tuple[int, int] | None) -> str:
    if kind != "decimal":
        return _NAMES.get(kind, kind)
    precision, scale = digits or (38, 18)
    return f"decimal({precision},{scale})" if 0 <= scale <= precision <= 38 else ""


def _holds(declared: spark.DataType, column: Column) -> bool:
    if declared.typeName() not in column.types:
        return False
    if not isinstance(declared, spark.DecimalType) or column.digits is None:
        return True
    precision, scale = column.digits
    whole = declared.precision - declared.scale
    return 0 <= scale <= declared.scale and precision - scale <= whole


def _inner(declared: spark.DataType) -> spark.DataType:
    return declared.elementType if isinstance(declared, spark.ArrayType) else declared
