"""The table of a copy in PostgreSQL: its SQL from Spark's types, and whether one that is there will do.

Beside the rows' own columns it has `_position`, which says how new a row is. A second table, `…_deleted`,
holds the positions of deleted keys for a while. What PostgreSQL has no type for (structs, maps, arrays of
arrays) is jsonb.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

from pyspark.sql import types as spark

from headwater.errors import CopyMismatch
from headwater.sink.keyed import KEPT_POSITION

NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\.([A-Za-z_][A-Za-z0-9_]{0,39})")
_TYPES: dict[type[spark.DataType], str] = {
    spark.StringType: "text",
    spark.BooleanType: "boolean",
    spark.ByteType: "smallint",
    spark.ShortType: "smallint",
    spark.IntegerType: "integer",
    spark.LongType: "bigint",
    spark.FloatType: "real",
    spark.DoubleType: "double precision",
    spark.BinaryType: "bytea",
    spark.DateType: "date",
    spark.TimestampType: "timestamp with time zone",
    spark.TimestampNTZType: "timestamp without time zone",
    spark.DayTimeIntervalType: "interval",
}
_WIDER = {
    "smallint": ("integer", "bigint", "numeric"),
    "integer": ("bigint", "numeric"),
    "bigint": ("numeric",),
    "real": ("double precision",),
    "jsonb": ("json",),
}
_COLUMNS = """
SELECT attname, format_type(atttypid, atttypmod), attnotnull AND NOT atthasdef AND attidentity = ''
FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped
"""
_UNIQUE = """
SELECT array_agg(attname::text ORDER BY attname) FROM pg_index JOIN pg_attribute
ON attrelid = indrelid AND attnum = ANY(indkey::int2[]) WHERE indrelid = to_regclass(%s)
AND indisunique AND indimmediate AND indpred IS NULL AND indexprs IS NULL GROUP BY indexrelid
"""


def quoted(name: str) -> str:
    """A name as SQL has it."""
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def type_of(kind: spark.DataType) -> str:
    """PostgreSQL's type for one of Spark's."""
    if isinstance(kind, spark.DecimalType):
        return f"numeric({kind.precision},{kind.scale})"
    if isinstance(kind, spark.ArrayType) and (inside := type_of(kind.elementType)) != "jsonb":
        return "jsonb" if inside.endswith("[]") else f"{inside}[]"
    return _TYPES.get(type(kind), "jsonb")


@dataclass(frozen=True)
class CopyTable:
    """The table of a copy, by its name with its schema, with its columns and its key."""

    name: str
    columns: spark.StructType
    keys: tuple[str, ...]

    lasts: ClassVar[timedelta] = timedelta(hours=1)
    """For how long one may trust that it is there, and as it was."""

    @property
    def sql(self) -> str:
        """Its name in SQL."""
        schema, _, table = self.name.partition(".")
        return f"{quoted(schema)}.{quoted(table)}"

    @property
    def deleted_sql(self) -> str:
        """The name of the table of deleted keys in SQL."""
        return f'{self.sql[:-1]}_deleted"'

    @property
    def deleted_index(self) -> str:
        """The name of the index that makes the keys of that table unique."""
        return f"{self.name.partition('.')[2]}_deleted_key"

    @property
    def key_sql(self) -> str:
        """The columns of its key in SQL."""
        return ", ".join(quoted(one) for one in self.keys)

    @property
    def ddl(self) -> str:
        """The SQL that makes it, if it is not there."""
        own = [f"{quoted(one.name)} {type_of(one.dataType)}" for one in self.columns.fields]
        position, unique = f"{quoted(KEPT_POSITION)} bigint NOT NULL", f"PRIMARY KEY ({self.key_sql})"
        return f"CREATE TABLE IF NOT EXISTS {self.sql} ({', '.join([*own, position, unique])})"

    def make(self, connection: Any) -> None:
        """Have it."""
        connection.execute(self.ddl)

    @property
    def deleted_ddl(self) -> Iterator[str]:
        """The SQL that makes the table of deleted keys, whose types are those of the copy that is there."""
        columns = f"{self.key_sql}, {quoted(KEPT_POSITION)}, now() AS _deleted_at"
        rows = f"SELECT {columns} FROM {self.sql} WITH NO DATA"
        yield f"CREATE TABLE IF NOT EXISTS {self.deleted_sql} AS {rows}"
        index = quoted(self.deleted_index)
        yield f"CREATE UNIQUE INDEX IF NOT EXISTS {index} ON {self.deleted_sql} ({self.key_sql})"

    def check(self, connection: Any) -> None:
        """CopyMismatch when the table that is there cannot take the rows, with the SQL that mends it."""
        wrong = [*self._wrong_columns(self.found(connection)), *self._wrong_key(self.unique(connection))]
        if wrong:
            raise CopyMismatch(
                f"table {self.name!r} is there, and rows of the copy do not fit into it",
                detail="\n".join(why for why, _ in wrong),
                hint=" ".join(mend for _, mend in wrong),
            )

    def identity(self, connection: Any) -> int:
        """What tells it from a later table of the same name; 0 when there is none."""
        found = connection.execute("SELECT coalesce(to_regclass(%s)::oid, 0)::bigint", [self.sql]).fetchone()
        return int(found[0])

    def found(self, connection: Any) -> dict[str, tuple[str, bool]]:
        """The columns of the table that is there: the type, and whether it must be told a value."""
        return {name: (kind, is_needed) for name, kind, is_needed in self._asked(connection, _COLUMNS)}

    def unique(self, connection: Any) -> list[list[str]]:
        """Which of its columns are unique together."""
        return [keys for (keys,) in self._asked(connection, _UNIQUE)]

    @property
    def wanted(self) -> dict[str, str]:
        """The type of each column of a copy."""
        return {one.name: type_of(one.dataType) for one in self.columns.fields} | {KEPT_POSITION: "bigint"}

    def _asked(self, connection: Any, sql: str) -> list[Any]:
        rows: list[Any] = connection.execute(sql, [self.sql]).fetchall()
        return rows

    def _wrong_columns(self, found: dict[str, tuple[str, bool]]) -> Iterator[tuple[str, str]]:
        wanted = self.wanted
        for name, kind in wanted.items():
            alter = f"ALTER TABLE {self.sql} %s COLUMN {quoted(name)} %s{kind};"
            if name not in found:
                kind_of_new = " NOT NULL DEFAULT -1" if name == KEPT_POSITION else ""
                yield f"it has no column {name!r}", alter[:-1] % ("ADD", "") + f"{kind_of_new};"
            elif not fits(kind, found[name][0]):
                yield f"column {name!r} is {found[name][0]}, and not {kind}", alter % ("ALTER", "TYPE ")
        for name in found.keys() - wanted.keys():
            if found[name][1]:
                drop = f"ALTER TABLE {self.sql} ALTER COLUMN {quoted(name)} DROP NOT NULL;"
                yield f"column {name!r} must have a value, and the rows have none", drop

    def _wrong_key(self, unique: list[list[str]]) -> Iterator[tuple[str, str]]:
        if sorted(self.keys) not in unique:
            add = f"ALTER TABLE {self.sql} ADD UNIQUE ({self.key_sql});"
            yield f"nothing makes {', '.join(self.keys)} unique", add


def fits(wanted: str, found: str) -> bool:
    """Whether a column of the found type takes every value of the wanted one, without rounding it.

    Text is taken by any type, in the words of that type: uuid, inet, an enumeration.
    """
    if wanted in ("text", found) or found in _WIDER.get(wanted, ()):
        return True
    if wanted.endswith("[]") and found.endswith("[]"):
        return fits(wanted[:-2], found[:-2])
    return wanted.startswith("numeric(") and (found == "numeric" or _has_room(wanted, found))


def _has_room(wanted: str, found: str) -> bool:
    if not found.startswith("numeric("):
        return False
    (digits, scale), (room, places) = (
        [int(one) for one in text[8:-1].split(",")] for text in (wanted, found)
    )
    return places >= scale and room - places >= digits - scale
