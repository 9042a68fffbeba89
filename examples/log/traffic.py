"""The traffic of the demo: numbered payments at a steady rate, from one idempotent writer."""

import random
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Event, Thread

from headwater import Log
from topics import PAYMENTS

RATE = 1_500


@dataclass
class Traffic:
    """Writes until it is told to stop; stopping waits until every payment is acknowledged."""

    log: Log
    appended: int = 0

    def __post_init__(self) -> None:
        self._stopped = Event()
        self._thread = Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        chance = random.Random(42)
        with self.log.writer() as writer:
            began = time.monotonic()
            while not self._stopped.is_set():
                due = int((time.monotonic() - began) * RATE)
                for number in range(self.appended, due):
                    writer.append(PAYMENTS, payment(number, chance))
                self.appended = max(due, self.appended)
                time.sleep(0.02)


def payment(number: int, chance: random.Random) -> dict[str, object]:
    card, amount = f"card-{chance.randrange(500):03}", round(chance.expovariate(1 / 40), 2)
    return {"card": card, "amount": amount, "number": number, "paid_at": datetime.now(UTC)}
