"""Columns of a PostgreSQL, asked for in the form in which capture tells them.

Debezium tells a time of day in microseconds, money as a decimal, an interval in ISO 8601;
docs/reference/column-types.md has them all. Dates that Python's calendar lacks are asked for as null:
capture has them as dead letters.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from pyspark.sql import types as spark

from headwater.capture.table import Table

TEXTS = (
    *("json", "jsonb", "uuid", "inet", "cidr"),
    *("int4range", "int8range", "numrange", "daterange", "tsrange", "tstzrange"),
)
"""Types of which psycopg would make something else than their text."""

_KINDS = """
SELECT a.attname, COALESCE(b.typname, t.typname), COALESCE(e.typtype, t.typtype)
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_type b ON t.typtype = 'd' AND b.oid = t.typbasetype
LEFT JOIN pg_type e ON t.typcategory = 'A' AND e.oid = t.typelem
WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped
"""
_MICROSECONDS = "(extract(epoch FROM {}) * 1000000)::bigint"
_EACH = "ARRAY(SELECT {} FROM unnest({{0}}) WITH ORDINALITY AS each(x, place) ORDER BY place)"
_PARTS = (("P", "year"), ("Y", "month"), ("M", "day"), ("DT", "hour"), ("H", "minute"))
_WHOLE = "".join(f"'{mark}' || extract({part} FROM {{0}}) || " for mark, part in _PARTS)
_IN_CALENDAR = "CASE WHEN {0} >= '0001-01-01' AND {0} < '10000-01-01' THEN {0} END"
_FORMS = {
    "money": "{}::numeric",
    "time": _MICROSECONDS,
    "_time": f"CASE WHEN {{0}} IS NOT NULL THEN {_EACH.format(_MICROSECONDS.format('x'))} END",
    "timetz": "({} AT TIME ZONE 'UTC')::time::text || 'Z'",
    "interval": f"{_WHOLE}'M' || trim_scale(extract(second FROM {{0}})) || 'S'",
    "date": _IN_CALENDAR,
    "timestamp": _IN_CALENDAR,
    "timestamptz": _IN_CALENDAR,
}
_AS_STRING = {
    **dict.fromkeys(("date", "timestamp", "timestamptz"), "{}::text"),
    "numeric": "replace({}::text, 'NaN', 'NAN')",
}


class Kind(NamedTuple):
    """A column's type, and whether it is an enumeration or an array of one."""

    name: str
    is_enum: bool


def forms(connection: Any, table: Table) -> dict[str, str]:
    """The expression for each column of the table that is there."""
    kinds = _kinds(connection, table)
    return {
        one.name: _form(kinds[one.name], one.dataType).format(f'"{one.name}"')
        for one in table.columns.fields
        if one.name in kinds
    }


def _kinds(connection: Any, table: Table) -> Mapping[str, Kind]:
    name = ".".join(f'"{one}"' for one in table.name.split("."))
    found = connection.execute(_KINDS, [name]).fetchall()
    return {column: Kind(kind, category == "e") for column, kind, category in found}


def _form(kind: Kind, declared: spark.DataType) -> str:
    if kind.is_enum:
        return "{}::text[]" if kind.name.startswith("_") else "{}::text"
    if isinstance(declared, spark.StringType) and kind.name in _AS_STRING:
        return _AS_STRING[kind.name]
    if isinstance(declared, spark.BooleanType) and kind.name == "bit":
        return "{} = B'1'"
    return _FORMS.get(kind.name, "{}")
