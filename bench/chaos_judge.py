"""What became of a shop after the chaos: its copies, the history of each row, its transactions and events."""

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import psycopg
from msgspec.structs import asdict
from psycopg.rows import class_row

from bench.chaos_capture_app import DONE, ORDERS, TABLES, app
from bench.chaos_load import Load
from headwater import Log, Settings, Table
from headwater.verify.database_source import DatabaseSource
from headwater.verify.log_source import LogSource
from headwater.verify.pipeline import verify

SOON = timedelta(seconds=120)
Figures = dict[str, int]


def judged(settings: Settings, load: Load) -> Figures:
    """All that must be nothing, and how much there was."""
    journal = written_down(load.url)
    numbers = {one.number for one in journal}
    return {
        "transactions": len(journal),
        "unanswered": len(load.asked - load.acknowledged),
        "forgotten": len(load.acknowledged - numbers) + len(numbers - load.asked),
        **_copies(settings),
        **_histories(settings, journal, load.captured_from),
        **_events(settings, numbers),
    }


class Written(NamedTuple):
    """A transaction as it is written down in the database."""

    number: int
    xid: int
    changes: int


def written_down(url: str) -> list[Written]:
    """Every transaction that was committed."""
    with psycopg.connect(url, row_factory=class_row(Written)) as connection:
        return connection.execute("SELECT number, xid, changes FROM journal").fetchall()


def _copies(settings: Settings) -> Figures:
    """Rows of the copies, and of the log itself, that are not what the log, or the database, says."""
    rows = differing = 0
    for pipeline in app.pipelines:
        for against in ("log", "database"):
            for one in verify(app, pipeline.name, settings, against=against, within=SOON):
                rows += one.verdict.whole.rows
                differing += one.verdict.different
                for found in one.verdict.differences:
                    print(one.kind, one.copy, against, found, file=sys.stderr)
    return {"compared": rows, "differing": differing + sum(_in_the_log(one, settings) for one in TABLES)}


def _in_the_log(table: Table, settings: Settings) -> int:
    """Keys whose newest row in the topic is not that of the table."""
    quiet = lambda *_: None  # noqa: E731
    found = LogSource(table, "", settings).digests(quiet).items()
    return len(found ^ DatabaseSource(table, settings).digests(quiet).items())


def _histories(settings: Settings, journal: Sequence[Written], captured_from: int) -> Figures:
    """Changes that do not follow from those before, and transactions that are not there as they were made."""
    places, broken = defaultdict[int, list[int]](list), 0
    for table in TABLES:
        history = History(tells_before=table is ORDERS)
        for change in changes(table, settings):
            broken += not history.follows(change)
            if change.operation != "read":
                places[int(change.transaction.id)].append(change.transaction.place)
    made = {one.xid: one.changes for one in journal}
    in_snapshot = {one.xid for one in journal if one.number < captured_from and one.xid not in places}
    torn = {one for one in {*places, *made} if len(places[one]) != made.get(one)} - in_snapshot
    misplaced = [one for one in places.values() if sorted(one) != list(range(1, len(one) + 1))]
    count = sum(map(len, places.values()))
    return {"changes": count, "broken": broken, "torn": len(torn), "misplaced": len(misplaced)}


class History:
    """The rows of a table as its changes make them, one after another.

    Only with a full replica identity does a change tell its row as it was before; without it, what is there
    beside the key has been made up.
    """

    def __init__(self, *, tells_before: bool) -> None:
        self._tells_before = tells_before
        self._rows: dict[Any, Any] = {}

    def follows(self, change: Any) -> bool:
        """Whether a change is possible after those before it; some come before their row is first read."""
        is_first = change.key not in self._rows
        known, after = self._rows.get(change.key), change.after
        self._rows[change.key] = after
        match change.operation:
            case "read":
                return is_first or known == after
            case "insert":
                return known is None
        if is_first:
            return True
        if known is None or (self._tells_before and asdict(change.before) != asdict(known)):
            return False
        return after is None or after.version == known.version + 1


def changes(table: Table, settings: Settings) -> Iterator[Any]:
    """All of a table's changes, partition by partition in their order, without tombstones."""
    for record in Log.open(settings).read(table.changes):
        if record.data is not None:
            yield record.value


def _events(settings: Settings, journal: set[int]) -> Figures:
    """What came of the outbox; events of transactions that never were are `invented`."""
    seen = Counter(record.value.number for record in Log.open(settings).read(DONE))
    return {
        "events": seen.total(),
        "lost": len(journal - set(seen)),
        "doubled": sum(one > 1 for one in seen.values()),
        "invented": len(set(seen) - journal),
    }
