"""What this machine needs, looked at: each finding with what was found and the one command that mends it."""

import os
import shutil
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

from headwater.embedded import SERVERS
from headwater.embedded.java import OLDEST, find_java, java_version
from headwater.embedded.nobody import what_is_missing
from headwater.embedded.ports import is_free, who_listens
from headwater.embedded.server import Server, recorded, running
from headwater.errors import JavaMissing
from headwater.settings import Settings

MEMORY_NEEDED = 4 * 1024**3
DISK_NEEDED = 2 * 1024**3


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was looked at."""

    check: str
    is_well: bool
    found: str
    mend: str = ""


def examine(settings: Settings) -> list[Finding]:
    """Everything that a server or a pipeline will need, in the order in which to mend it."""
    found = [_python(), _java(settings), _spark(), _memory()]
    found += [_disk("disk for data", settings.home), _disk("disk for the cache", settings.cache)]
    found += [_databases()]
    return found + [_port(one, settings) for one in _with_ports(settings)]


def _python() -> Finding:
    return Finding(
        check="python",
        is_well=sys.version_info >= (3, 11),
        found=sys.version.split()[0],
        mend="" if sys.version_info >= (3, 11) else "install Python 3.11 or newer, then make setup",
    )


def _java(settings: Settings) -> Finding:
    try:
        program = find_java(settings)
        number = java_version(program)
    except JavaMissing as error:
        return Finding(check="java", is_well=False, found=error.message, mend=_JAVA)
    well = number >= OLDEST
    return Finding(check="java", is_well=well, found=f"Java {number} ({program})", mend="" if well else _JAVA)


_JAVA = "sudo apt install openjdk-17-jre-headless   (or brew install openjdk@17), or set JAVA_HOME"


def _spark() -> Finding:
    try:
        return Finding(check="spark", is_well=True, found=f"PySpark {version('pyspark')}")
    except PackageNotFoundError:
        return Finding(check="spark", is_well=False, found="no PySpark", mend="pip install headwater")


def _memory() -> Finding:
    free = psutil.virtual_memory().available
    well = free >= MEMORY_NEEDED
    mend = (
        ""
        if well
        else f"close something: {MEMORY_NEEDED / 1e9:.1f} GB free are wanted for Spark and the servers"
    )
    return Finding(check="memory", is_well=well, found=f"{free / 1e9:.1f} GB free", mend=mend)


def _disk(check: str, folder: Path) -> Finding:
    there = next(one for one in (folder.absolute(), *folder.absolute().parents) if os.path.lexists(one))
    if not there.is_dir() or not os.access(there, os.W_OK):
        mend = f"let HEADWATER_{_variable(check)} name a folder that you may write to"
        return Finding(check=check, is_well=False, found=f"{there} cannot be written to", mend=mend)
    free = shutil.disk_usage(there).free
    well = free >= DISK_NEEDED
    mend = "" if well else f"free {DISK_NEEDED / 1e9:.1f} GB there, or set HEADWATER_{_variable(check)}"
    return Finding(check=check, is_well=well, found=f"{free / 1e9:.1f} GB free ({folder})", mend=mend)


def _variable(check: str) -> str:
    return "CACHE" if check.endswith("cache") else "HOME"


def _databases() -> Finding:
    """Whether programs that refuse root run here; no illness, because nobody has to have them."""
    missing = what_is_missing()
    found = f"none of ours: {missing[0]}" if missing else "can run here"
    return Finding(check="databases", is_well=True, found=found)


def _with_ports(settings: Settings) -> list[Server]:
    """Kafka, and every other server whose port the user insists on."""
    usual = [SERVERS["kafka"]] * settings.is_embedded
    others = [one for name, one in SERVERS.items() if name != "kafka" and one.wanted_port(settings)]
    return usual + others


def _port(server: Server, settings: Settings) -> Finding:
    wanted, before = server.wanted_port(settings), recorded(server.name, settings)
    port = wanted or (before.port if before else server.usual_port)
    check = f"port of {server.name}"
    if running(server.name, settings):
        return Finding(check=check, is_well=True, found=f"{port}, ours")
    if is_free(port):
        return Finding(check=check, is_well=True, found=f"{port}, free")
    found = f"{port} is taken by {who_listens(port)}"
    if wanted is None:
        return Finding(check=check, is_well=True, found=found + "; another will be taken")
    return Finding(
        check=check, is_well=False, found=found, mend=f"unset HEADWATER_{server.name.upper()}_PORT"
    )
