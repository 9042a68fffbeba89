"""Settling under failure: two drivers at once, kill -9, answers that never come, brokers that stay away."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from threading import Event, Thread
from typing import Any

import pytest
from tests.run.settling import (
    Remembered,
    assert_committed,
    assert_once,
    fill,
    read_here,
    reading,
    settling,
    told,
)

from headwater import Log, Settings, Topic, embedded
from headwater.app import Source
from headwater.errors import BrokerRefused, BrokerUnreachable, HeadwaterError, OutcomeUnknown, WriterFenced
from headwater.log import transaction
from headwater.log.transaction import Transactions
from headwater.log.transfer import Transfer
from headwater.run import settle
from headwater.run.divert import Diverted
from headwater.run.letters import BadRecords
from headwater.run.settle import Settlement

pytestmark = pytest.mark.system


def test_two_drivers_that_settle_at_once_write_each_letter_once(
    log: Log, system: Settings, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BadRecords, "find", read_here)
    monkeypatch.setattr(settle, "AT_ONCE", 20)
    end = fill(log, topic, 50, bad=50)
    ended: list[str] = []

    def drive() -> None:
        with settling(topic, None, system) as ours:
            try:
                ours.settle(told(end, clean=False))
                ended.append("settled")
            except WriterFenced:
                ended.append("fenced")

    drivers = [Thread(target=drive) for _ in range(3)]
    for one in drivers:
        one.start()
    for one in drivers:
        one.join(60)
    assert len(ended) == 3
    assert "settled" in ended
    assert_once(log, topic, 50)


def test_an_older_driver_is_fenced_by_a_newer_one(
    log: Log, system: Settings, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BadRecords, "find", read_here)
    end = fill(log, topic, 4, bad=4)
    with settling(topic, None, system) as older, settling(topic, None, system) as newer:
        older.starts()
        assert newer.settle(told(end, clean=False)) == Diverted(4)
        with pytest.raises(WriterFenced):
            older.settle(told(end, clean=False))
    assert_once(log, topic, 4)


CHILD = """
import os, signal, sys
from headwater import Settings, Topic
from headwater.app import Source
from headwater.log.transaction import Transactions
from headwater.log.transfer import Transfer
from headwater.run import settle
from headwater.run.letters import BadRecords
from tests.run.settling import Remembered, read_here, reading, told
address, name, ends, point = sys.argv[1:]
BadRecords.find = read_here
settle.AT_ONCE = 20
def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
commit, append, count = Transactions.commit, Transfer.append, iter(range(99))
def committed(self):
    if point == "before the commit":
        self._producer.flush(10)
        die()
    commit(self)
    die()
def appended(self, *given, **more):
    append(self, *given, **more)
    if next(count) == 3:
        self._producer.flush(10)
        die()
topic = Topic(name, schema="n int NOT NULL", partitions=2)
ours = settle.Settlement(f"bank.{name}", reading(Source(topic)), None, Settings(kafka=address), Remembered())
ours.starts()
if point == "among the letters":
    Transfer.append = appended
else:
    Transactions.commit = committed
ours.settle(told({name: dict(enumerate(map(int, ends.split(","))))}, clean=False))
"""


@pytest.mark.parametrize("point", ["among the letters", "before the commit", "after the commit"])
def test_settling_that_is_killed_is_finished_by_the_next_driver(
    log: Log, system: Settings, topic: Topic, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BadRecords, "find", read_here)
    end = fill(log, topic, 20, bad=20)
    places = ",".join(str(end[topic.name][one]) for one in (0, 1))
    command = [sys.executable, "-c", CHILD, embedded.kafka_address(system) or "", topic.name, places, point]
    killed = subprocess.run(command, check=False, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    with settling(topic, None, system) as ours:
        ours.settle(told(end, clean=False))
    assert_once(log, topic, 20)
    assert_committed(log, topic, end[topic.name])


@pytest.mark.parametrize("went_through", [True, False])
def test_a_commit_without_an_answer_is_looked_up(
    log: Log, system: Settings, topic: Topic, monkeypatch: pytest.MonkeyPatch, went_through: bool
) -> None:
    monkeypatch.setattr(BadRecords, "find", read_here)
    end = fill(log, topic, 4, bad=4)
    failures = [OutcomeUnknown("the answer did not come")]
    begin = Transfer.transaction

    @contextmanager
    def unanswered(self: Transfer, places: Any) -> Iterator[Transfer]:
        with suppress(ZeroDivisionError), begin(self, places):
            yield self
            if failures and not went_through:
                raise ZeroDivisionError
        if failures:
            raise failures.pop()

    with settling(topic, None, system) as ours:
        ours.starts()
        monkeypatch.setattr(Transfer, "transaction", unanswered)
        assert ours.settle(told(end, clean=False)) == Diverted(4)
    assert not failures
    assert_once(log, topic, 4)


def test_a_client_that_never_returns_is_left_behind(
    log: Log, system: Settings, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BadRecords, "find", read_here)
    end, released = fill(log, topic, 4, bad=4), Event()
    hung: list[Transactions] = []
    ask = Transactions._ask_to_send

    def hangs_once(self: Transactions, *given: Any) -> None:
        if not hung:
            hung.append(self)
            released.wait(60)
        else:
            ask(self, *given)

    with settling(topic, None, system) as ours:
        ours.starts()
        monkeypatch.setattr(transaction, "SEND_WITHIN", timedelta(seconds=1))
        monkeypatch.setattr(Transactions, "_ask_to_send", hangs_once)
        assert ours.settle(told(end, clean=False)) == Diverted(4)
    released.set()
    assert hung
    assert_once(log, topic, 4)


@pytest.mark.parametrize(
    ("error", "tries"), [(BrokerUnreachable("away"), 99), (BrokerRefused("it may not write"), 1)]
)
def test_a_broker_that_stays_away_ends_it_with_that_error(
    system: Settings, topic: Topic, monkeypatch: pytest.MonkeyPatch, error: HeadwaterError, tries: int
) -> None:
    asked: list[object] = []

    def away(*given: object, **_: object) -> None:
        asked.append(given)
        raise error

    monkeypatch.setattr(Transfer, "__init__", away)
    nothing, soon = Remembered(), timedelta(seconds=1)
    ours = Settlement("bank.x", reading(Source(topic)), None, system, nothing, within=soon)  # type: ignore[arg-type]
    with pytest.raises(type(error)):
        ours.settle(told({topic.name: {0: 1}}, clean=True))
    assert 1 <= len(asked) <= tries
    assert (len(asked) > 1) == (tries > 1)
