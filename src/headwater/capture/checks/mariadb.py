"""What a MariaDB lacks for capture: a binary log of whole rows, rights to read it, tables that can be read.

Nothing is changed by asking.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import pymysql
from pymysql.cursors import DictCursor

from headwater.capture.checks.findings import Finding, Group, warning
from headwater.capture.checks.mariadb_tables import of_others, of_table
from headwater.capture.configs import signals
from headwater.capture.database import Address

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

_ALL = "ALL PRIVILEGES"
_WRITES = {"CREATE", "DELETE", "DROP", "INSERT", "SELECT", "UPDATE"}

_GRANT = re.compile(r"GRANT (.+?) ON (\S+) TO ")


def check(address: Address, groups: Sequence[Group]) -> list[Finding]:
    """What this server lacks for these; only that it cannot be reached, when it cannot."""
    try:
        with _connected(address) as connection, connection.cursor() as cursor:
            return list(_findings(_Asked(cursor), address, groups))
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


def _findings(ask: _Asked, address: Address, groups: Sequence[Group]) -> Iterator[Finding]:
    server = ask(_SERVER)[0]
    yield from _of_log(server)
    tables = [table for group in groups for table in group.tables]
    yield from _of_rights(ask, server["role"], [one.name for one in tables], signals(address))
    for table in tables:
        yield from of_table(ask, table, server)
    yield from of_others(ask, {one.name for one in tables})


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


def _of_rights(ask: _Asked, role: str, tables: Sequence[str], signals: str) -> Iterator[Finding]:
    granted: dict[str, set[str]] = {}
    for row in ask("SHOW GRANTS"):
        if found := _GRANT.match(next(iter(row.values()))):
            granted.setdefault(found[2], set()).update(one.strip() for one in found[1].split(","))
    if _ALL in granted.get("*.*", ()):
        return
    user, _, host = role.rpartition("@")
    who = f"'{user}'@'{host}'"
    for right, names in _RIGHTS.items():
        if not granted.get("*.*", set()).intersection(names):
            yield Finding(f"user {role!r} has no right {right}", hint=f"GRANT {right} ON *.* TO {who};")
    for table in tables:
        if not {"SELECT", _ALL} & _granted_on(table, granted):
            yield Finding(
                f"user {role!r} may not read table {table!r}", hint=f"GRANT SELECT ON {table} TO {who};"
            )
    rights = _granted_on(signals, granted)
    if _ALL not in rights and not rights >= _WRITES:
        yield Finding(
            f"user {role!r} may not make and write {signals}, through which capture asks for rows",
            hint=f"GRANT {', '.join(sorted(_WRITES))} ON {signals} TO {who};",
        )


def _granted_on(table: str, granted: dict[str, set[str]]) -> set[str]:
    schema, name = table.split(".")
    places = ("*.*", f"`{schema}`.*", f"`{schema}`.`{name}`")
    return set().union(*(granted.get(one, set()) for one in places))
