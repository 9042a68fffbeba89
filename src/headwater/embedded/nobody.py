"""Servers that refuse to run as root (PostgreSQL, OpenSearch, MariaDB), started by root all the same.

They run as the user nobody, own nothing but their data folder, and keep one right: to read what
root may read, because the home and the cache are often in folders that are closed to everybody else.
Whoever is not root starts them as himself, and none of this happens.

We know our processes by looking into them, which root may do with another user's only by the right
to trace; a container often takes that away.
"""

import os
import platform
import shutil
from collections.abc import Sequence
from pathlib import Path

from headwater.errors import ServerUnavailable

NOBODY = 65534
_RIGHTS = {
    "CHOWN": 0,
    "DAC_READ_SEARCH": 2,
    "KILL": 5,
    "SETGID": 6,
    "SETUID": 7,
    "SETPCAP": 8,
    "SYS_PTRACE": 19,
}
_ACCESS = "--securebits=+no_setuid_fixup"  # without it access(2), which PostgreSQL asks, forgets the right


def as_nobody(command: Sequence[str | Path]) -> list[str | Path]:
    """The command as it is, or for root one that gives up being root first."""
    if os.geteuid() != 0:
        return list(command)
    who = (f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--no-new-privs", _ACCESS)
    right = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
    return ["setpriv", *who, *right, "--", *command]


def own_folder(folder: Path) -> Path:
    """The folder, made, and for root handed over to nobody with all that is in it."""
    folder.mkdir(mode=0o700, exist_ok=True)
    if os.geteuid() == 0:
        for one in (folder, *folder.rglob("*")):
            os.chown(one, NOBODY, NOBODY, follow_symlinks=False)
    return folder


def need_database_machine(name: str) -> None:
    """ServerUnavailable unless the programs of a database run on this machine, for this user."""
    found = what_is_missing()
    if found:
        reason, hint = found
        raise ServerUnavailable(f"{name} cannot run here: {reason}", hint=hint)


def what_is_missing() -> tuple[str, str] | None:
    """Why programs built for Linux, and never for root, cannot run here, and what to do; None if they can."""
    machine = f"{platform.system()} {platform.machine()}"
    if machine != "Linux x86_64":
        return f"its files are for Linux x86_64, this is {machine}", "use a server of your own, by its URL"
    if os.geteuid() != 0:
        return None
    if not shutil.which("setpriv"):
        return "it refuses root, and there is no setpriv", "apt install util-linux, or be another user"
    lacking = [name for name, bit in _RIGHTS.items() if not _rights() >> bit & 1]
    if lacking:
        rights = " and ".join(lacking)
        return f"it refuses root, and this root has no {rights}", "be another user, or add these capabilities"
    return None


def _rights() -> int:
    """The effective capabilities of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1], 16) for line in lines if line.startswith("CapEff:"))
