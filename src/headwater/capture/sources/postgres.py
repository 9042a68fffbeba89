"""A PostgreSQL as a source: a connector's place is a slot, from which on the database keeps its WAL."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC
from typing import Any

import psycopg
from psycopg.rows import namedtuple_row

from headwater.capture.configs import signals
from headwater.capture.database import Address, Database
from headwater.capture.sources.contract import PATIENCE_S, Place, Source, Told, unreachable

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


class Postgres(Source):
    """A captured PostgreSQL."""

    def __init__(self, database: Database, address: Address, connection: Any) -> None:
        super().__init__(database, address)
        self._connection = connection

    def lock(self, name: str) -> None:
        """Wait until no other app holds the lock of this name."""
        self._rows(_LOCK, name)

    def make_signals(self) -> None:
        """Have the table of signals, in a schema of its own."""
        if self._rows(_LACKS, signals(self._address))[0].it:
            for statement in _MAKE:
                self._rows(statement)

    def drop_signals(self) -> None:
        """Have it no more."""
        self._rows(_UNMAKE)

    def signal(self, name: str, data: str) -> None:
        """Ask for a snapshot, once for each name."""
        self._rows(_SIGNAL, name, data, name)

    def place(self, slot: str, told: Told) -> Place | None:  # noqa: ARG002 - the slot knows it
        """How a replication slot is; None when there is none."""
        return next((_place(one) for one in self._rows(_SLOT, slot)), None)

    def unpublished(self, slot: str, tables: Iterable[str]) -> tuple[str, ...]:
        """The tables that are not in the publication of this name."""
        return tuple(one.name for one in self._rows(_UNPUBLISHED, list(tables), slot))

    def forget(self, slot: str) -> bool:
        """Drop a slot and the publication of its name; False while somebody still reads from it."""
        self._rows(_DROP_SLOT, slot)
        if self._rows(_SLOT, slot):
            return False
        self._rows(_DROP_PUBLICATION.format(slot))
        return True

    def _rows(self, sql: str, *values: object) -> list[Any]:
        try:
            with self._connection.cursor(row_factory=namedtuple_row) as cursor:
                cursor.execute(sql, values or None)
                return list(cursor.fetchall()) if cursor.description else []
        except psycopg.Error as error:
            raise self._refused(error, sql) from error


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
            options=f"-c lock_timeout={PATIENCE_S}s",
        )
    except psycopg.OperationalError as error:
        raise unreachable(database, address, error) from error
    with connection:
        yield Postgres(database, address, connection)


def _place(slot: Any) -> Place:
    is_well = slot.wal_status in ("reserved", "extended")
    return Place(
        state=("active" if slot.active else "idle") if is_well else slot.wal_status,
        position=slot.position,
        lag_bytes=slot.lag_bytes,
        lag_s=slot.lag_s,
        retained_bytes=slot.retained_bytes,
        limit_bytes=slot.limit_bytes,
        reading_since=slot.reading_since and slot.reading_since.astimezone(UTC).isoformat(),
    )
