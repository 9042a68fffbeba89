"""What an embedded server is, and the one way to start, find and stop it.

A server is a small class (kafka.py, registry.py): which bundles it is made of, which ports it wants, how
its folder is prepared, what its command is and how one sees that it answers. All the rest, the
same for every server, stands here: a folder `<home>/<name>/` with `server.json` (who runs, on
which ports), `server.log` (what it said) and `data/`.

The laws: starting what runs changes nothing; whatever server.json says, only a process that is
really alive and really ours counts, and an answer only if that process gave it; a start that fails
leaves no process behind, and one that was killed on its way leaves none that the next start or stop
does not end.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from signal import Signals
from typing import Annotated, Literal, Protocol

import msgspec
from msgspec import Meta

from headwater import clock
from headwater.embedded.disk import need_room
from headwater.embedded.jars import Progress, fetch
from headwater.embedded.java import java
from headwater.embedded.ports import LOOPBACK, a_free_port, is_free, who_listens
from headwater.embedded.process import Identity, end_strays, environment, spawn
from headwater.errors import PortTaken, ServerFailed
from headwater.settings import Settings

START_WITHIN = timedelta(seconds=60)
STOP_WITHIN = timedelta(seconds=20)
ROOM_NEEDED = 512 * 1024 * 1024
_BIND_FAILED = ("already in use", "BindException", "seems to be in use")  # Kafka, Java, Quarkus
_ATTEMPTS = 3

EndsOn = Literal["SIGTERM", "SIGINT", "SIGKILL"]
"""The signal that ends a server without waiting for its clients."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where one start of a server happens: its folder, its files (by bundle) and its ports."""

    folder: Path
    bundles: Mapping[str, Path]
    java: Path
    ports: Mapping[str, int]
    settings: Settings

    @property
    def data(self) -> Path:
        """The folder that the server keeps its data in."""
        return self.folder / "data"

    @property
    def environment(self) -> dict[str, str]:
        """The environment of everything that is started here."""
        return environment(self.folder)


class Server(Protocol):
    """One kind of embedded server."""

    @property
    def name(self) -> str:
        """Its name and its folder's."""

    @property
    def bundles(self) -> Sequence[str]:
        """The bundles that it is made of."""

    @property
    def usual_port(self) -> int:
        """The port that its clients expect, taken when it is free."""

    @property
    def other_ports(self) -> Sequence[str]:
        """Names of further ports that it needs; any free ones will do."""

    @property
    def ends_on(self) -> EndsOn:
        """The signal that ends it."""

    def wanted_port(self, settings: Settings) -> int | None:
        """The port that the user insists on."""

    def prepare(self, place: Place) -> Sequence[str | Path]:
        """Write what it needs into its folder and tell the command that starts it."""

    def answers(self, port: int) -> bool:
        """Whether it serves its clients on this port now."""


