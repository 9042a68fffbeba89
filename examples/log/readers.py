"""The three readers as the demo sees them: started, watched, killed and started again."""

import json
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

READER = Path(__file__).with_name("reader.py")


@dataclass
class Reader:
    """A group with one reader process, and what that process said it has done."""

    group: str
    pace: int
    environment: dict[str, str]
    done: Counter[int] = field(default_factory=Counter)
    state: str = "starting"
    process: subprocess.Popen[str] | None = None
    away_for: float = 0.0

    def start(self) -> None:
        command = [sys.executable, str(READER), self.group, str(self.pace)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=self.environment)
        Thread(target=self._listen, args=(self.process,), daemon=True).start()

    def kill(self) -> None:
        """kill -9, and another process takes the place of the dead one at once."""
        self.stop()
        self.state = "killed"
        before = time.monotonic()
        self.start()
        Thread(target=self._measure, args=(before, self.done.total()), daemon=True).start()

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                self.done.update(json.loads(line))
                self.state = "reading"

    def _measure(self, before: float, done: int) -> None:
        while self.done.total() == done:
            time.sleep(0.05)
        self.away_for = time.monotonic() - before
