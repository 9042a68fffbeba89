"""A MariaDB as a source: it does not know who reads its log, and throws the log away by age and by size.

So a connector's place is what the connector itself has written of it, held against the files that are there.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import dropwhile
from typing import Any

import pymysql
from pymysql.cursors import DictCursor

from headwater.capture.configs import signals
from headwater.capture.configs.mariadb import BEAT, quoted
from headwater.capture.database import Address, Database
from headwater.capture.sources.contract import PATIENCE_S, Place, Source, Told, unreachable

_LOCK = "SELECT GET_LOCK(%s, %s) AS it"
_MAKE = (
    "CREATE TABLE IF NOT EXISTS {} (id varchar(80) PRIMARY KEY, type varchar(32), data text)",
    "INSERT IGNORE INTO {} (id, type) VALUES ('heartbeat', 'heartbeat')",
)
_UNMAKE = "DROP TABLE IF EXISTS {}"
_SIGNAL = "INSERT IGNORE INTO {} (id, type, data) VALUES (%s, 'execute-snapshot', %s)"
_NOW = "SELECT UNIX_TIMESTAMP() AS it"
_FILES = "SHOW BINARY LOGS"
_LIMITS = (
    "SHOW GLOBAL VARIABLES WHERE variable_name IN ('max_binlog_total_size', 'binlog_expire_logs_seconds')"
)


class MariaDB(Source):
    """A captured MariaDB."""

    def __init__(self, database: Database, address: Address, connection: Any) -> None:
        super().__init__(database, address)
        self._connection = connection
        self._signals = quoted(signals(address))

    def lock(self, name: str) -> None:
        """Wait until no other app holds the lock of this name."""
        if not self._rows(_LOCK, name, PATIENCE_S)[0]["it"]:
            raise self._refused(f"another app has held the lock {name} for {PATIENCE_S} s", _LOCK)

    def make_signals(self) -> None:
        """Have the table of signals, in the database that the address names."""
        for statement in _MAKE:
            self._rows(statement.format(self._signals))

    def drop_signals(self) -> None:
        """Have it no more."""
        self._rows(_UNMAKE.format(self._signals))

    def signal(self, name: str, data: str) -> None:
        """Ask for a snapshot, once for each name."""
        self._rows(_SIGNAL.format(self._signals), name, data)

    def place(self, slot: str, told: Told) -> Place | None:  # noqa: ARG002 - there is none
        """Where the connector says it is, in the files that are there; None before it says anything."""
        offset = told()
        if "file" not in offset:
            return None
        files = {one["Log_name"]: int(one["File_size"]) for one in self._rows(_FILES)}
        limits = {one["Variable_name"]: int(one["Value"]) or None for one in self._rows(_LIMITS)}
        return placed(offset, files, limits, self._rows(_NOW)[0]["it"])

    def has_place(self, told: Told) -> bool:
        """Whether it has written one, which it does with the first change that it reads: so make one."""
        if "file" in told():
            return True
        self._rows(BEAT.format(self._signals))
        return False

    def forget(self, slot: str) -> bool:  # noqa: ARG002 - it keeps nothing for anybody
        """Nothing is kept for a connector that could be given up."""
        return True

    def _rows(self, sql: str, *values: object) -> list[dict[str, Any]]:
        try:
            with self._connection.cursor(DictCursor) as cursor:
                cursor.execute(sql, values)
                return list(cursor.fetchall())
        except pymysql.Error as error:
            raise self._refused(error.args[-1], sql) from error


@contextmanager
def opened(database: Database, address: Address) -> Iterator[Source]:
    """The database, for the block."""
    try:
        connection = pymysql.connect(
            host=address.host,
            port=address.port,
            database=address.name,
            user=address.user,
            password=address.password,
            autocommit=True,
            connect_timeout=10,
            program_name="headwater",
        )
    except pymysql.OperationalError as error:
        raise unreachable(database, address, error) from error
    with connection:
        yield MariaDB(database, address, connection)


def placed(
    offset: Mapping[str, Any], files: Mapping[str, int], limits: Mapping[str, int | None], now: int
) -> Place:
    """A place in these files, oldest first; purged where its file is not there, or ends before it."""
    file, at = offset["file"], int(offset["pos"])
    position = f"{file}:{at}"
    if at > files.get(file, 0):
        return Place(state="purged", position=position)
    kept = sum(files[one] for one in dropwhile(lambda name: name != file, files))
    return Place(
        state="kept",
        position=position,
        lag_bytes=kept - at,
        lag_s=now - offset["ts_sec"] if kept > at and "ts_sec" in offset else 0,
        retained_bytes=kept,
        limit_bytes=limits.get("max_binlog_total_size"),
        limit_s=limits.get("binlog_expire_logs_seconds"),
    )
