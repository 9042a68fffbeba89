"""PostgreSQL, ready for capture: logical decoding is on, and there are slots for it.

It listens on loopback only and asks for a password (SCRAM), which stands in the server's folder. The
data folder appears by one rename, when the cluster in it and its database are made.
"""

import shutil
import socket
import struct
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import psutil

from headwater.embedded.jars import unpacked
from headwater.embedded.nobody import as_nobody, need_database_machine, own_folder
from headwater.embedded.passwords import password, password_file
from headwater.embedded.ports import LOOPBACK
from headwater.embedded.process import Identity
from headwater.embedded.server import EndsOn, Place
from headwater.errors import ServerFailed
from headwater.settings import Settings

USER = DATABASE = "headwater"
_INITDB = (
    *("--auth=scram-sha-256", "--encoding=UTF8", "--no-instructions"),
    *("--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
)
_PROTOCOL = 3 << 16
_GONE_WITHIN = timedelta(seconds=10)


@dataclass(frozen=True, kw_only=True)
class Postgres:
    """A PostgreSQL on one machine; `properties` are laid over our settings of it."""

    properties: Mapping[str, str] = field(default_factory=dict)
    name: str = "postgres"
    bundles: Sequence[str] = ("postgres",)
    usual_port: int = 5432
    other_ports: Sequence[str] = ()
    ends_on: EndsOn = "SIGINT"  # SIGTERM would wait for every client to leave

    def wanted_port(self, settings: Settings) -> int | None:
        """The port that the user insists on."""
        return settings.postgres_port

    def prepare(self, place: Place) -> Sequence[str | Path]:
        """Make the cluster once, end what a killed server has left, tell its command."""
        need_database_machine(self.name)
        programs = unpacked(next(place.bundles[self.name].glob("*.jar"))) / "bin"
        if not place.data.exists():
            _make(place, programs)
        own_folder(place.data)
        _end_orphans(place)
        lines = {**_properties(place), **self.properties}
        options = [word for name, value in lines.items() for word in ("-c", f"{name}={value}")]
        return as_nobody([programs / "postgres", "-D", place.data, *options])

    def answers(self, port: int) -> bool:
        """Whether it asks who is there; while it starts or recovers it turns everybody away."""
        said = f"user\0{USER}\0database\0{DATABASE}\0\0".encode()
        hello = struct.pack("!II", len(said) + 8, _PROTOCOL) + said
        try:
            with socket.create_connection((LOOPBACK, port), timeout=1) as connection:
                connection.sendall(hello)
                return connection.recv(1) == b"R"
        except OSError:
            return False


def _properties(place: Place) -> dict[str, str]:
    return {
        "listen_addresses": LOOPBACK,
        "port": str(place.ports["main"]),
        "unix_socket_directories": "",
        "wal_level": "logical",
        "max_wal_senders": "20",
        "max_replication_slots": "20",
        "shared_buffers": "64MB",
        "log_line_prefix": "%m ",
        "timezone": "UTC",
        "log_timezone": "UTC",
    }


def _make(place: Place, programs: Path) -> None:
    partial = place.folder / "data.partial"
    shutil.rmtree(partial, ignore_errors=True)
    own_folder(partial)
    password(place.folder)
    secret = f"--pwfile={password_file(place.folder)}"
    _run([programs / "initdb", "-D", partial, "-U", USER, secret, *_INITDB], place)
    _run([programs / "postgres", "--single", "-D", partial, "postgres"], place, f"CREATE DATABASE {DATABASE}")
    partial.rename(place.data)


def _run(command: Sequence[str | Path], place: Place, given: str = "") -> None:
    done = subprocess.run(
        as_nobody(command),
        input=given,
        capture_output=True,
        text=True,
        check=False,
        cwd=place.folder,
        env=place.environment,
    )
    if done.returncode:
        raise ServerFailed(
            "postgres could not make its database",
            detail="\n".join((done.stdout + done.stderr).splitlines()[-5:]),
            hint=f"is {place.folder} on a disk that keeps owners and rights of files?",
        )


def _end_orphans(place: Place) -> None:
    """End what outlived a killed server; it bears no mark, because PostgreSQL writes over its environment.

    When nobody is left, the file that says who is there is stale, whoever has its pid by now.
    """
    for one in psutil.process_iter():
        try:
            if one.name() == "postgres" and one.cwd() == str(place.data):
                Identity.of(one.pid).stop(_GONE_WITHIN)
        except (psutil.Error, OSError):  # gone, or not ours to see
            continue
    (place.data / "postmaster.pid").unlink(missing_ok=True)
