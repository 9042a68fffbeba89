"""Health: how a connector is, and what it costs its database.

The database keeps its log for a connector until that has read it. A connector that stands still can so fill
the database's disk; what is kept for it, and the limit, are the figures to watch.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, timedelta
from typing import Any

from headwater.capture.claims import claims_in
from headwater.capture.connect import Connect, ConnectorState
from headwater.capture.database import Address
from headwater.capture.plan import Plan
from headwater.capture.source import opened
from headwater.errors import DatabaseUnreachable

NEAR = 0.8
"""The part of what the database may keep from which on it is an alert."""

RESTS = 10.0
"""Seconds for which a connector may be away from its slot, to take another connection."""


@dataclass(frozen=True, kw_only=True)
class Health:
    """A connector: its state, its place, and its slot in the database."""

    connector: str
    state: str
    tables: tuple[str, ...] = ()
    position: str | None = None
    lag_bytes: int | None = None
    lag_s: float | None = None
    retained_bytes: int | None = None
    limit_bytes: int | None = None
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
            slot, unpublished = source.slot(plan.slot), source.unpublished(plan.slot, claims)
    except DatabaseUnreachable as error:
        return replace(found, slot="unknown", cause=found.cause or error.message)
    if slot is None:
        return found
    if found.state == "running" and not slot.active and _is_reading_rows(connect, plan):
        found = replace(found, state="snapshot")
    return _with_slot(replace(found, unpublished=unpublished), slot)


def _is_reading_rows(connect: Connect, plan: Plan) -> bool:
    """Whether its first snapshot is under way: until its end it reads no log."""
    return connect.offsets(plan.name).get("snapshot_completed") is False


def _with_slot(found: Health, slot: Any) -> Health:
    is_well = slot.wal_status in ("reserved", "extended")
    return replace(
        found,
        slot=("active" if slot.active else "idle") if is_well else slot.wal_status,
        position=slot.position,
        reading_since=slot.reading_since and slot.reading_since.astimezone(UTC).isoformat(),
        lag_bytes=slot.lag_bytes,
        lag_s=slot.lag_s,
        retained_bytes=slot.retained_bytes,
        limit_bytes=slot.limit_bytes,
    )


def _word(state: ConnectorState | None) -> str:
    if state is None:
        return "not there"
    if state.has_failed:
        return "failed"
    if state.runs:
        return "running"
    return "starting" if state.state in ("RUNNING", "UNASSIGNED", "RESTARTING") else state.state.lower()
