"""Rows of a copy in PostgreSQL read back: all of them, or those of some keys."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from pyspark.sql import types as spark

from headwater.sink.keyed import Keys, Row
from headwater.sink.postgres_edge import translated
from headwater.sink.postgres_table import CopyTable, quoted, type_of
from headwater.sink.restored import from_json

_AT_ONCE = 500
_FETCHED = 5_000


def rows_of(connection: Any, table: CopyTable, keys: Keys | None) -> Iterator[Row]:
    """The rows of a copy; all of them as of one moment."""
    columns = ", ".join(map(_column, table.columns.fields))
    select, row = f"SELECT {columns} FROM {table.sql}", _reader(table)
    with translated(connection), connection.transaction():
        if keys is not None:
            for part in _parts(keys):
                yield from map(row, connection.execute(f"{select} WHERE {_are(part, table)}", _flat(part)))
            return
        with connection.cursor(name="headwater_reading") as cursor:
            cursor.itersize = _FETCHED
            yield from map(row, cursor.execute(select))


def _column(one: spark.StructField) -> str:
    """A text may stand in a column of another type, of which its client would make something else."""
    return f"{quoted(one.name)}::text" if isinstance(one.dataType, spark.StringType) else quoted(one.name)


def _reader(table: CopyTable) -> Any:
    """What PostgreSQL has no type for is JSON there."""
    turns = [
        (one.name, from_json(one.dataType) if type_of(one.dataType) == "jsonb" else None)
        for one in table.columns.fields
    ]
    return lambda values: {
        name: value if turn is None else turn(value)
        for (name, turn), value in zip(turns, values, strict=True)
    }


def _parts(keys: Keys) -> Iterator[list[tuple[Any, ...]]]:
    wanted = iter(keys)
    while part := list(islice(wanted, _AT_ONCE)):
        yield part


def _are(part: list[tuple[Any, ...]], table: CopyTable) -> str:
    one = f"({', '.join(['%s'] * len(table.keys))})"
    return f"({table.key_sql}) IN ({', '.join([one] * len(part))})"


def _flat(part: list[tuple[Any, ...]]) -> list[Any]:
    return [value for key in part for value in key]
