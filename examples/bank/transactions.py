"""A day's transactions out of a seed, with the truth: what must become of each is known before it is sent.

The bank's clock runs `SPEED` times as fast as ours. Payments come up to 45 s out of order, which the
watermark's minute allows for. Some were made at night, on terminals that were cut off: they are late. Some
are bad. And in each window a few stolen cards are used too often.
"""

import json
import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from threading import Event
from typing import Any

from bank import TOO_OFTEN, TRANSACTIONS, WINDOW
from headwater import Log

SPEED = 120
PER_WINDOW = 750
CARDS = [f"card-{number:03}" for number in range(600)]
UNDER_WAY = timedelta(seconds=45)
MOST_USUAL = TOO_OFTEN - 2
MORNING = 0.6
LATE_SHARE, BAD_SHARE = 0.02, 0.005

Window = tuple[str, datetime]
"""A card, and when the window opened."""


@dataclass(frozen=True)
class Sent:
    """One record, due so many seconds after the doors have opened; a bad one has only bytes."""

    due: float
    card: str
    row: dict[str, Any] | None = None
    data: bytes = b""


@dataclass
class Day:
    """What is sent on a day, in this order, and what must become of it.

    The opening payments tell the pipeline what time it is. The closing ones, late in the evening, complete
    every window before them, and their own stay open.
    """

    opens_at: datetime
    seconds: int
    opening: list[Sent] = field(default_factory=list)
    records: list[Sent] = field(default_factory=list)
    closing: list[Sent] = field(default_factory=list)
    counts: Counter[Window] = field(default_factory=Counter)
    fraud: Counter[Window] = field(default_factory=Counter)
    late: Counter[tuple[str, int]] = field(default_factory=Counter)
    bad: Counter[bytes] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._chance, self._ids = random.Random(42), 0
        early = self.opens_at - WINDOW
        self.opening = self._one_of_each_card(early, 0.0)
        self.counts.update((card, early) for card in CARDS)
        for number in range(int(timedelta(seconds=self.seconds * SPEED) / WINDOW)):
            self._pay_within(self.opens_at + number * WINDOW)
        usual = len(self.records)
        self.records += [self._late() for _ in range(int(LATE_SHARE * usual))]
        self.records += [self._bad() for _ in range(int(BAD_SHARE * usual))]
        self.records.sort(key=lambda one: one.due)
        self.closing = self._one_of_each_card(self.opens_at.replace(hour=23), self.seconds + 1)

    def parted(self) -> tuple[list[Sent], list[Sent]]:
        """The records before the afternoon, and those from then on to the closing ones."""
        morning = [one for one in self.records if one.due < MORNING * self.seconds]
        return morning, self.records[len(morning) :] + self.closing

    @property
    def sent(self) -> int:
        """How many records there are in all."""
        return len(self.opening) + len(self.records) + len(self.closing)

    def _one_of_each_card(self, paid_at: datetime, due: float) -> list[Sent]:
        return [self._payment(card, paid_at, due) for card in CARDS]

    def _pay_within(self, opened_at: datetime) -> None:
        """Payments of one window, in which none but stolen cards are used too often."""
        stolen = self._chance.sample(CARDS, self._chance.randrange(5, 15))
        self.fraud.update((one, opened_at) for one in stolen)
        cards = [one for one in stolen for _ in range(self._chance.randrange(TOO_OFTEN, 2 * TOO_OFTEN))]
        for card in cards + self._chance.choices(CARDS, k=PER_WINDOW):
            if card in stolen or self.counts[card, opened_at] < MOST_USUAL:
                self.counts[card, opened_at] += 1
                self.records.append(self._on_time(card, opened_at))

    def _on_time(self, card: str, opened_at: datetime) -> Sent:
        paid_at = opened_at + self._chance.random() * WINDOW
        due = paid_at - self.opens_at + self._chance.random() * UNDER_WAY
        return self._payment(card, paid_at, due.total_seconds() / SPEED)

    def _late(self) -> Sent:
        at_night = self.opens_at.replace(hour=1) + self._chance.random() * timedelta(hours=4)
        card = self._chance.choice(CARDS)
        self.late[card, self._ids] += 1
        return self._payment(card, at_night, self._any_time())

    def _bad(self) -> Sent:
        """No amount, no card, or a clock that is a year ahead."""
        card, in_a_year = self._chance.choice(CARDS), self.opens_at + timedelta(days=365)
        ways: list[dict[str, Any]] = [{"amount": "much"}, {"card": None}, {"paid_at": in_a_year.isoformat()}]
        row = {"id": self._next_id(), "card": card, "amount": 9.5, "paid_at": self.opens_at.isoformat()}
        data = json.dumps(row | self._chance.choice(ways)).encode()
        self.bad[data] += 1
        return Sent(self._any_time(), card, data=data)

    def _payment(self, card: str, paid_at: datetime, due: float) -> Sent:
        amount = Decimal(round(self._chance.expovariate(1 / 4000)) + 1) / 100
        return Sent(due, card, {"id": self._next_id(), "card": card, "amount": amount, "paid_at": paid_at})

    def _next_id(self) -> int:
        self._ids += 1
        return self._ids - 1

    def _any_time(self) -> float:
        return self._chance.random() * self.seconds


def send(log: Log, records: Sequence[Sent], over: Event) -> None:
    """Append each record when it is due after the first; returns when all are acknowledged, or it is over."""
    began = time.monotonic() - records[0].due
    with log.writer() as writer:
        for one in records:
            if over.wait(max(0.0, one.due - (time.monotonic() - began))):
                return
            if one.row is None:
                writer.append_bytes(TRANSACTIONS.name, one.data, key=one.card.encode())
            else:
                writer.append(TRANSACTIONS, one.row)
