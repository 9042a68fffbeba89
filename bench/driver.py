"""`headwater run` as a program of its own: started, heard, killed with -9 and started again."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from headwater import Settings


class Driver:
    """An app's `headwater run` in a process of its own, with the lines that it prints."""

    def __init__(self, settings: Settings, app: Path) -> None:
        self._settings, self._app = settings, app
        self._lines = settings.home / "lines.jsonl"
        self._log = settings.home / "driver.log"

    def start(self, *more: str) -> None:
        environment = {"HEADWATER_HOME": str(self._settings.home)}
        environment |= {"HEADWATER_KAFKA_PORT": str(self._settings.kafka_port)}
        command = [str(Path(sys.executable).with_name("headwater")), "run", str(self._app), "--json", *more]
        with self._lines.open("a") as lines, self._log.open("a") as errors:
            self.process = subprocess.Popen(
                command, env=os.environ | environment, stdout=lines, stderr=errors, start_new_session=True
            )

    @property
    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def told(self) -> list[dict[str, Any]]:
        lines = self._lines.read_text().splitlines() if self._lines.exists() else []
        return [json.loads(line) for line in lines if line.endswith("}")]

    def batches(self) -> int:
        return sum(1 for one in self.told() if one.get("batch") is not None)

    def said(self) -> str:
        """The end of what it said for people."""
        return self._log.read_text()[-3000:]

    def finish(self) -> int:
        """End it as its user would; tells its exit code."""
        self.process.terminate()
        return self.process.wait(180)

    def kill(self, *, with_family: bool = False) -> None:
        """Kill it with -9; its JVM and its workers notice, or are killed with it."""
        family = psutil.Process(self.process.pid).children(recursive=True)
        self.process.send_signal(signal.SIGKILL)
        for one in family if with_family else ():
            with suppress(psutil.NoSuchProcess):
                one.kill()
        self.process.wait()
        _, alive = psutil.wait_procs(family, timeout=20)
        if alive:
            raise SystemExit(f"a killed driver left {[one.name() for one in alive]} running")

    def workers(self) -> list[psutil.Process]:
        found = psutil.Process(self.process.pid).children(recursive=True)
        daemons = [one for one in found if _says(one, ".daemon")]
        return [one for one in daemons if any(one.ppid() == other.pid for other in daemons)]


def _says(process: psutil.Process, word: str) -> bool:
    try:
        return word in " ".join(process.cmdline())
    except psutil.Error:
        return False
