"""What the tests of capture share: a database of their own on a shared server, and its changes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pymysql

from headwater import Database, Log, Settings, Table
from headwater.capture.connect import Connect
from headwater.clock import wait_until

SOON = timedelta(seconds=60)
AFTER_A_KILL = timedelta(seconds=120)
"""Connect may wait a minute, until Kafka gives up the transaction in which it was killed."""

SCHEMA = "id long NOT NULL, product string, amount decimal(10,2), placed_at timestamp"


@contextmanager
def own_database(postgres: str, name: str, settings: Settings) -> Iterator[Database]:
    """A database of its own on a server; what captures it is gone with the block."""
    with psycopg.connect(postgres, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}")
        database = Database(name, f"{postgres.rpartition('/')[0]}/{name}")
        try:
            yield database
        finally:
            for one in (name, f"{name}-outbox"):
                _removed(Connect.open(settings), f"headwater-{one}")
                assert wait_until(partial(_dropped, server, f"headwater_{one.replace('-', '_')}"), SOON)
            server.execute(f"DROP DATABASE {name} WITH (FORCE)")


class Sql:
    """A connection to a MariaDB that runs a statement at a time, and tells the last one's rows."""

    def __init__(self, url: str) -> None:
        at = urlsplit(url)
        said = {"user": at.username, "password": at.password, "database": at.path[1:]}
        self._connection = pymysql.connect(host=at.hostname, port=at.port, autocommit=True, **said)

    def __call__(self, *statements: str) -> tuple[Any, ...]:
        with self._connection.cursor() as cursor:
            for one in statements:
                cursor.execute(one)
            return tuple(cursor.fetchall())

    def close(self) -> None:
        self._connection.close()


@contextmanager
def own_mariadb(mariadb: str, name: str, settings: Settings) -> Iterator[Database]:
    """The same on a MariaDB; it may have died in the block and have come back."""
    _in_mariadb(mariadb, f"CREATE DATABASE {name}")
    try:
        yield Database(name, f"{mariadb.rpartition('/')[0]}/{name}")
    finally:
        _removed(Connect.open(settings), f"headwater-{name}")
        _in_mariadb(mariadb, f"DROP DATABASE {name}")


def _in_mariadb(url: str, statement: str) -> None:
    server = Sql(url)
    server(statement)
    server.close()


def _removed(connect: Connect, name: str) -> None:
    if name in connect.names():
        connect.stop(name)
        wait_until(lambda: not (state := connect.state(name)) or not state.tasks, SOON)
        connect.forget(name)
        connect.delete(name)


def _dropped(server: Any, slot: str) -> bool:
    server.execute(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots "
        "WHERE slot_name = %s AND NOT active",
        [slot],
    )
    found = server.execute("SELECT 1 FROM pg_replication_slots WHERE slot_name = %s", [slot])
    return found.fetchone() is None


def changes(settings: Settings, table: Table) -> list[Any]:
    """The changes of a table that are in the log; a tombstone is None."""
    return [record.value for record in Log.open(settings).read(table.changes)]


def come(
    settings: Settings, table: Table, enough: Callable[[list[Any]], bool], within: timedelta = SOON
) -> list[Any]:
    """The changes of a table, once they are enough."""
    found: list[Any] = []

    def looked() -> bool:
        found[:] = changes(settings, table)
        return enough(found)

    assert wait_until(looked, within, pause=0.1), found[-5:]
    return found


def rows_of(found: list[Any]) -> dict[int, Any]:
    """The table as its changes tell it, row by row."""
    rows: dict[int, Any] = {}
    for one in found:
        if one is not None and one.operation == "delete":
            rows.pop(one.key.id, None)
        elif one is not None:
            rows[one.key.id] = one.after
    return rows
