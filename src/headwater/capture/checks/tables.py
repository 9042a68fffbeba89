"""What a table of PostgreSQL lacks for capture: rights, a log of its own, columns as they are declared."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from pyspark.sql import types as spark

from headwater.capture.checks.catalog import Found
from headwater.capture.checks.findings import Finding, Group, warning
from headwater.capture.checks.fits import FIXED, IN_ARRAYS, POSTGRES, Column, may_overflow, misfit
from headwater.capture.checks.keys import key_findings
from headwater.capture.table import Table

_KINDS = {"v": "a view", "m": "a materialized view", "f": "a foreign table"}


def table_findings(table: Table, found: Found | None, group: Group, *, via_root: bool) -> Iterator[Finding]:
    """What a table lacks."""
    if found is None:
        yield Finding(
            f"table {table.name!r} does not exist",
            hint=group.ddl
            or "look at its name and its database; PostgreSQL's own names are in small letters",
        )
        return
    yield from _of_kind(table.name, found, via_root=via_root)
    yield from _of_columns(table, found)
    if not group.only_inserts:
        yield from key_findings(table, found)


def _of_kind(name: str, found: Found, *, via_root: bool) -> Iterator[Finding]:
    if found.kind in _KINDS:
        yield Finding(
            f"{name!r} is {_KINDS[found.kind]}, which has no changes of its own",
            hint="capture the tables that it is made of",
        )
    if found.kind == "p" and not via_root:
        yield Finding(
            f"table {name!r} is partitioned, and its changes would come under the names of its partitions",
            hint="make the publication yourself, WITH (publish_via_partition_root = true)",
        )
    if found.persistence != "p":
        yield Finding(
            f"table {name!r} is unlogged, so the WAL has none of its changes",
            hint=f"ALTER TABLE {name} SET LOGGED;",
        )
    if not found.is_readable:
        yield Finding(
            f"table {name!r} may not be read, as its snapshot needs",
            hint=f"GRANT USAGE ON SCHEMA {name.partition('.')[0]} TO {found.role}; "
            f"GRANT SELECT ON {name} TO {found.role};",
        )
    if found.is_filtered:
        yield Finding(
            f"row security hides rows of table {name!r} from its snapshot",
            hint=f"ALTER ROLE {found.role} BYPASSRLS;",
        )


def _of_columns(table: Table, found: Found) -> Iterator[Finding]:
    for declared in table.columns.fields:
        column = found.columns.get(declared.name)
        if column is None:
            yield Finding(
                f"table {table.name!r} has no column {declared.name!r}",
                hint=f"its columns: {', '.join(found.columns)}",
            )
        elif column.is_generated:
            yield Finding(
                f"column {declared.name!r} of table {table.name!r} is generated: it would come as null",
                hint="leave it out of the schema, and compute it in the pipeline",
            )
        else:
            yield from column_findings(table.name, declared, _column(column))


def column_findings(table: str, declared: spark.StructField, column: Column) -> Iterator[Finding]:
    """What is wrong with how a column is declared."""
    what = f"column {column.name!r} of table {table!r} is {column.kind}"
    if why := misfit(column, declared.dataType):
        yield Finding(f"{what}, declared as {declared.dataType.simpleString()}", hint=why)
    elif may_overflow(column, declared.dataType):
        yield warning(
            f"{what}, whose values may exceed {declared.dataType.simpleString()}: dead letters",
            hint="declare it as string, or bound it in the database",
        )
    if column.nullable and not declared.nullable:
        yield warning(
            f"{what} and may be null, declared as NOT NULL: rows with null are dead letters",
            hint=f"ALTER TABLE {table} ALTER COLUMN {column.name} SET NOT NULL; -- or declare it without",
        )


def _column(row: Any) -> Column:
    base = "enum" if row.is_enum else row.base
    known = POSTGRES.get(base, ()) if not row.is_array or base in IN_ARRAYS else ()
    column = Column(
        name=row.name,
        kind=row.kind,
        base=base,
        types=known if row.dimensions <= 1 else (),
        nullable=not row.is_set,
        is_array=row.is_array,
        digits=FIXED.get(base) or _digits(row),
    )
    return replace(column, types=("boolean",)) if row.kind == "bit(1)" else column


def _digits(row: Any) -> tuple[int, int] | None:
    """The precision and scale of a numeric; they stand in eleven bits, the scale with a sign."""
    if row.base != "numeric" or row.typmod < 0:
        return None
    told = row.typmod - 4
    return (told >> 16) & 0xFFFF, ((told & 0x7FF) ^ 0x400) - 0x400
