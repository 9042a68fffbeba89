"""What a MariaDB lacks for capture: a binary log of whole rows, rights to read it, tables that can be read.

The connector reads the definition of a table as the server writes it; a type that its parser does not know
stops it, whether or not that column is wanted.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import pymysql
from pymysql.cursors import DictCursor

from headwater.capture.checks.findings import Finding, Group, warning
from headwater.capture.checks.fits import FIXED, MARIADB, Column
from headwater.capture.checks.tables import column_findings
from headwater.capture.database import Address
from headwater.capture.table import Table

_PATIENCE_S = 10
_DAY_S = 86_400
_SERVER = (
    "SELECT @@log_bin AS log_bin, @@binlog_format AS binlog_format, @@binlog_row_image AS binlog_row_image, "
    "@@binlog_row_metadata AS binlog_row_metadata, @@binlog_expire_logs_seconds AS expires, "
    "@@sql_mode AS sql_mode, current_user() AS role"
)
_WANTED = {"binlog_format": "ROW", "binlog_row_image": "FULL", "binlog_row_metadata": "FULL"}
_WHY = {
    "binlog_format": "its log has statements, and not the rows that they changed",
    "binlog_row_image": "its log has only some columns of a changed row",
    "binlog_row_metadata": "its log does not name the columns of a row",
}
_RIGHTS = {
    "REPLICATION SLAVE": ("REPLICATION SLAVE", "REPLICATION REPLICA"),
    "BINLOG MONITOR": ("BINLOG MONITOR", "REPLICATION CLIENT"),
    "RELOAD": ("RELOAD",),
}
"""What capture's user must be allowed on all tables, and how MariaDB's versions call it."""

_READS = {"SELECT", "ALL PRIVILEGES"}

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
_UNREADABLE = ("uuid", "inet4", "inet6", "vector")
_MOMENTS = ("date", "datetime", "timestamp")
_GRANT = re.compile(r"GRANT (.+?) ON (\S+) TO ")


def check(address: Address, groups: Sequence[Group]) -> list[Finding]:
    """What this server lacks for these; only that it cannot be reached, when it cannot."""
    try:
        with _connected(address) as connection, connection.cursor() as cursor:
            return list(_findings(_Asked(cursor), groups))
    except pymysql.OperationalError as error:
        return [_unreachable(address, error)]


class _Asked:
    """A cursor whose answers are rows by name."""

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor

    def __call__(self, sql: str, *values: object) -> list[dict[str, Any]]:
        self._cursor.execute(sql, values)
        return list(self._cursor.fetchall())


def _connected(address: Address) -> Any:
    return pymysql.connect(
        host=address.host,
        port=address.port,
        database=address.name,
        user=address.user,
        password=address.password,
        connect_timeout=_PATIENCE_S,
        cursorclass=DictCursor,
    )


def _unreachable(address: Address, error: pymysql.OperationalError) -> Finding:
    hint = "does it run, and is its URL right?"
    if "Access denied" in str(error):
        hint = (
            f"ALTER USER {address.user} IDENTIFIED BY '…'; or put the right password into the database's URL"
        )
    return Finding(f"{address.shown} cannot be reached", detail=str(error.args[-1]), hint=hint)


def _findings(ask: _Asked, groups: Sequence[Group]) -> Iterator[Finding]:
    server = ask(_SERVER)[0]
    yield from _of_log(server)
    tables = [table for group in groups for table in group.tables]
    yield from _of_rights(ask, server["role"], tables)
    for table in tables:
        yield from _of_table(ask, table, server)


def _of_log(server: dict[str, Any]) -> Iterator[Finding]:
    if not server["log_bin"]:
        yield Finding(
            "log_bin is off, so there is no log of changes",
            hint="[mariadbd] log_bin = binlog, server_id = 1 -- in my.cnf, then restart MariaDB",
        )
    for name, wanted in _WANTED.items():
        if server[name].upper() != wanted:
            yield Finding(
                f"{name} is {server[name]}: {_WHY[name]}",
                detail="sessions that are open keep the old value",
                hint=f"SET GLOBAL {name} = {wanted}; -- and in my.cnf, so that it stays",
            )
    if 0 < server["expires"] < 3 * _DAY_S:
        yield warning(
            f"the log is removed after {server['expires'] // 3600} h: who is away for longer has lost "
            "its place",
            hint=f"SET GLOBAL binlog_expire_logs_seconds = {7 * _DAY_S}; -- and in my.cnf, so that it stays",
        )
    elif server["expires"] == 0:
        yield warning(
            "the log is never removed: the disk can fill",
            hint=f"SET GLOBAL binlog_expire_logs_seconds = {7 * _DAY_S}; -- and in my.cnf, so that it stays",
        )


def _of_rights(ask: _Asked, role: str, tables: Sequence[Table]) -> Iterator[Finding]:
    granted: dict[str, set[str]] = {}
    for row in ask("SHOW GRANTS"):
        if found := _GRANT.match(next(iter(row.values()))):
            granted.setdefault(found[2], set()).update(one.strip() for one in found[1].split(","))
    if "ALL PRIVILEGES" in granted.get("*.*", ()):
        return
    user, _, host = role.rpartition("@")
    who = f"'{user}'@'{host}'"
    for right, names in _RIGHTS.items():
        if not granted.get("*.*", set()).intersection(names):
            yield Finding(f"user {role!r} has no right {right}", hint=f"GRANT {right} ON *.* TO {who};")
    for table in tables:
        schema, name = table.name.split(".")
        places = ("*.*", f"`{schema}`.*", f"`{schema}`.`{name}`")
        if not any(_READS & granted.get(one, set()) for one in places):
            yield Finding(
                f"user {role!r} may not read table {table.name!r}",
                hint=f"GRANT SELECT ON {table.name} TO {who};",
            )


def _of_table(ask: _Asked, table: Table, server: dict[str, Any]) -> Iterator[Finding]:
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
            hint=f"ALTER TABLE {table.name} MODIFY {name} varchar(64);",
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
