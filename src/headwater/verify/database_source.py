"""The database as a source: a captured table, read in the database itself.

It tells only the present state of a row, so what differs is asked again until the patience is over.
Values are brought into the form in which capture tells them, wherever the database's own is another one.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import time, timedelta
from decimal import Decimal
from itertools import islice
from typing import Any

from pyspark.sql import types as spark

from headwater.capture.database import Address, Database
from headwater.capture.table import Table
from headwater.clock import Deadline
from headwater.errors import DatabaseRefused, DatabaseUnreachable
from headwater.settings import Settings
from headwater.verify import mariadb_columns, postgres_columns
from headwater.verify.canonical import Digest, Row, digest_of
from headwater.verify.postgres_columns import TEXTS
from headwater.verify.sides import Key, OnProgress

_AT_ONCE = 500
_FETCHED = 5_000
_SELECT = "SELECT {columns} FROM {table}"
_MICROSECOND = timedelta(microseconds=1)


class DatabaseSource:
    """A captured table in its database."""

    is_exact = False

    def __init__(self, table: Table, settings: Settings) -> None:
        self._table, self._address = table, table.database.address(settings)
        with self._opened() as connection:
            columns = postgres_columns if self._is_postgres else mariadb_columns
            self._select = Select.of(
                table, columns.forms(connection, table), '"' if self._is_postgres else "`"
            )
        self._digest = digest_of(table.columns)

    def digests(self, progress: OnProgress) -> dict[Key, Digest]:
        """The digest of every row of the table, as of one moment."""
        found: dict[Key, Digest] = {}
        with self._opened() as connection:
            for row in self._select.all(connection):
                found[self._key(row)] = self._digest(row)
                if len(found) % _FETCHED == 0:
                    progress("the table", len(found))
        progress("the table", len(found))
        return found

    def await_copy(self, deadline: Deadline) -> int:  # noqa: ARG002 - nobody knows
        """No time to wait: how far a copy is stands in the log only."""
        return 0

    def newer(self, keys: Collection[Key]) -> Iterator[tuple[Key, Digest | None]]:
        """The present states of these keys."""
        found = self.rows(keys)
        for key in keys:
            yield key, self._digest(found[key]) if key in found else None

    def rows(self, keys: Collection[Key]) -> Mapping[Key, Row]:
        """The rows of these keys as they are now."""
        with self._opened() as connection:
            return {self._key(row): row for row in self._select.some(connection, keys)}

    @property
    def _is_postgres(self) -> bool:
        return self._address.kind == "postgres"

    def _key(self, row: Row) -> Key:
        return tuple(row[one] for one in self._table.keys)

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        opened = _postgres if self._is_postgres else _mariadb
        with opened(self._table.database, self._address) as connection:
            yield connection


@dataclass(frozen=True)
class Select:
    """The questions about a table, in the SQL of its database."""

    sql: str
    where: str
    one: str
    names: tuple[str, ...]
    turns: tuple[Callable[[Any], Any], ...]

    @classmethod
    def of(cls, table: Table, forms: Mapping[str, str], mark: str) -> "Select":
        """Those about this table; `forms` tell how some columns are asked for, `mark` quotes names."""
        columns = [forms.get(one, f"{mark}{one}{mark}") for one in table.columns.names]
        name = ".".join(f"{mark}{one}{mark}" for one in table.name.split("."))
        keys = ", ".join(f"{mark}{one}{mark}" for one in table.keys)
        return cls(
            _SELECT.format(columns=", ".join(columns), table=name),
            f"({keys})",
            f"({', '.join(['%s'] * len(table.keys))})",
            tuple(table.columns.names),
            tuple(_turn(one.dataType) for one in table.columns.fields),
        )

    def all(self, connection: Any) -> Iterator[Row]:
        """Every row."""
        with _streaming(connection) as cursor:
            cursor.execute(self.sql)
            while some := cursor.fetchmany(_FETCHED):
                yield from map(self._row, some)

    def some(self, connection: Any, keys: Collection[Key]) -> Iterator[Row]:
        """The rows of these keys."""
        wanted = iter(keys)
        while part := list(islice(wanted, _AT_ONCE)):
            sql = f"{self.sql} WHERE {self.where} IN ({', '.join([self.one] * len(part))})"
            with connection.cursor() as cursor:
                cursor.execute(sql, [value for key in part for value in key])
                yield from map(self._row, cursor.fetchall())

    def _row(self, values: Any) -> Row:
        return {
            name: None if value is None else turn(value)
            for name, turn, value in zip(self.names, self.turns, values, strict=True)
        }


def _turn(kind: spark.DataType) -> Callable[[Any], Any]:
    """From what a client makes of a value to what capture makes of it."""
    match kind:
        case spark.IntegralType():
            return _whole
        case spark.ArrayType():
            inside = _turn(kind.elementType)
            return lambda found: [None if one is None else inside(one) for one in found]
        case spark.BinaryType():
            return _bytes
        case spark.DecimalType():
            return Decimal  # MariaDB's whole numbers up to 2^64 come as int
    return lambda value: value


def _bytes(value: Any) -> bytes:
    """A row of bits is told as bytes, the lowest first."""
    if isinstance(value, str):
        return int(value, 2).to_bytes(-(-len(value) // 8), "little")
    return bytes(value)


def _whole(value: Any) -> int:
    """A time of day is told in microseconds."""
    if isinstance(value, time):
        value = timedelta(hours=value.hour, minutes=value.minute, seconds=value.second) + timedelta(
            microseconds=value.microsecond
        )
    return value // _MICROSECOND if isinstance(value, timedelta) else int(value)


@contextmanager
def _postgres(database: Database, address: Address) -> Iterator[Any]:
    import psycopg  # noqa: PLC0415 - only who asks a database loads its client
    from psycopg.types.string import TextLoader  # noqa: PLC0415

    try:
        connection = psycopg.connect(
            **_place(address), dbname=address.name, connect_timeout=10, options="-c timezone=UTC"
        )
        for one in TEXTS:
            connection.adapters.register_loader(one, TextLoader)
        with connection:
            yield connection
    except psycopg.OperationalError as error:
        raise _unreachable(database, address, error) from error
    except psycopg.Error as error:
        raise _refused(database, error) from error


@contextmanager
def _mariadb(database: Database, address: Address) -> Iterator[Any]:
    import pymysql  # noqa: PLC0415

    try:
        zone = "SET time_zone = '+00:00'"
        connection = pymysql.connect(
            **_place(address), database=address.name, connect_timeout=10, init_command=zone
        )
        with connection:
            yield connection
    except pymysql.OperationalError as error:
        raise _unreachable(database, address, error) from error
    except pymysql.Error as error:
        raise _refused(database, error) from error


@contextmanager
def _streaming(connection: Any) -> Iterator[Any]:
    """A cursor that does not fetch a whole table at once."""
    if hasattr(connection, "adapters"):
        cursor = connection.cursor(name="headwater_verify")
    else:
        from pymysql.cursors import SSCursor  # noqa: PLC0415

        cursor = connection.cursor(SSCursor)
    with cursor:
        yield cursor


def _place(address: Address) -> dict[str, Any]:
    return {"host": address.host, "port": address.port, "user": address.user, "password": address.password}


def _unreachable(database: Database, address: Address, error: Exception) -> DatabaseUnreachable:
    return DatabaseUnreachable(
        f"database {database.name!r} does not let us in",
        detail=f"{address.shown}: {str(error).strip()}",
        hint=f"does it run, and is HEADWATER_DATABASE_{database.name.upper()} right?",
    )


def _refused(database: Database, error: Exception) -> DatabaseRefused:
    return DatabaseRefused(
        f"database {database.name!r} cannot be compared",
        detail=str(error).strip(),
        hint="is the table as its Table says, and may its user read it?",
    )
