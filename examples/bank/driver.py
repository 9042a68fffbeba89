"""`headwater run bank.py` as the demo sees it: started, watched by the JSON that it prints, killed."""

import json
import subprocess
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BANK = Path(__file__).with_name("bank.py")


@dataclass
class Driver:
    """The app with its Spark and its workers, and the newest figures of the pipelines that have read."""

    command: str
    environment: dict[str, str]
    log: Path
    figures: dict[str, dict[str, Any]] = field(default_factory=dict)
    _process: "subprocess.Popen[bytes] | None" = None
    _read: int = 0

    def start(self) -> None:
        """Run the app, in a process group of its own: an interrupt is for the demo alone."""
        with self.log.open("a") as lines:
            self._process = subprocess.Popen(
                [self.command, "run", str(BANK), "--json"],
                env=self.environment,
                stdout=lines,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill(self) -> None:
        """kill -9 of the driver; its Spark ends with it."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._process = None
        self.look()
        self.figures.clear()

    def stop(self) -> None:
        """Let it finish the batches in hand."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()

    def look(self) -> None:
        """Take in what it has printed meanwhile; SystemExit if it has ended by itself."""
        with self.log.open("rb") as lines:
            lines.seek(self._read)
            for line in lines:
                if line.endswith(b"\n"):
                    self._read += len(line)
                    self._take(line)
        if self._process is not None and self._process.poll() is not None:
            raise SystemExit(f"the app has ended by itself:\n{self.log.read_text()[-3000:]}")

    def figure(self, pipeline: str, name: str) -> int:
        """A figure of a pipeline since the app was started; -1 as long as it has read nothing."""
        return int(self.figures.get(pipeline, {name: -1})[name])

    def _take(self, line: bytes) -> None:
        with suppress(json.JSONDecodeError):  # a note for people
            told = json.loads(line)
            if told.get("batch") is not None:  # a connector has none
                self.figures[told["pipeline"]] = told
