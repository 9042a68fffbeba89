"""Health: how a connector is, and what it costs its database.

A PostgreSQL keeps its log for a connector until that has read it. A connector that stands still can so fill
the database's disk; what is kept for it, and the limit, are the figures to watch. A MariaDB keeps its log up
to an age and a size, whoever reads it: how far behind a connector is, and these limits, are to be watched.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from datetime import timedelta

from headwater.capture.claims import claims_in
from headwater.capture.connect import Connect, ConnectorState
from headwater.capture.database import Address
from headwater.capture.plan import Plan
from headwater.capture.sources import opened
from headwater.errors import ConnectUnreachable, DatabaseUnreachable

NEAR = 0.8
"""The part of what the database may keep from which on it is an alert."""

RESTS = 10.0
"""Seconds for which a connector may be away from its slot, to take another connection."""


@dataclass(frozen=True, kw_only=True)
class Health:
    """A connector: its state, its place, and how that is in the database (in PostgreSQL, its slot)."""

    connector: str
    state: str
    tables: tuple[str, ...] = ()
    position: str | None = None
    lag_bytes: int | None = None
    lag_s: float | None = None
    retained_bytes: int | None = None
    limit_bytes: int | None = None
    limit_s: float | None = None
    slot: str = "none"
    reading_since: str | None = None
    unpublished: tuple[str, ...] = ()
    cause: str = ""

    @property
    def is_stuck(self) -> bool:
        """Whether it cannot read its database: it tries again for ever then, and does not say why."""
        is_away = self.slot in ("unknown", "lost") or (self.slot == "idle" and (self.lag_s or 0) > RESTS)
        return self.state in ("running", "starting") and is_away

    def alerts(self, most_bytes: int | None = None, most_lag: timedelta | None = None) -> Iterator[str]:
        """What somebody should look at."""
        if self.state not in ("running", "snapshot", "paused"):
            yield f"it is {self.state}"
        if self.is_stuck:
            yield "it cannot read its database: `headwater capture check` tells why"
        if self.slot in ("lost", "unreserved"):
            yield f"its slot is {self.slot}: the database has thrown away, or is about to, what was not read"
        if self.slot == "purged":
            yield "its place is purged: the database has thrown away what was not read"
        if self.limit_s is not None and (self.lag_s or 0) > NEAR * self.limit_s:
            yield f"it is {self.lag_s:,.0f} s behind, and the log is thrown away after {self.limit_s:,.0f}"
        if self.unpublished:
            tables = ", ".join(self.unpublished)
            yield f"its publication lacks {tables}: their changes are in no log"
        kept, limit = self.retained_bytes or 0, self.limit_bytes
        if limit is not None and kept > NEAR * limit:
            yield f"the database keeps {kept:,} bytes for it, and throws them away at {limit:,}"
        if most_bytes is not None and kept > most_bytes:
            yield f"the database keeps {kept:,} bytes for it, above {most_bytes:,}"
        if most_lag is not None and (self.lag_s or 0) > most_lag.total_seconds():
            yield f"it is {self.lag_s:,.0f} s behind, above {most_lag.total_seconds():,.0f}"


def health(plan: Plan, address: Address, connect: Connect) -> Health:
    """How a connector is now."""
    state = connect.state(plan.name)
    claims = claims_in(connect.config(plan.name))
    found = Health(
        connector=plan.name,
        state=_word(state),
        tables=tuple(sorted(claims)),
        cause=state.cause if state else "",
    )
    try:
        with opened(plan.database, address) as source:
            place = source.place(plan.slot, lambda: connect.offsets(plan.name) if state else {})
            unpublished = source.unpublished(plan.slot, claims)
    except (DatabaseUnreachable, ConnectUnreachable) as error:
        return replace(found, slot="unknown", cause=found.cause or error.message)
    if place is None:
        return found
    if found.state == "running" and place.state == "idle" and _is_reading_rows(connect, plan):
        found = replace(found, state="snapshot")
    figures = {one.name: getattr(place, one.name) for one in fields(place) if one.name != "state"}
    return replace(found, slot=place.state, unpublished=unpublished, **figures)


def _is_reading_rows(connect: Connect, plan: Plan) -> bool:
    """Whether its first snapshot is under way: until its end it reads no log."""
    return connect.offsets(plan.name).get("snapshot_completed") is False


def _word(state: ConnectorState | None) -> str:
    if state is None:
        return "not there"
    if state.has_failed:
        return "failed"
    if state.runs:
        return "running"
    return "starting" if state.state in ("RUNNING", "UNASSIGNED", "RESTARTING") else state.state.lower()
