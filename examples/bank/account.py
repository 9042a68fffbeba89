"""The account at the end: every record that was sent is found again, once, where it belongs.

What is read here is what any reader of committed records sees. It is compared with the truth that the day's
transactions came with, window by window and record by record, for equal sums alone would prove little.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple

from bank import ACTIVITY, ALERTS, LATE, TOO_OFTEN, TRANSACTIONS, WINDOW
from headwater import Log, Settings, Topic
from headwater.clock import EPOCH
from headwater.errors import Undecodable, UnknownTopic
from headwater.log.dead import DeadLetters
from headwater.log.late import LateLetters
from transactions import Day, Window


class Delay(NamedTuple):
    """An alert's way: when the payment that was one too many was appended, and when the alert was."""

    paid_at: datetime
    told_at: datetime

    @property
    def seconds(self) -> float:
        """How long it was."""
        return (self.told_at - self.paid_at).total_seconds()


class Outage(NamedTuple):
    """From the crash until the app was back at work."""

    began_at: datetime
    ended_at: datetime

    def parted(self, delays: list[Delay]) -> tuple[list[Delay], list[Delay]]:
        """The delays that it has nothing to do with, and those of alerts that it held up."""
        held_up = [one for one in delays if one.told_at > self.began_at and one.paid_at < self.ended_at]
        return [one for one in delays if one not in held_up], held_up


@dataclass(frozen=True)
class Account:
    """What has become of a day's records until now."""

    settings: Settings
    day: Day

    @cached_property
    def windows(self) -> Counter[Window]:
        """The payments of each window that is complete; one told twice would have them twice."""
        found = Counter[Window]()
        for row in self._rows(ACTIVITY):
            if row.is_last:
                found[row.card, row.opened_at] += row.payments
        return found

    @cached_property
    def alerts(self) -> Counter[Window]:
        """How often each window was told of."""
        return Counter((row.card, row.opened_at) for row in self._rows(ALERTS))

    @cached_property
    def late(self) -> Counter[tuple[str, int]]:
        """The records that were diverted, by their keys and ids."""
        with suppress(UnknownTopic):  # nothing was late yet
            found = LateLetters(LATE, self.settings).read()
            letters = [one.letter for one in found]
            return Counter(((one.key or b"").decode(), json.loads(one.value or b"")["id"]) for one in letters)
        return Counter()

    @cached_property
    def dead(self) -> Counter[bytes]:
        """What the dead letters hold."""
        with suppress(UnknownTopic):
            found = DeadLetters(TRANSACTIONS.name, self.settings).read()
            return Counter(one.letter.value or b"" for one in found)
        return Counter()

    @property
    def is_complete(self) -> bool:
        """Whether as much has come out as went in."""
        pairs = [*self._records(), (self.alerts, self.day.fraud)]
        return all(found.total() >= wanted.total() for found, wanted in pairs)

    @property
    def wrong(self) -> int:
        """Records that were lost, doubled, or counted where they do not belong."""
        return sum(_apart(found, wanted) for found, wanted in self._records())

    @property
    def wrong_alerts(self) -> int:
        """Alerts that are missing, false, or told again."""
        return _apart(self.alerts, self.day.fraud)

    @property
    def is_right(self) -> bool:
        """Whether nothing is wrong."""
        return self.wrong == 0 == self.wrong_alerts

    def delays(self) -> list[Delay]:
        """The delay of each alert."""
        log = Log.open(self.settings)
        told = {(one.value.card, one.value.opened_at): one.appended_at for one in log.read(ALERTS)}
        seen, found = Counter[Window](), []
        for record in log.read(TRANSACTIONS):
            with suppress(Undecodable):
                window = record.value.card, opened_at(record.value.paid_at)
                seen[window] += 1
                if seen[window] == TOO_OFTEN and window in told:
                    found.append(Delay(record.appended_at, told[window]))
        return found

    def _records(self) -> Iterator[tuple[Counter[Any], Counter[Any]]]:
        yield self.windows, self.day.counts
        yield self.late, self.day.late
        yield self.dead, self.day.bad

    def _rows(self, topic: Topic) -> Iterable[Any]:
        return (record.value for record in Log.open(self.settings).read(topic))


def opened_at(paid_at: datetime) -> datetime:
    """When the window of a payment opened."""
    return paid_at - (paid_at - EPOCH) % WINDOW


def quantile(delays: list[Delay], share: float) -> float:
    """The seconds that this share of the delays does not exceed; 0 of none."""
    ordered = sorted(one.seconds for one in delays)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0.0


def _apart(found: Counter[Any], wanted: Counter[Any]) -> int:
    return ((found - wanted) + (wanted - found)).total()
