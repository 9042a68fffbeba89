"""Kill -9 against capture: Connect, the broker, PostgreSQL, Spark's driver, and the stores of the copies.

Clients write to PostgreSQL all the while. In each round every one of them dies once, in any order, at a
random moment, and is started again as its user would. A round ends when a mark that is committed then is in
every copy. At the end the table, its compacted topic and its copies must be equal row by row, the history of
each row without a gap or a repetition, every transaction whole, and its event in its topic exactly once.

    make chaos                                      20 rounds
    .venv/bin/python -m bench.chaos_capture 3       3 rounds

The last line is one JSON object; `killed` shows that the kills really hit.
"""

import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.chaos_capture_app import COPIES
from bench.chaos_judge import judged
from bench.chaos_load import Load
from bench.driver import Driver
from headwater import Settings, embedded
from headwater.clock import wait_until
from headwater.embedded.ports import a_free_port
from headwater.embedded.server import running
from headwater.errors import HeadwaterError

APP = Path(__file__).with_name("chaos_capture_app.py")
SERVERS = ("kafka", "postgres", "redis", "search", "connect")
VICTIMS = ("connect", "kafka", "postgres", "driver")
STORES = ("redis", "search")
WRONG = ("forgotten", "differing", "broken", "torn", "misplaced", "lost", "doubled", "invented")
SOON = timedelta(minutes=5)
SAY = Console(stderr=True)


def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        settings = home(Path(folder))
        up(settings, *SERVERS)
        try:
            found = run(settings, rounds)
        finally:
            embedded.down(settings)
    SAY.print(found)
    print(json.dumps(found))
    if any(found[name] for name in WRONG):
        raise SystemExit(1)


def home(folder: Path) -> Settings:
    """A home whose servers find the same ports again."""
    return Settings(
        home=folder,
        kafka_port=a_free_port(),
        postgres_port=a_free_port(),
        redis_port=a_free_port(),
        search_port=a_free_port(),
        connect_port=a_free_port(),
    )


def up(settings: Settings, *names: str) -> None:
    embedded.up(settings, [embedded.SERVERS[one] for one in names], lambda *_: None)


def run(settings: Settings, rounds: int, seed: int | None = None) -> dict[str, Any]:
    """That many rounds; what was lost, doubled or wrong in the end."""
    seed = random.randrange(10_000) if seed is None else seed
    chaos = Chaos(settings, seed)
    chaos.load.start()
    try:
        chaos.driver.start()
        chaos.recover("begin")
        chaos.load.is_captured()
        for number in range(rounds):
            chaos.round(number)
        chaos.load.end()
        chaos.recover("end")
        found = judged(settings, chaos.load)
    except BaseException:
        chaos.load.end()
        if not chaos.driver.has_ended:
            chaos.driver.kill(with_family=True)
        raise
    code = chaos.driver.finish()
    if code:
        raise SystemExit(chaos.driver.said())
    return {"seed": seed, "rounds": rounds, "killed": dict(chaos.killed)} | chaos.figures | found


class Chaos:
    """A system under load, whose parts die and are started again."""

    def __init__(self, settings: Settings, seed: int) -> None:
        self.killed = Counter[str]()
        self.load = Load(embedded.postgres_url(settings) or "", seed)
        self.driver = Driver(settings, APP)
        self._settings, self._chance = settings, random.Random(seed)
        self._slowest = 0.0
        self._restarts = 0

    @property
    def figures(self) -> dict[str, Any]:
        return {"slowest_recovery_s": round(self._slowest, 1), "driver_restarts": self._restarts}

    def round(self, number: int) -> None:
        """Each dies once; of the stores, one a round."""
        victims = [*VICTIMS, STORES[number % len(STORES)]]
        self._chance.shuffle(victims)
        SAY.print(f"round {number + 1}: {', '.join(victims)}")
        for one in victims:
            self._pause(1.5)
            self._supervise()
            self._kill(one)
        self.recover(f"round {number + 1}")

    def recover(self, mark: str) -> None:
        """Return when a mark that is committed now is in every copy."""
        began = time.monotonic()
        self.load.mark(mark)
        if not wait_until(lambda: self._shows(mark), SOON, pause=0.25):
            raise SystemExit(f"{mark}: not in every copy within {SOON}\n{self.driver.said()}")
        self._slowest = max(self._slowest, took := time.monotonic() - began)
        SAY.print(f"{mark}: in every copy after {took:.1f} s")

    def _shows(self, mark: str) -> bool:
        """Whether every copy shows it."""
        self._supervise()
        try:
            return all(mark in row.values() for row in self._marked())
        except HeadwaterError:  # a copy that is not there yet
            return False

    def _supervise(self) -> None:
        """Start the driver again if it has ended: where a server is away, it says so and does not wait."""
        if self.driver.has_ended:
            SAY.print(f"the driver ended: {self.driver.said()[-400:]}")
            self._restarts += 1
            self.driver.start()

    def _marked(self) -> Iterator[dict[str, Any]]:
        """The row of every copy that bears the mark."""
        for table, copies in COPIES.items():
            for one in copies:
                found = one.read(table.columns, self._settings, [(0,) * len(table.keys)])
                yield next(iter(found), {})

    def _kill(self, victim: str) -> None:
        self.killed[victim] += 1
        if victim == "driver":
            if not self.driver.has_ended:
                self.driver.kill(with_family=True)
            self.driver.start()
            return
        found = running(victim, self._settings)
        assert found, f"{victim} is not running"
        os.kill(found.pid, signal.SIGKILL)
        self._pause(1)
        up(self._settings, victim)

    def _pause(self, longest: float) -> None:
        time.sleep(self._chance.random() * longest)  # a random moment is the point


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
