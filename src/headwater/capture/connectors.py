"""Connectors: from the tables that an app captures to connectors that run.

The topics are made first, then the connector of each database is made, or changed when a table is new. A new
one's rows are asked for by a signal: a row in the database's own log, read in its order, so that a crash
between the steps loses nothing; whoever comes next finds that the signal is missing and sends it.
"""

import logging
from collections.abc import Callable, Sequence
from datetime import timedelta
from uuid import uuid4

from headwater.capture import secrets
from headwater.capture.checks import demand
from headwater.capture.claims import FIRST, claimed, claims_in
from headwater.capture.connect import Config, Connect, ConnectorState
from headwater.capture.plan import Capture, Plan, plans
from headwater.capture.source import alone
from headwater.clock import wait_until
from headwater.errors import ConnectorFailed, SpecError
from headwater.log.log import Log
from headwater.settings import Settings

_LOGGER = logging.getLogger("headwater.capture")
STARTS_WITHIN = timedelta(seconds=90)
_SETTLES_WITHIN = timedelta(seconds=1)


def ensure(app: str, captures: Sequence[Capture], settings: Settings) -> None:
    """Have all that an app captures captured; returns when the connectors run.

    The databases are asked first: DatabaseUnfit has all that they lack, with what mends it.
    """
    for one in demand(captures, settings):
        _LOGGER.warning("%s", one)
    for plan in plans(captures):
        _ensure(app, plan, settings)


def _ensure(app: str, plan: Plan, settings: Settings) -> None:
    address, connect, log = plan.database.address(settings), Connect.open(settings), Log.open(settings)
    if address.kind != "postgres":
        raise SpecError(f"database {plan.database.name!r} is a {address.kind}, whose capture is not here yet")
    for topic in plan.all_topics(address):
        log.topics.create(topic)
    with alone(plan.database, address) as source:
        if not plan.is_outbox:
            source.make_signals()
        found = connect.config(plan.name)
        since = FIRST if found is None else f"snapshot-{uuid4()}"
        claims = claimed(claims_in(found), app, plan.tables, since)
        password = secrets.told(plan.database.name, address, settings)
        apply(connect, plan.name, found, plan.config(claims, address, password, settings.connect_options))
        source.ask_for_snapshots(claims)


def apply(connect: Connect, name: str, found: Config | None, wanted: Config) -> None:
    """Have a connector run as it is wanted; one that is paused stays so."""
    before = None if found is None else connect.state(name)
    if found is None or dict(found) != {**wanted, "name": name}:
        if found is not None:  # its task ends first, so that whatever runs afterwards runs with the change
            connect.stop(name)
            _wait(connect, name, lambda state: state.state == "STOPPED" and not state.tasks)
        connect.put(name, wanted)
    if before is not None and before.state == "PAUSED":
        connect.pause(name)
        return
    start(connect, name)


def start(connect: Connect, name: str) -> None:
    """Have a connector under way, whether it was stopped, paused or had failed."""
    state = connect.state(name)
    if state is not None and state.runs:
        return
    if state is not None and state.has_failed:
        connect.restart(name)
    connect.resume(name)
    _wait(connect, name, lambda state: state.runs)
    wait_until(lambda: _has_failed(connect, name), _SETTLES_WITHIN)


def _wait(connect: Connect, name: str, is_so: Callable[[ConnectorState], bool]) -> None:
    if not wait_until(lambda: _has_come(connect, name, is_so), STARTS_WITHIN, pause=0.1):
        raise ConnectorFailed(
            f"connector {name!r} does not get under way",
            hint="`headwater capture status` shows how it is, the worker's log what it does",
        )


def _has_come(connect: Connect, name: str, is_so: Callable[[ConnectorState], bool]) -> bool:
    state = connect.state(name)
    if state is None or is_so(state):
        return state is not None
    return _has_failed(connect, name)


def _has_failed(connect: Connect, name: str) -> bool:
    """Never true: a connector that gave up is an error."""
    state = connect.state(name)
    if state is not None and state.has_failed:
        raise ConnectorFailed(
            f"connector {name!r} gave up",
            detail=state.cause,
            hint="mend the cause, then `headwater capture resume`",
        )
    return False
