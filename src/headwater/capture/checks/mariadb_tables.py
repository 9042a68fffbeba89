"""What a table of MariaDB lacks for capture: a key, columns as they are declared, types that can be read.

The connector reads how every table of the server is made and changed, in the words of whoever does that; one
that its parser does not know stops it, whether or not that table is captured.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from headwater.capture.checks.findings import Finding, warning
from headwater.capture.checks.fits import FIXED, MARIADB, Column
from headwater.capture.checks.tables import column_findings
from headwater.capture.table import Table

Ask = Callable[..., list[dict[str, Any]]]
"""A question in SQL, and its values; the rows by name."""

_TABLE = (
    "SELECT table_type AS kind FROM information_schema.tables WHERE table_schema = %s AND table_name = %s"
)
_COLUMNS = (
    "SELECT column_name AS name, data_type AS base, column_type AS kind, is_nullable = 'YES' AS nullable, "
    "numeric_precision AS whole, numeric_scale AS scale "
    "FROM information_schema.columns WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position"
)
_KEYS = (
    "SELECT group_concat(column_name ORDER BY seq_in_index) AS columns FROM information_schema.statistics "
    "WHERE table_schema = %s AND table_name = %s AND non_unique = 0 GROUP BY index_name "
    "HAVING sum(nullable = 'YES') = 0 ORDER BY index_name = 'PRIMARY' DESC"
)
_UNREADABLE = ("inet4", "inet6", "vector")
_ELSEWHERE = (
    "SELECT concat(table_schema, '.', table_name) AS place, column_name AS name, column_type AS kind "
    "FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name) "
    "WHERE table_type = 'BASE TABLE' AND data_type IN %s ORDER BY 1, ordinal_position"
)
_LET_IT = '"schema.history.internal.skip.unparseable.ddl" = "true" under [connect_options], for good'
_MOMENTS = ("date", "datetime", "timestamp")


def of_table(ask: Ask, table: Table, server: dict[str, Any]) -> Iterator[Finding]:
    """What a table lacks."""
    place = table.name.split(".")
    found = ask(_TABLE, *place)
    if not found:
        yield Finding(
            f"table {table.name!r} does not exist, or this user may not see it",
            hint=f"look at its name; or GRANT SELECT ON {table.name} TO …;",
        )
        return
    if found[0]["kind"] != "BASE TABLE":
        yield Finding(
            f"{table.name!r} is a {found[0]['kind'].lower()}, which has no changes of its own",
            hint="capture the tables that it is made of",
        )
    columns = {row["name"]: row for row in ask(_COLUMNS, *place)}
    yield from _of_columns(table, columns, server)
    yield from _of_key(table, [row["columns"] for row in ask(_KEYS, *place)])


def _of_columns(table: Table, columns: dict[str, Any], server: dict[str, Any]) -> Iterator[Finding]:
    for name in [one for one, row in columns.items() if row["base"] in _UNREADABLE]:
        yield Finding(
            f"column {name!r} of table {table.name!r} is {columns[name]['kind']}, which Debezium cannot "
            "read: it stops at the table, whatever columns are wanted",
            hint=_modify(table.name, name),
        )
    for declared in table.columns.fields:
        row = columns.get(declared.name)
        if row is None:
            yield Finding(
                f"table {table.name!r} has no column {declared.name!r}",
                hint=f"its columns: {', '.join(columns)}",
            )
        elif row["base"] not in _UNREADABLE:
            yield from column_findings(table.name, declared, _column(row))
    moments = [one.name for one in table.columns.fields if columns.get(one.name, {}).get("base") in _MOMENTS]
    if moments and "NO_ZERO_DATE" not in server["sql_mode"]:
        yield warning(
            f"{', '.join(moments)} of table {table.name!r} may be 0000-00-00, which arrives as null (as 1970 "
            "where the column is NOT NULL)",
            hint="SET GLOBAL sql_mode = concat(@@sql_mode, ',NO_ZERO_DATE'); -- and in my.cnf",
        )


def of_others(ask: Ask, captured: Collection[str]) -> Iterator[Finding]:
    """The tables that nobody captures, and that stop capture all the same."""
    for row in ask(_ELSEWHERE, _UNREADABLE):
        if row["place"] not in captured:
            yield warning(
                f"column {row['name']!r} of table {row['place']!r} is {row['kind']}, which Debezium cannot "
                "read: it reads how every table is made, and stops at this one, although nobody captures it",
                hint=f"{_modify(row['place'], row['name'])}\n{_LET_IT}",
            )


def _modify(table: str, column: str) -> str:
    return f"ALTER TABLE {table} MODIFY {column} varchar(64);"


def _column(row: dict[str, Any]) -> Column:
    base, kind = row["base"], row["kind"]
    known = f"{base} unsigned" if "unsigned" in kind and f"{base} unsigned" in MARIADB else base
    types = MARIADB.get(known, ())
    if kind == "tinyint(1)":
        types = ("boolean", *types)
    if kind == "bit(1)":
        types = ("boolean",)
    digits = (int(row["whole"]), int(row["scale"])) if base == "decimal" else FIXED.get(known)
    return Column(
        name=row["name"], kind=kind, base=known, types=types, nullable=bool(row["nullable"]), digits=digits
    )


def _of_key(table: Table, keys: Sequence[str]) -> Iterator[Finding]:
    if not keys:
        yield Finding(
            f"table {table.name!r} has no key",
            detail="without one, an update cannot be told from another row, and no copy can be kept",
            hint=f"ALTER TABLE {table.name} ADD PRIMARY KEY ({', '.join(table.keys)});",
        )
    elif sorted(table.keys) not in [sorted(one.split(",")) for one in keys]:
        yield Finding(
            f"key {', '.join(table.keys)} of table {table.name!r} is not unique in the database",
            hint=f"its keys: {'; '.join(keys)}",
        )
