"""A copy in PostgreSQL built anew: another table, which takes the name of the old one in one transaction.

The new table is made like the old one, with its indices, defaults and rights, as far as they suit the rows;
what hangs on the old table itself (a view, a foreign key) would stay with it, so it is refused. The renaming
waits for nobody longer than a blink: behind a table's lock that is waited for, every reader would wait, too.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as spark

from headwater.capture.database import Address
from headwater.clock import Deadline
from headwater.errors import CopyMismatch, SinkUnreachable
from headwater.sink.contract import REBUILD
from headwater.sink.postgres_edge import connected, translated
from headwater.sink.postgres_store import LOCK
from headwater.sink.postgres_table import CopyTable, fits, quoted

if TYPE_CHECKING:
    from headwater.sink.postgres import PostgresSink

_PATIENCE = timedelta(minutes=2)
_PAUSE = 0.3
_FILLED = "attnum > 0 AND NOT attisdropped AND (atthasdef OR attidentity <> '')"
_FILLED_BY_ITSELF = f"SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s) AND {_FILLED}"
_HANGS_ON_IT = """
SELECT DISTINCT 'view ' || ev_class::regclass::text FROM pg_depend JOIN pg_rewrite ON pg_rewrite.oid = objid
WHERE classid = 'pg_rewrite'::regclass AND refobjid = to_regclass(%(old)s) AND ev_class <> refobjid
UNION SELECT 'foreign key ' || conname FROM pg_constraint
WHERE contype = 'f' AND to_regclass(%(old)s) IN (conrelid, confrelid)
UNION SELECT 'trigger ' || tgname FROM pg_trigger WHERE tgrelid = to_regclass(%(old)s) AND NOT tgisinternal
UNION SELECT 'policy ' || polname FROM pg_policy WHERE polrelid = to_regclass(%(old)s)
UNION SELECT 'publication ' || pubname FROM pg_publication_rel JOIN pg_publication p ON p.oid = prpubid
WHERE prrelid = to_regclass(%(old)s) ORDER BY 1
"""
_RIGHTS = """
SELECT format('GRANT %%s ON %%s TO %%s%%s', privilege_type, %(new)s::text,
CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END,
CASE WHEN is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
FROM pg_class, aclexplode(relacl) WHERE pg_class.oid = to_regclass(%(old)s) AND grantee <> relowner
"""


class BesideTable(CopyTable):
    """The table of a copy that is being built, told by the name of the one that readers find."""

    lasts = timedelta(0)

    def __init__(self, name: str, columns: spark.StructType, keys: tuple[str, ...]) -> None:
        super().__init__(f"{name}~new", columns, keys)

    @property
    def old(self) -> CopyTable:
        """The table that it will replace."""
        return CopyTable(self.name.removesuffix("~new"), self.columns, self.keys)

    def make(self, connection: Any) -> None:
        """Have it: like the old one where that is keyed in the same way, and else as any copy."""
        if self.found(connection):
            return
        columns = self.old.found(connection)
        if not self._has_key(connection, columns):
            connection.execute(self.ddl)
        else:
            connection.execute(f"CREATE TABLE {self.sql} (LIKE {self.old.sql} INCLUDING ALL)")
            filled = {name for (name,) in connection.execute(_FILLED_BY_ITSELF, [self.old.sql]).fetchall()}
            for statement in self._adapting(columns, filled):
                connection.execute(statement)
        if columns:
            self._carry_over(connection)

    def _has_key(self, connection: Any, columns: dict[str, tuple[str, bool]]) -> bool:
        fitting = all(one in columns and fits(self.wanted[one], columns[one][0]) for one in self.keys)
        return fitting and sorted(self.keys) in self.old.unique(connection)

    def _adapting(self, columns: dict[str, tuple[str, bool]], filled: set[str]) -> Iterator[str]:
        """What gives it the columns of the rows; it has no row yet, so a column may go and come."""
        unfit = {
            name for name, kind in self.wanted.items() if name in columns and not fits(kind, columns[name][0])
        }
        for name in unfit | (columns.keys() - self.wanted.keys() - filled):
            yield f"ALTER TABLE {self.sql} DROP COLUMN {quoted(name)}"
        for name, kind in self.wanted.items():
            if name in unfit or name not in columns:
                yield f"ALTER TABLE {self.sql} ADD COLUMN {quoted(name)} {kind}"

    def _carry_over(self, connection: Any) -> None:
        both = {"old": self.old.sql, "new": self.sql}
        if hanging := [one for (one,) in connection.execute(_HANGS_ON_IT, both).fetchall()]:
            raise CopyMismatch(
                f"table {self.old.name!r} cannot give its place to another",
                detail="\n".join(hanging),
                hint="these would stay with the old table: drop them, and make them again after the rebuild",
            )
        for (grant,) in connection.execute(_RIGHTS, both).fetchall():
            connection.execute(grant)


@dataclass(frozen=True)
class PostgresBeside:
    """The table beside the one named `name`, written by `sink`."""

    address: Address
    name: str
    sink: "PostgresSink"

    @property
    def is_begun(self) -> bool:
        """Whether it is there."""
        connection = connected(self.address)
        with translated(connection):
            return bool(self._named("~new").found(connection))

    def switch(self, columns: spark.StructType) -> None:  # noqa: ARG002 - a table is switched whole
        """Rename both tables and their marks, when nobody writes or reads."""
        self._patiently(self._switch)

    def drop(self) -> None:
        """Remove it, and the table whose place it took."""
        self._patiently(self._drop)

    def _switch(self, connection: Any) -> None:
        if not self._named("~new").found(connection):
            return  # it has taken its place before
        connection.execute("SET LOCAL lock_timeout = '60s'")
        connection.execute(LOCK.format(shared=""), [f"headwater/{self.name}"])
        connection.execute("SET LOCAL lock_timeout = '200ms'")
        for old, new in (("", "~old"), ("~new", "")):
            for statement in _renaming(self._named(old), self._named(new)):
                connection.execute(statement)
        marks = self._marks
        connection.execute(f"DELETE FROM {marks} WHERE copy = %s", [self.name])
        renamed = f"copy = %s, pipeline = left(pipeline, -{len(REBUILD)})"
        connection.execute(f"UPDATE {marks} SET {renamed} WHERE copy = %s", [self.name, f"{self.name}~new"])

    def _drop(self, connection: Any) -> None:
        connection.execute("SET LOCAL lock_timeout = '200ms'")
        for table in (self._named("~new"), self._named("~old")):
            connection.execute(f"DROP TABLE IF EXISTS {table.sql}, {table.deleted_sql}")
        if connection.execute("SELECT to_regclass(%s)", [self._marks]).fetchone()[0] is not None:
            built = f"copy = %s OR copy = %s AND right(pipeline, {len(REBUILD)}) = %s"
            copies = [f"{self.name}~new", self.name, REBUILD]
            connection.execute(f"DELETE FROM {self._marks} WHERE {built}", copies)

    @property
    def _marks(self) -> str:
        return f"{quoted(self.name.partition('.')[0])}.headwater_slices"

    def _named(self, suffix: str) -> CopyTable:
        return CopyTable(self.name + suffix, spark.StructType(), ())

    def _patiently(self, action: Callable[[Any], None]) -> None:
        """Do it in one transaction; again while somebody uses the tables, or the server is away."""
        deadline = Deadline(_PATIENCE)
        while True:
            try:
                connection = connected(self.address)
                with translated(connection), connection.transaction():
                    return action(connection)
            except SinkUnreachable:
                if deadline.passed:
                    raise
                time.sleep(_PAUSE)


def _renaming(one: CopyTable, other: CopyTable) -> Iterator[str]:
    """The SQL that gives a table, and that of its deleted keys, another name."""
    schema, _, name = other.name.partition(".")
    yield f"ALTER TABLE IF EXISTS {one.sql} RENAME TO {quoted(name)}"
    yield f"ALTER TABLE IF EXISTS {one.deleted_sql} RENAME TO {quoted(f'{name}_deleted')}"
    index = f"{quoted(schema)}.{quoted(one.deleted_index)}"
    yield f"ALTER INDEX IF EXISTS {index} RENAME TO {quoted(other.deleted_index)}"
