"""A server's process: started apart from us, recognised again later, stopped by pid.

A pid alone is not an identity, because the system gives it out again: what we write down is the
pid with the moment the process was created, and only a process that matches both is ours.

Whoever starts a server can be killed before it has written anything down. So each process carries
a mark, the folder that it works in, in its environment, and one that nobody knows of is found by that.
The mark also tells whose a process is that is written down: a copied folder brings the pid along, but
the process goes on working in the first one.
"""

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from signal import Signals

import psutil

from headwater.clock import wait_until
from headwater.errors import ServerFailed

_MARK = "SERVER_OF_FOLDER"
_FOREIGN = ("KAFKA_", "LOG4J_", "HEADWATER_")
_KILLED_WITHIN = timedelta(seconds=10)
_listening: set[tuple["Identity", int]] = set()
"""What was seen to listen: to look costs milliseconds, and is asked for in every batch."""


@dataclass(frozen=True, kw_only=True)
class Identity:
    """A process that can be told from a later one with the same pid."""

    pid: int
    created: float

    @classmethod
    def of(cls, pid: int) -> "Identity":
        """The identity of a living process."""
        return cls(pid=pid, created=_since_boot(psutil.Process(pid)))

    @property
    def is_alive(self) -> bool:
        """Whether this very process still runs."""
        return self._process() is not None

    @property
    def resident_bytes(self) -> int:
        """The memory that it holds; 0 when it has ended."""
        process = self._process()
        try:
            return process.memory_info().rss if process else 0
        except psutil.Error:
            return 0

    def works_in(self, folder: Path) -> bool:
        """Whether it is alive and was started to work in `folder`."""
        process = self._process()
        return process is not None and _mark(process) == str(folder.resolve())

    def listens_on(self, port: int) -> bool:
        """Whether it is this process that listens there, or one that it started (java may be a script)."""
        process = self._process()
        if process is None:
            return False
        if (self, port) not in _listening and _one_listens(process, port):
            _listening.add((self, port))
        return (self, port) in _listening

    def stop(self, within: timedelta, signal: Signals = Signals.SIGTERM) -> None:
        """Ask it to end, and end it when it does not."""
        for end, patience in ((signal, within), (Signals.SIGKILL, _KILLED_WITHIN)):
            process = self._process()
            if process is None:
                return
            _tell(process, end)
            if wait_until(lambda: not self.is_alive, patience):
                return

    def _process(self) -> psutil.Process | None:
        try:
            process = psutil.Process(self.pid)
            same = abs(_since_boot(process) - self.created) < 1
            return process if same and process.status() != psutil.STATUS_ZOMBIE else None
        except psutil.Error:  # gone, or not ours to see
            return None


def _since_boot(process: psutil.Process) -> float:
    """When it was created, in seconds after the machine's start: the wall clock is set now and then."""
    return process.create_time() - psutil.boot_time()


def environment(folder: Path) -> dict[str, str]:
    """Ours for a process that works in `folder`: marked, without secrets and what would change a server."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
    return kept | {_MARK: str(folder.resolve())}


def started_for(folder: Path) -> list[Identity]:
    """Every living process that was started to work in `folder`, whoever knows of it."""
    wanted = str(folder.resolve())
    return [found for one in psutil.process_iter() if (found := _at_work(one, wanted))]


def end_strays(folder: Path, within: timedelta) -> bool:
    """End whatever works in `folder`: its starter was killed. Tells whether there was anything."""
    strays = started_for(folder)
    for one in strays:
        one.stop(within)
    return bool(strays)


def _at_work(process: psutil.Process, folder: str) -> Identity | None:
    """The process if it works in this folder: marked, which may be inherited, and really at it.

    One whose folder was moved is in the folder and bears the mark of the old one.
    """
    mark = _mark(process)
    try:
        here = mark and process.cwd() == folder
        named = mark == folder and any(folder in one for one in process.cmdline())
        return Identity.of(process.pid) if here or named else None
    except (psutil.Error, OSError):
        return None


def _mark(process: psutil.Process) -> str:
    try:
        return process.environ().get(_MARK, "")
    except (psutil.Error, OSError):  # another user's, or gone
        return ""


def _one_listens(process: psutil.Process, port: int) -> bool:
    try:
        return any(_listens(one, port) for one in (process, *process.children(recursive=True)))
    except psutil.Error:  # gone meanwhile
        return False


def _listens(process: psutil.Process, port: int) -> bool:
    return any(
        one.status == psutil.CONN_LISTEN and one.laddr.port == port
        for one in process.net_connections(kind="tcp")
    )


def _tell(process: psutil.Process, signal: Signals) -> None:
    try:
        process.send_signal(signal)
    except psutil.NoSuchProcess:
        pass
    except psutil.AccessDenied as error:
        raise ServerFailed(
            f"process {process.pid} is not ours to end", hint="end it as the user who started it"
        ) from error


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
