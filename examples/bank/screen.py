"""The terminal: what has happened stays there, and what is going on is drawn under it."""

import time
from collections.abc import Callable
from datetime import timedelta

from rich.console import Console, RenderableType
from rich.live import Live

from headwater.clock import Deadline

A_WHILE = timedelta(minutes=4)


class Screen:
    """A console that tells the time of what happens; into a pipe it draws nothing."""

    def __init__(self) -> None:
        self.console = Console(highlight=False)
        self._began = time.monotonic()

    def tell(self, what: str) -> None:
        """Say what has happened, and when."""
        self.console.print(f"{time.monotonic() - self._began:5.1f} s  {what}", soft_wrap=True)

    def wait(
        self, until: Callable[[], bool], picture: Callable[[], RenderableType], pause: float = 0.25
    ) -> None:
        """Draw what is going on until the condition holds, which it must within a while."""
        deadline = Deadline(A_WHILE)
        with Live(console=self.console, auto_refresh=False, transient=True) as live:
            while not until():
                if deadline.passed:
                    raise SystemExit(f"what should have happened did not within {A_WHILE}")
                if self.console.is_terminal:
                    live.update(picture(), refresh=True)
                time.sleep(pause)
