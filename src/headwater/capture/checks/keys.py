"""What a table's changes do not tell: its key, and values that lie out of line.

With the usual replica identity, an update tells a value that lies out of line (TOAST) only when it changed.
For most types the connector says so, and the row is a dead letter; for others it writes null, so those need
REPLICA IDENTITY FULL, which has every update and delete write the whole old row to the WAL.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from headwater.capture.checks.catalog import Found
from headwater.capture.checks.findings import Finding, warning
from headwater.capture.table import Table

_COST = "its price: each update and delete writes the whole old row to the WAL"


def key_findings(table: Table, found: Found) -> Iterator[Finding]:
    """What keeps its rows from being told apart, or told whole."""
    wanted = sorted(table.keys)
    fitting = [one for one in found.keys if sorted(one.columns) == wanted and one.is_set]
    full = f"ALTER TABLE {table.name} REPLICA IDENTITY FULL;"
    if not fitting:
        yield _no_key(table, found)
    if found.identity == "n" or (found.identity == "d" and found.primary is None):
        yield Finding(
            f"table {table.name!r} has no replica identity: once it is published, PostgreSQL refuses its "
            "updates and deletes",
            hint=full,
        )
        return
    if fitting and found.identity != "f" and not any(_tells(one, found) for one in fitting):
        yield Finding(
            f"deletes from table {table.name!r} do not tell its key {', '.join(table.keys)}",
            hint=f"ALTER TABLE {table.name} REPLICA IDENTITY USING INDEX {fitting[0].name};",
        )
    if found.identity != "f":
        yield from _of_toast(table, found, full)


def _no_key(table: Table, found: Found) -> Finding:
    keys = [", ".join(one.columns) for one in found.keys if one.is_set]
    columns = ", ".join(table.keys)
    if keys:
        return Finding(
            f"key {columns} of table {table.name!r} is not unique in the database",
            hint=f"its keys: {'; '.join(keys)}",
        )
    return Finding(
        f"table {table.name!r} has no key",
        detail="without one, an update cannot be told from another row, and no copy can be kept",
        hint=f"ALTER TABLE {table.name} ADD PRIMARY KEY ({columns});",
    )


def _tells(key: Any, found: Found) -> bool:
    return bool(key.is_primary if found.identity == "d" else key.is_identity)


def _of_toast(table: Table, found: Found, full: str) -> Iterator[Finding]:
    there = [one for one in table.columns.fields if one.name in found.columns]
    arrays = [one.name for one in there if found.columns[one.name].is_array]
    arrays += [one.name for one in there if found.columns[one.name].base == "varbit"]
    if arrays:
        yield Finding(
            f"{_these(arrays)} of table {table.name!r}: a large value that an update does not change would "
            "come as null",
            detail=_COST,
            hint=full,
        )
    others = [one.name for one in there if found.columns[one.name].is_toastable and one.name not in arrays]
    if others and found.has_toast:
        yield warning(
            f"{_these(others)} of table {table.name!r}: an update that does not change a large value "
            "(from about 2 kB) does not tell it, and is a dead letter",
            detail=_COST,
            hint=full,
        )


def _these(names: Sequence[str]) -> str:
    return f"column{'s' if len(names) > 1 else ''} {', '.join(names)}"
