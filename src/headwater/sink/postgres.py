"""PostgresSink: a copy in a table of PostgreSQL, kept by upserts and deletes.

The table is made from the rows' types when it is not there, and checked when it is. Each slice of a batch is
one transaction (see `postgres_store`), so readers never see half of one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from headwater.capture.database import Address, Database
from headwater.clock import Deadline
from headwater.embedded.server import recorded
from headwater.errors import SinkUnreachable, SpecError
from headwater.log.formats.changes import POSITION
from headwater.settings import Settings
from headwater.sink.by_key import tried, write_by_key
from headwater.sink.contract import Batch, Guarantee
from headwater.sink.keyed import Keyed, Keys, Row
from headwater.sink.postgres_beside import BesideTable, PostgresBeside
from headwater.sink.postgres_edge import connected, translated
from headwater.sink.postgres_marks import Marks
from headwater.sink.postgres_reading import rows_of
from headwater.sink.postgres_store import PostgresStore
from headwater.sink.postgres_table import NAME, CopyTable

REMEMBERED = timedelta(days=7)
"""For how long a copy knows that a key was deleted, and when."""

_ONE_AT_A_TIME = "SELECT pg_advisory_xact_lock(hashtextextended('headwater', 0))"
"""Two that make the same table at once would not see each other."""

_PREPARED: dict[tuple[Address, CopyTable], Deadline] = {}


@dataclass(frozen=True)
class PostgresSink:
    """A copy in a table of a PostgreSQL, `schema.table`.

    `version` names the column that tells which row of a key is newer, for rows that are not a table's
    changes.
    """

    name: str
    database: Database = field(kw_only=True)
    key: str | Sequence[str] = field(kw_only=True)
    version: str = field(default=POSITION, kw_only=True)

    guarantee: Final[Guarantee] = field(default="exactly-once", init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.key, str):
            object.__setattr__(self, "key", tuple(self.key))
        _ = self.keyed
        if not NAME.fullmatch(self.name):
            raise SpecError(
                f"{self.name!r} cannot be the table of a copy",
                hint='name it with its schema, as in "public.orders"; its own name has at most 40 letters',
            )

    @property
    def keyed(self) -> Keyed:
        """How its rows are told apart."""
        return Keyed.of(self.key, self.version, self.name)

    def check(self, columns: StructType) -> None:
        """Refuse rows that cannot be kept by key."""
        self.keyed.check(columns, self.name)

    def write(self, rows: DataFrame, batch: Batch) -> None:
        """Write one batch; what is not newer than the copy changes nothing."""
        address = self._address(batch.settings)
        table = self._table(self.keyed.columns(rows.schema))
        marks = Marks.of_batch(table.name, rows, batch)
        identity = tried(lambda: _prepare(address, table, marks))
        try:
            store = PostgresStore(address=address, table=table, identity=identity, marks=marks)
            write_by_key(rows, self.keyed, self.name, store)
        except Exception:
            _PREPARED.pop((address, table), None)  # the table may not be as it was
            raise

    def read(self, columns: StructType, settings: Settings, keys: Keys | None = None) -> Iterator[Row]:
        """The rows of the copy, or of some keys."""
        table = CopyTable(self.name, columns, self.keyed.keys)
        return rows_of(connected(self._address(settings)), table, keys)

    def beside(self, settings: Settings) -> PostgresBeside:
        """The copy that a rebuild makes: another table, which then gets this one's name."""
        sink = _Building(self.name, database=self.database, key=self.key, version=self.version)
        return PostgresBeside(self._address(settings), self.name, sink)

    def _table(self, columns: StructType) -> CopyTable:
        return CopyTable(self.name, columns, self.keyed.keys)

    def _address(self, settings: Settings) -> Address:
        try:
            found = self.database.address(settings)
        except SpecError as error:
            if recorded("postgres", settings):  # ours, which is down
                raise SinkUnreachable(error.message, hint=error.hint) from error
            raise
        if found.kind != "postgres":
            raise SpecError(
                f"the copy {self.name!r} cannot be kept in a {found.kind}", hint="name a PostgreSQL"
            )
        return found


class _Building(PostgresSink):
    """The same copy while it is built beside the one that readers find."""

    def _table(self, columns: StructType) -> CopyTable:
        return BesideTable(self.name, columns, self.keyed.keys)


def _prepare(address: Address, table: CopyTable, marks: Marks) -> int:
    """Have the tables, check them, and forget what was deleted long ago; again from time to time.

    Tells the identity of the copy's table.
    """
    connection, due = connected(address), _PREPARED.get((address, table))
    if due is not None and not due.passed:
        with translated(connection):
            return table.identity(connection)
    with translated(connection), connection.transaction():
        connection.execute(_ONE_AT_A_TIME)
        table.make(connection)
        table.check(connection)
        for statement in (*table.deleted_ddl, marks.ddl):
            connection.execute(statement)
        old = f"now() - interval '{REMEMBERED.days} days'"
        connection.execute(f"DELETE FROM {table.deleted_sql} WHERE _deleted_at < {old}")
        identity = table.identity(connection)
    _PREPARED[address, table] = Deadline(table.lasts)
    return identity
