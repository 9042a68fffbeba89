"""What the tests of capture share: a database of their own on the shared PostgreSQL, and its changes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import psycopg

from headwater import Database, Log, Settings, Table
from headwater.capture.connect import Connect
from headwater.clock import wait_until

SOON = timedelta(seconds=60)
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


def come(settings: Settings, table: Table, enough: Callable[[list[Any]], bool]) -> list[Any]:
    """The changes of a table, once they are enough."""
    found: list[Any] = []

    def looked() -> bool:
        found[:] = changes(settings, table)
        return enough(found)

    assert wait_until(looked, SOON, pause=0.1), found[-5:]
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
