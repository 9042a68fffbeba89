"""The contract of a source: what capture asks of a database, whichever it is.

It holds a lock, so that one app at a time changes what is captured. It has a table of signals, in which a row
asks the connector for a snapshot, in the order of the log. It tells where a connector stands in its log and
what it keeps from there on, and it forgets that.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from headwater.capture.claims import FIRST, Claims
from headwater.capture.database import Address, Database
from headwater.errors import DatabaseRefused, DatabaseUnreachable

PATIENCE_S = 120
"""How long an app waits for another one that holds the lock."""

Told = Callable[[], Mapping[str, Any]]
"""What the connector itself has written of its place; asked only where the database does not know."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a connector stands, in the database's own word; what is ahead of it, and what is kept."""

    state: str
    position: str | None = None
    lag_bytes: int | None = None
    lag_s: float | None = None
    retained_bytes: int | None = None
    limit_bytes: int | None = None
    limit_s: float | None = None
    reading_since: str | None = None

    @property
    def is_lost(self) -> bool:
        """Whether the database has thrown away what was not read."""
        return self.state in ("lost", "purged")


class Source(ABC):
    """A captured database; each word to it stands for itself."""

    def __init__(self, database: Database, address: Address) -> None:
        self._database, self._address = database, address

    @abstractmethod
    def lock(self, name: str) -> None:
        """Wait until no other app holds the lock of this name; it ends with the session."""

    @abstractmethod
    def make_signals(self) -> None:
        """Have the table of signals; a connector sees only what is there when it starts."""

    @abstractmethod
    def drop_signals(self) -> None:
        """Have it no more."""

    @abstractmethod
    def signal(self, name: str, data: str) -> None:
        """Ask for a snapshot, once for each name."""

    @abstractmethod
    def place(self, slot: str, told: Told) -> Place | None:
        """How the place of a connector is; None when it has none."""

    def has_place(self, told: Told) -> bool:  # noqa: ARG002 - not every database has to ask
        """Whether a connector that is under way has its place, so that a signal from now on is read."""
        return True

    def unpublished(self, slot: str, tables: Iterable[str]) -> tuple[str, ...]:  # noqa: ARG002 - likewise
        """The tables whose changes are told to nobody."""
        return ()

    @abstractmethod
    def forget(self, slot: str) -> bool:
        """Keep nothing for it any more; False while somebody still reads from there."""

    def ask_for_snapshots(self, claims: Claims) -> None:
        """Signal for the rows of every table, unless that was done."""
        late = sorted((one.since, name) for name, one in claims.items() if one.since != FIRST)
        for since, tables in groupby(late, key=lambda one: one[0]):
            self.ask_for_snapshot(since, [name for _, name in tables])

    def ask_for_snapshot(self, name: str, tables: list[str]) -> None:
        """Signal for a snapshot of these tables, once for each name."""
        patterns = [one.replace(".", r"\.") for one in tables]
        self.signal(name, json.dumps({"data-collections": patterns, "type": "INCREMENTAL"}))

    def _refused(self, said: object, sql: str) -> DatabaseRefused:
        return DatabaseRefused(
            f"database {self._database.name!r} refuses what capture needs",
            detail=f"{str(said).strip()}\nin: {sql}",
            hint=f"let its user {self._address.user!r} do that",
        )


def unreachable(database: Database, address: Address, error: Exception) -> DatabaseUnreachable:
    """The error for a database that does not let us in."""
    return DatabaseUnreachable(
        f"database {database.name!r} does not let us in",
        detail=f"{address.shown}: {str(error).strip()}",
        hint=f"does it run, and is HEADWATER_DATABASE_{database.name.upper()} right?",
    )
