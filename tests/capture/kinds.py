"""The tables of docs/reference/column-types.md, as the tests of types read them."""

import re
from datetime import UTC, date, datetime
from decimal import Decimal
from math import inf, isnan, nan
from typing import Any, NamedTuple

import pyarrow as pa

from headwater import Log, Settings, Table
from headwater.clock import wait_until
from headwater.run.decode import decoder
from tests.capture.captured import SOON
from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "reference" / "column-types.md"
_NAMES = {"Decimal": Decimal, "date": date, "datetime": datetime, "UTC": UTC, "inf": inf, "nan": nan}


class Kind(NamedTuple):
    """One row of a table: a column, its declared type, what is inserted, and what is read."""

    column: str
    declared: str
    inserted: str
    read: Any = None


class Reference:
    """The types of one database: those that come whole, those that make a record bad, those that change."""

    def __init__(self, heading: str) -> None:
        self.whole, self.dead, self.changed = _tables(heading)
        self.all = [*self.whole, *self.dead, *self.changed]

    def numbered(self, some: list[Kind]) -> list[tuple[int, Kind]]:
        """With the numbers of their columns; none is that of a row that is good."""
        return [(n, one) for n, one in enumerate(self.all) if one in some]

    def wrong(self, row: Any) -> list[str]:
        """The columns of a row that are not what the reference says."""
        get = row.get if isinstance(row, dict) else lambda name: getattr(row, name)
        pairs = [(one, get(f"c{n}")) for n, one in enumerate(self.whole)]
        return [f"{one}: {found!r}" for one, found in pairs if not is_same(found, one.read)]


def records_of(table: Table, settings: Settings, count: int) -> list[Any]:
    """The records of a table's changes, once there are so many."""
    found: list[Any] = []

    def come() -> bool:
        found[:] = list(Log.open(settings).read(table.changes))
        return len(found) == count

    assert wait_until(come, SOON, pause=0.1), len(found)
    return found


def _tables(heading: str) -> list[list[Kind]]:
    part = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)
    (text,) = [one for one in part if one.startswith(heading)]
    tables = re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE)
    return [[_kind(line) for line in table.splitlines()[2:]] for table in tables]


def _kind(line: str) -> Kind:
    column, declared, inserted, *read = [one.strip() for one in line.strip("|").split(" | ")]
    value = eval(_code(read[0]), dict(_NAMES)) if read else None
    return Kind(_code(column), _code(declared), _code(inserted), value)


def _code(cell: str) -> str:
    """What stands in code in a cell, or all of it."""
    found = re.match(r"`(.*)`", cell)
    return found[1] if found else cell


def is_same(found: Any, wanted: Any) -> bool:
    """Equal, of the same type, and nan as nan."""
    if isinstance(wanted, float) and isnan(wanted):
        return isinstance(found, float) and isnan(found)
    if isinstance(wanted, Decimal):
        return isinstance(found, Decimal) and found.as_tuple() == wanted.as_tuple()
    same: bool = type(found) is type(wanted) and found == wanted
    return same


def in_spark(table: Table, settings: Settings, records: list[Any]) -> list[dict[str, Any]]:
    """The changes in these records as a pipeline hands them to Spark; `_dead` tells the bad ones."""
    decode = decoder(table.changes, settings, record=False)
    named = {"value": [one.data for one in records], "offset": [one.offset for one in records]}
    kinds_of = {"value": pa.binary(), "offset": pa.int64()}
    block = pa.RecordBatch.from_arrays(
        [pa.array(named[one], kinds_of[one]) for one in decode.needs], decode.needs
    )
    return [row for made in decode(iter([block])) for row in made.to_pylist()]
