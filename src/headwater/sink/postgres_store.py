"""PostgreSQL as a task reaches it: COPY into a table of the session, then one transaction into the copy.

The transaction compares positions and writes what is newer, in the order of the keys. A change that deletes
must see every older row of its key, even one that another transaction is about to commit; so a transaction
with deletions has the copy for itself, and others share it. The mark that the slice is written belongs to the
transaction, too: a batch that is tried again leaves such a slice as it is.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import msgspec
from pyspark import TaskContext
from pyspark.sql import types as spark

from headwater.capture.database import Address
from headwater.errors import SinkUnreachable
from headwater.sink.by_key import Change, tried
from headwater.sink.keyed import DELETED, KEPT_POSITION
from headwater.sink.plain import in_json
from headwater.sink.postgres_edge import connected, translated
from headwater.sink.postgres_marks import Marks
from headwater.sink.postgres_table import CopyTable, quoted, type_of

LOCK = "SELECT pg_advisory_xact_lock{shared}(hashtextextended(%s, 0))"
"""Of a copy: a transaction that deletes has it for itself, one that does not shares it."""

_DELETED, _POSITION = quoted(DELETED), quoted(KEPT_POSITION)


@dataclass(frozen=True, kw_only=True)
class PostgresStore:
    """Writes what a task has into the table of a copy."""

    address: Address
    table: CopyTable
    identity: int
    marks: Marks

    def __call__(self, chunks: Iterator[Sequence[Change]]) -> None:
        """Write the task's slice, unless it is there; an empty one leaves no mark."""
        first = next(chunks, None)
        if first is None:
            return
        mark = self.marks.of(TaskContext.get().partitionId())  # type: ignore[union-attr]
        staged = Staged(self.table)
        connection = tried(partial(self._ready, staged))
        with translated(connection):
            if mark is not None and mark.is_set(connection):
                return
            deletes = staged.fill(connection, chain([first], chunks))
        if not tried(partial(self._merge, connection, staged, mark, deletes=deletes)):
            raise SinkUnreachable(
                f"the copy {self.table.name!r} was switched", hint="the batch is written into the new one"
            )

    def _ready(self, staged: "Staged") -> Any:
        connection = connected(self.address)
        with translated(connection):
            staged.make(connection)
        return connection

    def _merge(self, connection: Any, staged: "Staged", mark: Any, *, deletes: bool) -> bool:
        """Merge, unless the name has become that of another table than the one the batch was begun for."""
        with translated(connection), connection.transaction():
            lock = LOCK.format(shared="" if deletes else "_shared")
            connection.execute(lock, [f"headwater/{self.table.name}"])
            if self.table.identity(connection) != self.identity:
                return False
            for statement in staged.statements(deletes=deletes):
                connection.execute(statement)
            if mark is not None:
                mark.set(connection)
            return True


class Staged:
    """The changes of a slice in a table that only this session has."""

    def __init__(self, table: CopyTable) -> None:
        self._table = table
        self._columns = [quoted(one.name) for one in table.columns.fields]
        shape = f"{table.name} {table.columns.simpleString()}"
        self._name = f"headwater_staged_{hashlib.sha256(shape.encode()).hexdigest()[:16]}"

    def make(self, connection: Any) -> None:
        """Have it, and have it empty; its columns are of the copy's types."""
        columns = ", ".join([*self._columns, _POSITION, f"false AS {_DELETED}"])
        rows = f"SELECT {columns} FROM {self._table.sql} WITH NO DATA"
        connection.execute(f"CREATE TEMP TABLE IF NOT EXISTS {self._name} AS {rows}")
        connection.execute(f"TRUNCATE {self._name}")

    def fill(self, connection: Any, chunks: Iterator[Sequence[Change]]) -> bool:
        """Copy the changes into it; tells whether any of them deletes."""
        turns = [(one.name, _turn(one.dataType)) for one in self._table.columns.fields]
        columns = ", ".join([*self._columns, _POSITION, _DELETED])
        deletes = False
        with connection.cursor().copy(f"COPY {self._name} ({columns}) FROM STDIN") as copy:
            for change in chain.from_iterable(chunks):
                deletes = deletes or change.row is None
                row = change.row or dict(zip(self._table.keys, change.key, strict=True))
                values = (_turned(turn, row.get(name)) for name, turn in turns)
                copy.write_row([*values, change.position, change.row is None])
        return deletes

    def statements(self, *, deletes: bool) -> Iterator[str]:
        """What brings the newest of its changes into the copy."""
        if deletes:
            yield self._remember
            yield self._delete
        yield self._upsert

    @property
    def _newest(self) -> str:
        """The newest change of each key; a block had only one, but a slice may have several blocks."""
        keys = self._table.key_sql
        return f"(SELECT DISTINCT ON ({keys}) * FROM {self._name} ORDER BY {keys}, {_POSITION} DESC) AS new"

    def _same_key(self, other: str) -> str:
        keys = map(quoted, self._table.keys)
        return " AND ".join(f"{other}.{key} = new.{key}" for key in keys)

    @property
    def _remember(self) -> str:
        keys, table = self._table.key_sql, self._table.deleted_sql
        return (
            f"INSERT INTO {table} AS old ({keys}, {_POSITION}, _deleted_at) "
            f"SELECT {keys}, {_POSITION}, now() FROM {self._newest} WHERE {_DELETED} ORDER BY {keys} "
            f"ON CONFLICT ({keys}) DO UPDATE SET {_POSITION} = EXCLUDED.{_POSITION}, _deleted_at = now() "
            f"WHERE old.{_POSITION} < EXCLUDED.{_POSITION}"
        )

    @property
    def _delete(self) -> str:
        older = f"old.{_POSITION} < new.{_POSITION}"
        return (
            f"DELETE FROM {self._table.sql} AS old USING {self._newest} "
            f"WHERE new.{_DELETED} AND {self._same_key('old')} AND {older}"
        )

    @property
    def _upsert(self) -> str:
        keys, columns = self._table.key_sql, ", ".join([*self._columns, _POSITION])
        changed = ", ".join(f"{one} = EXCLUDED.{one}" for one in [*self._columns, _POSITION])
        is_deleted = f"{self._same_key('gone')} AND gone.{_POSITION} >= new.{_POSITION}"
        return (
            f"INSERT INTO {self._table.sql} AS old ({columns}) SELECT {columns} FROM {self._newest} "
            f"WHERE NOT {_DELETED} AND NOT EXISTS "
            f"(SELECT FROM {self._table.deleted_sql} AS gone WHERE {is_deleted}) ORDER BY {keys} "
            f"ON CONFLICT ({keys}) DO UPDATE SET {changed} WHERE old.{_POSITION} < EXCLUDED.{_POSITION}"
        )


def _turn(kind: spark.DataType) -> Callable[[Any], Any]:
    """What the client writes as it is, or JSON's text."""
    if type_of(kind) != "jsonb":
        return lambda value: value
    turn = in_json(kind)
    return lambda value: msgspec.json.encode(turn(value)).decode()


def _turned(turn: Callable[[Any], Any], value: Any) -> Any:
    return None if value is None else turn(value)
