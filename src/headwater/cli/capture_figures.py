"""How connectors are, in the forms in which `capture status` and `run` tell it."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from headwater import clock
from headwater.cli.output import counted

if TYPE_CHECKING:
    from headwater.capture.health import Health
    from headwater.run.captures import CaptureFigures

_SHOWN = ("connector", "state", "tables", "slot", "position", "lag_bytes", "lag_s", "retained_bytes")
_SAID = ("position", "lag_bytes", "lag_s", "retained_bytes", "limit_bytes", "slot")


def row_of(health: "Health") -> dict[str, Any]:
    """A connector as a line of a table."""
    row = asdict(health)
    return {name: row[name] for name in _SHOWN} | {"tables": counted(len(health.tables), "table")}


def as_row(one: "CaptureFigures") -> dict[str, Any]:
    """The same beside a running app, which knows how often it started it again."""
    return row_of(one.health) | {"restarts": one.restarts}


def troubles_of(one: "CaptureFigures") -> Iterator[str]:
    """What somebody should look at, a line each."""
    connector = one.health.connector
    if one.error:
        yield f"{connector}: {one.error.splitlines()[0]}"
    else:
        yield from (f"{connector}: {why}" for why in one.health.alerts())


def news_of(one: "CaptureFigures", told: dict[str, tuple[Any, ...]], *, as_json: bool) -> str:
    """A line for a log, when something has changed since the last one."""
    health = one.health
    news = health.state, health.slot, health.position, one.restarts, one.error
    if told.get(health.connector) == news:
        return ""
    told[health.connector] = news
    return json.dumps(_fields(one)) if as_json else _line(one)


def _fields(one: "CaptureFigures") -> dict[str, Any]:
    alerts = [] if one.error else list(one.health.alerts())
    more = {"restarts": one.restarts, "error": one.error, "alerts": alerts}
    return {**asdict(one.health), **more, "at": clock.now().isoformat()}


def _line(one: "CaptureFigures") -> str:
    """`2026-11-16T10:00:01Z headwater-shop running position=0/1A2B lag_bytes=56 …`."""
    said = {name: value for name, value in asdict(one.health).items() if name in _SAID}
    figures = " ".join(f"{name}={'-' if said[name] is None else said[name]}" for name in _SAID)
    troubles = [one.error] if one.error else list(one.health.alerts())
    tail = "".join(f" error={json.dumps(said)}" for said in troubles)
    at = f"{clock.now():%Y-%m-%dT%H:%M:%S}Z"
    return f"{at} {one.health.connector} {one.health.state} {figures} restarts={one.restarts}{tail}"
