"""The desk that works on alerts: it follows their topic, and looks each cardholder up in Redis.

So it reads a copy that capture keeps, and asks the bank's database nothing.
"""

from collections import deque
from dataclasses import dataclass, field
from datetime import datetime
from threading import Thread
from typing import Any

import redis

from bank import ALERTS
from headwater import Log


@dataclass(frozen=True)
class Case:
    """An alert, and the cardholder that it is about: nothing of one who has left the bank."""

    card: str
    opened_at: datetime
    payments: int
    holder: dict[str, str]


@dataclass
class Desk:
    """The newest cases, as they came in."""

    log: Log
    copy: str
    _newest: deque[Case] = field(default_factory=lambda: deque(maxlen=5))

    @property
    def newest(self) -> list[Case]:
        """The last five."""
        return list(self._newest)

    def open(self) -> None:
        """Work until the program ends."""
        Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        with redis.Redis.from_url(self.copy, decode_responses=True) as copy:
            for record in self.log.read(ALERTS, follow=True):
                self._newest.append(self._case(record.value, copy))

    def _case(self, alert: Any, copy: Any) -> Case:
        return Case(alert.card, alert.opened_at, alert.payments, copy.hgetall(f"cardholders:{alert.card}"))