@dataclass(frozen=True, kw_only=True)
class Running:
    """A server as server.json knows it."""

    name: str
    port: Annotated[int, Meta(ge=1, le=65535)]
    pid: Annotated[int, Meta(ge=1)]
    created: float
    started_at: str
    ends_on: EndsOn = "SIGTERM"

    @property
    def identity(self) -> Identity:
        """The process that was started."""
        return Identity(pid=self.pid, created=self.created)

    @property
    def address(self) -> str:
        """Where its clients find it."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def since(self) -> datetime:
        """When it was started."""
        return datetime.fromisoformat(self.started_at)


def recorded(name: str, settings: Settings) -> Running | None:
    """What server.json says, whether or not it still runs; an unreadable file says nothing."""
    try:
        said = (settings.home / name / "server.json").read_bytes()
        return msgspec.json.decode(said, type=Running)
    except (OSError, msgspec.DecodeError):
        return None


def running(name: str, settings: Settings) -> Running | None:
    """The server if it is alive and this home's; a copied server.json tells of another home's."""
    found = recorded(name, settings)
    return found if found and found.identity.works_in(settings.home / name) else None


def serves(server: Server, found: Running) -> bool:
    """Whether it answers, and not a stranger who has its port."""
    return found.identity.listens_on(found.port) and server.answers(found.port)


def start(server: Server, settings: Settings, progress: Progress) -> Running:
    """The server, running: the one that runs already, or a new one over the same data."""
    alive = running(server.name, settings)
    if alive and _stays(server, alive, settings):
        return alive
    program = java(settings)
    bundles = {one: fetch(one, settings, progress).absolute() for one in server.bundles}
    folder = settings.home / server.name
    folder.mkdir(parents=True, exist_ok=True)
    need_room(folder, ROOM_NEEDED, "HEADWATER_HOME")
    end_strays(folder, STOP_WITHIN)
    for attempt in range(1, _ATTEMPTS + 1):
        ports = {"main": _choose_port(server, settings)} | {one: a_free_port() for one in server.other_ports}
        place = Place(
            folder=folder.resolve(),
            bundles=bundles,
            java=program.absolute(),
            ports=ports,
            settings=settings,
        )
        try:
            return _launch(server, place, settings)
        except ServerFailed:  # a port can be taken between our look and the server's
            if attempt == _ATTEMPTS or not _lost_a_port(folder / "server.log"):
                raise
    raise AssertionError("unreachable")


def stop(name: str, settings: Settings) -> bool:
    """End the server if it runs; tells whether it ran."""
    alive = running(name, settings)
    if alive:
        alive.identity.stop(STOP_WITHIN, Signals[alive.ends_on])
    strays = end_strays(settings.home / name, STOP_WITHIN)
    return alive is not None or strays


def _launch(server: Server, place: Place, settings: Settings) -> Running:
    log = place.folder / "server.log"
    log.unlink(missing_ok=True)
    command = server.prepare(place)
    identity = spawn(command, log=log, cwd=place.folder, env=place.environment)
    started = Running(
        name=server.name,
        port=place.ports["main"],
        pid=identity.pid,
        created=identity.created,
        started_at=clock.now().isoformat(timespec="seconds"),
        ends_on=server.ends_on,
    )
    _write(place.folder / "server.json", json.dumps(asdict(started)))
    try:
        _wait_for(server, started, settings)
    except BaseException:
        identity.stop(STOP_WITHIN)
        raise
    return started


def _stays(server: Server, alive: Running, settings: Settings) -> bool:
    """Whether a running server answers; False when it ends meanwhile, as one just killed does."""
    try:
        _wait_for(server, alive, settings)
    except ServerFailed:
        if alive.identity.is_alive:
            raise
        return False
    return True


def _wait_for(server: Server, started: Running, settings: Settings) -> None:
    alive = started.identity

    def settled() -> bool:
        return not alive.is_alive or serves(server, started)

    in_time = clock.wait_until(settled, START_WITHIN)
    if in_time and alive.is_alive:
        return
    log = settings.home / server.name / "server.log"
    seconds = int(START_WITHIN.total_seconds())
    what = f"did not answer within {seconds} s" if alive.is_alive else "ended while it started"
    raise ServerFailed(f"{server.name} {what}", detail=_reason(log), hint=f"its whole log: {log}")


def _lost_a_port(log: Path) -> bool:
    return any(sign in line for line in _lines(log) for sign in _BIND_FAILED)


def _lines(log: Path) -> list[str]:
    return log.read_text(errors="replace").splitlines() if log.exists() else []


def _reason(log: Path) -> str:
    lines = _lines(log)
    telling = [line for line in lines if "ERROR" in line or "FATAL" in line or "Exception" in line]
    return "\n".join(line[:200] for line in (telling or lines)[-5:])


def _choose_port(server: Server, settings: Settings) -> int:
    wanted = server.wanted_port(settings)
    if wanted is not None:
        if not is_free(wanted):
            raise PortTaken(
                f"port {wanted} is taken by {who_listens(wanted)}",
                hint=f"leave HEADWATER_{server.name.upper()}_PORT unset and {server.name} takes a free one",
            )
        return wanted
    before = recorded(server.name, settings)
    for port in (before.port if before else None, server.usual_port):
        if port is not None and is_free(port):
            return port
    return a_free_port()


def _write(file: Path, text: str) -> None:
    partial = file.with_suffix(".partial")
    partial.write_text(text)
    partial.replace(file)
