"""A server's process: started apart from us, recognised again later, stopped by pid.

A pid alone is not an identity, because the system gives it out again: what we write down is the
pid with the moment the process was created, and only a process that matches both is ours.

Whoever starts a server can be killed before it has written anything down. So each process carries
the folder that it works in in its environment, and one that nobody knows of is found by that.
"""

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import psutil

from headwater.clock import wait_until


@dataclass(frozen=True, kw_only=True)
class Identity:
    """A process that can be told from a later one with the same pid."""

    pid: int
    created: float

    @classmethod
    def of(cls, pid: int) -> "Identity":
        """The identity of a living process."""
        return cls(pid=pid, created=psutil.Process(pid).create_time())

    @property
    def is_alive(self) -> bool:
        """Whether this very process still runs."""
        return self._process() is not None

    @property
    def resident_bytes(self) -> int:
        """The memory that it holds; 0 when it has ended."""
        process = self._process()
        return process.memory_info().rss if process else 0

    def stop(self, within: timedelta) -> None:
        """Ask it to end, and end it when it does not."""
        process = self._process()
        if process is None:
            return
        process.terminate()
        if not wait_until(lambda: not self.is_alive, within):
            process.kill()
            wait_until(lambda: not self.is_alive, timedelta(seconds=10))

    def _process(self) -> psutil.Process | None:
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.created) < 1
            return process if same and process.status() != psutil.STATUS_ZOMBIE else None
        except psutil.Error:  # gone, or not ours to see
            return None


_MARK = "SERVER_OF_FOLDER"


def environment(folder: Path) -> dict[str, str]:
    """Ours for a process that works in `folder`: marked, and without what would change a server."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KAFKA_", "LOG4J_"))}
    return kept | {_MARK: str(folder.resolve())}


def started_for(folder: Path) -> list[Identity]:
    """Every living process that was started to work in `folder`, whoever knows of it."""
    wanted = str(folder.resolve())
    return [found for one in psutil.process_iter() if (found := _marked(one, wanted))]


def end_strays(folder: Path, within: timedelta) -> bool:
    """End whatever works in `folder`: its starter was killed. Tells whether there was anything."""
    strays = started_for(folder)
    for one in strays:
        one.stop(within)
    return bool(strays)


def _marked(process: psutil.Process, mark: str) -> Identity | None:
    try:
        return Identity.of(process.pid) if process.environ().get(_MARK) == mark else None
    except (psutil.Error, OSError):  # another user's, or gone
        return None


def spawn(command: Sequence[str | Path], *, log: Path, cwd: Path, env: Mapping[str, str]) -> Identity:
    """Start a process of its own session, so that it outlives this one; its words go to `log`."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    process.returncode = 0  # it is meant to outlive this object, which would warn otherwise
    return Identity.of(process.pid)
