"""Source: what is asked of a captured database itself, beside the connector that reads its log.

One app at a time changes what is captured: it holds a lock in the database, which ends with its session. A
snapshot is asked for by a row in a table of signals, which the connector reads in the order of the log.
"""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from typing import Any

import psycopg
from psycopg.rows import namedtuple_row

from headwater.capture.claims import FIRST, Claims
from headwater.capture.configs import SIGNALS
from headwater.capture.database import Address, Database
from headwater.errors import DatabaseRefused, DatabaseUnreachable

_PATIENCE_S = 120
_LOCK = "SELECT pg_advisory_lock(hashtext(%s))"
_LACKS = "SELECT to_regclass(%s) IS NULL AS it"
_MAKE = (
    "CREATE SCHEMA IF NOT EXISTS headwater_capture",
    "CREATE TABLE IF NOT EXISTS headwater_capture.signals (id text PRIMARY KEY, type text, data text)",
)
_UNMAKE = "DROP SCHEMA IF EXISTS headwater_capture CASCADE"
_SIGNAL = (
    "INSERT INTO headwater_capture.signals (id, type, data) SELECT %s, 'execute-snapshot', %s "
    "WHERE NOT EXISTS (SELECT 1 FROM headwater_capture.signals WHERE id = %s)"
)
_SLOT = """
SELECT s.active, s.wal_status, s.confirmed_flush_lsn::text AS position, r.backend_start AS reading_since,
       pg_wal_lsn_diff(pg_current_wal_lsn(), s.confirmed_flush_lsn)::bigint AS lag_bytes,
       extract(epoch FROM CASE WHEN s.active THEN coalesce(r.flush_lag, '0')
               ELSE now() - (to_jsonb(s) ->> 'inactive_since')::timestamptz END)::float AS lag_s,
       pg_wal_lsn_diff(pg_current_wal_lsn(), s.restart_lsn)::bigint AS retained_bytes,
       (SELECT nullif(setting::bigint, -1) * 1024 * 1024 FROM pg_settings
        WHERE name = 'max_slot_wal_keep_size') AS limit_bytes
FROM pg_replication_slots s LEFT JOIN pg_stat_replication r ON r.pid = s.active_pid WHERE s.slot_name = %s
"""
_UNPUBLISHED = """
SELECT name FROM unnest(%s::text[]) AS name
EXCEPT SELECT schemaname || '.' || tablename FROM pg_publication_tables WHERE pubname = %s ORDER BY 1
"""
_DROP_SLOT = (
    "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s AND NOT active"
)
_DROP_PUBLICATION = "DROP PUBLICATION IF EXISTS {}"


class Source:
    """A captured PostgreSQL; each word to it stands for itself."""

    def __init__(self, database: Database, address: Address, connection: Any) -> None:
        self._database, self._address, self._connection = database, address, connection

    def make_signals(self) -> None:
        """Have the table of signals; a connector sees only what is there when it starts."""
        if self.rows(_LACKS, SIGNALS["postgres"])[0].it:
            for statement in _MAKE:
                self.rows(statement)

    def drop_signals(self) -> None:
        """Have it no more."""
        self.rows(_UNMAKE)

    def ask_for_snapshots(self, claims: Claims) -> None:
        """Signal for the rows of every table, unless that was done."""
        late = sorted((one.since, name) for name, one in claims.items() if one.since != FIRST)
        for since, tables in groupby(late, key=lambda one: one[0]):
            self.ask_for_snapshot(since, [name for _, name in tables])

    def ask_for_snapshot(self, name: str, tables: list[str]) -> None:
        """Signal for a snapshot of these tables, once for each name."""
        patterns = [one.replace(".", r"\.") for one in tables]
        self.rows(_SIGNAL, name, json.dumps({"data-collections": patterns, "type": "INCREMENTAL"}), name)

    def slot(self, name: str) -> Any | None:
        """How a replication slot is; None when there is none."""
        return next(iter(self.rows(_SLOT, name)), None)

    def unpublished(self, name: str, tables: Iterable[str]) -> tuple[str, ...]:
        """The tables that are not in the publication of this name: nobody is told their changes."""
        return tuple(one.name for one in self.rows(_UNPUBLISHED, list(tables), name))

    def drop_slot(self, name: str) -> bool:
        """Drop a slot and the publication of its name; False while somebody still reads from it."""
        self.rows(_DROP_SLOT, name)
        if self.slot(name) is not None:
            return False
        self.rows(_DROP_PUBLICATION.format(name))
        return True

    def rows(self, sql: str, *values: object) -> list[Any]:
        """What the database answers."""
        try:
            with self._connection.cursor(row_factory=namedtuple_row) as cursor:
                cursor.execute(sql, values or None)
                return list(cursor.fetchall()) if cursor.description else []
        except psycopg.Error as error:
            raise DatabaseRefused(
                f"database {self._database.name!r} refuses what capture needs",
                detail=f"{str(error).strip()}\nin: {sql}",
                hint=f"let its user {self._address.user!r} do that",
            ) from error


@contextmanager
def opened(database: Database, address: Address) -> Iterator[Source]:
    """The database, for the block."""
    try:
        connection = psycopg.connect(
            host=address.host,
            port=address.port,
            dbname=address.name,
            user=address.user,
            password=address.password,
            autocommit=True,
            connect_timeout=10,
            application_name="headwater",
            options=f"-c lock_timeout={_PATIENCE_S}s",
        )
    except psycopg.OperationalError as error:
        raise DatabaseUnreachable(
            f"database {database.name!r} does not let us in",
            detail=f"{address.shown}: {str(error).strip()}",
            hint=f"does it run, and is HEADWATER_DATABASE_{database.name.upper()} right?",
        ) from error
    with connection:
        yield Source(database, address, connection)


@contextmanager
def alone(database: Database, address: Address) -> Iterator[Source]:
    """The database, for the block, in which no other app changes what is captured."""
    with opened(database, address) as source:
        source.rows(_LOCK, f"headwater.{database.name}")
        yield source
