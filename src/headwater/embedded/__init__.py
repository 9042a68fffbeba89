"""Real servers for one machine, started and stopped as one.

`up`, `down` and `status` hold a lock on the home, so that two of them at once take turns and the
second finds what the first has done.
"""

import fcntl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

from headwater import clock
from headwater.embedded.addresses import (
    anywhere,
    connect_url,
    kafka_address,
    mariadb_url,
    postgres_url,
    redis_url,
    registry_url,
    search_url,
)
from headwater.embedded.connect import Connect
from headwater.embedded.disk import writing
from headwater.embedded.jars import Progress, fetch_all
from headwater.embedded.kafka import Kafka
from headwater.embedded.mariadb import MariaDB
from headwater.embedded.postgres import Postgres
from headwater.embedded.redis import Redis
from headwater.embedded.registry import Registry
from headwater.embedded.search import Search
from headwater.embedded.server import Running, Server, recorded, running, serves, start, stop
from headwater.errors import HomeBusy
from headwater.settings import Settings

__all__ = [
    "SERVERS",
    "State",
    "anywhere",
    "connect_url",
    "down",
    "kafka_address",
    "mariadb_url",
    "postgres_url",
    "redis_url",
    "registry_url",
    "search_url",
    "status",
    "up",
]

_ALL: tuple[Server, ...] = (Kafka(), Registry(), Postgres(), MariaDB(), Redis(), Search(), Connect())
SERVERS: dict[str, Server] = {one.name: one for one in _ALL}
"""Every embedded server, in the order in which they start."""

_VARIABLE = "HEADWATER_HOME"
WAIT_FOR_OTHERS = timedelta(minutes=5)


@dataclass(frozen=True, kw_only=True)
class State:
    """One server as `status` shows it."""

    name: str
    state: str
    address: str
    pid: int | None
    resident_bytes: int


def up(settings: Settings, servers: Sequence[Server], progress: Progress) -> list[Running]:
    """Start these servers; those that run are left as they are."""
    with writing(settings.home, _VARIABLE), _home_held(settings):
        stopped = [one for one in servers if running(one.name, settings) is None]
        fetch_all([bundle for one in stopped for bundle in one.bundles], settings, progress)
        return [start(server, settings, progress) for server in servers]


def down(settings: Settings) -> list[str]:
    """Stop all servers of this home, the last started first; tells which ones ran."""
    if not settings.home.exists():
        return []
    with writing(settings.home, _VARIABLE), _home_held(settings):
        return [name for name in reversed(SERVERS) if stop(name, settings)]


def status(settings: Settings) -> list[State]:
    """Every server of this home: running, stopped (by us), crashed, or never started."""
    return [_state(name, settings) for name in SERVERS]


def _state(name: str, settings: Settings) -> State:
    found = recorded(name, settings)
    if found is None:
        return State(name=name, state="never started", address="", pid=None, resident_bytes=0)
    if running(name, settings) is None:
        return State(name=name, state="stopped", address=found.address, pid=None, resident_bytes=0)
    return State(
        name=name,
        state="running" if serves(SERVERS[name], found) else "not answering",
        address=found.address,
        pid=found.pid,
        resident_bytes=found.identity.resident_bytes,
    )


@contextmanager
def _home_held(settings: Settings) -> Iterator[None]:
    settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)  # data and logs are nobody else's
    with (settings.home / "lock").open("w") as handle:
        if not clock.wait_until(lambda: _locked(handle.fileno()), WAIT_FOR_OTHERS):
            raise HomeBusy(
                f"another headwater command holds {settings.home}",
                hint="wait for it, or end it; a lock of a dead process is released by itself",
            )
        yield


def _locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
