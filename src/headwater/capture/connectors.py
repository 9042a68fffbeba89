"""Connectors: made, changed, started, and waited for.

A connector is changed while its task has ended, so that whatever runs afterwards runs with the change: a
signal that comes later is read by nobody else.
"""

from collections.abc import Callable
from datetime import timedelta

from headwater.capture.connect import Config, Connect, ConnectorState
from headwater.clock import wait_until
from headwater.errors import ConnectorFailed

STARTS_WITHIN = timedelta(seconds=90)
_SETTLES_WITHIN = timedelta(seconds=1)


def apply(connect: Connect, name: str, wanted: Config) -> None:
    """Have a connector that is there run as it is wanted; one that is paused stays so."""
    was_paused = (state := connect.state(name)) is not None and state.state == "PAUSED"
    if dict(connect.config(name) or {}) != {**wanted, "name": name}:
        stop(connect, name)
        connect.put(name, wanted)
    if was_paused:
        connect.pause(name)
    else:
        start(connect, name)


def start(connect: Connect, name: str) -> None:
    """Have a connector under way, whether it was stopped, paused or had failed."""
    state = connect.state(name)
    if state is not None and state.runs:
        return
    if state is not None and state.has_failed:
        connect.restart(name)
    connect.resume(name)
    _wait(connect, name, _runs)
    wait_until(lambda: not _runs(connect.state(name)), _SETTLES_WITHIN)


def stop(connect: Connect, name: str) -> None:
    """Have its task ended, however it is."""
    connect.stop(name)
    _wait(connect, name, _has_stopped)


def _wait(connect: Connect, name: str, is_so: Callable[[ConnectorState | None], bool]) -> None:
    if not wait_until(lambda: is_so(connect.state(name)), STARTS_WITHIN, pause=0.1):
        raise ConnectorFailed(
            f"connector {name!r} does not get under way",
            hint="`headwater capture status` shows how it is, the worker's log what it does",
        )


def _has_stopped(state: ConnectorState | None) -> bool:
    return state is not None and state.state == "STOPPED" and not state.tasks


def _runs(state: ConnectorState | None) -> bool:
    """Whether it is under way; ConnectorFailed when it gave up."""
    if state is not None and state.has_failed:
        raise ConnectorFailed(
            f"connector {state.name!r} gave up",
            detail=state.cause,
            hint="mend the cause, then `headwater capture resume`; if the database has thrown changes away: "
            "`headwater capture remove --slot`, and capture anew",
        )
    return state is not None and state.runs
