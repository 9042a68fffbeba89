"""Kill -9 against exactly-once: the driver, Spark's Python workers and the broker, again and again.

A writer appends events all the while. At the end a read-committed reader must find every output exactly
once, equal to a batch computation of the same functions over the same topic. One pipeline waits too short
and diverts what comes late: in each of its windows, what was counted and what was diverted must be all.

    make chaos                                        30 rounds
    .venv/bin/python bench/chaos_pipelines.py 5       5 rounds

The last line is one JSON object; `killed` and `restarts` show that the kills really hit.
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
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event, Thread
from typing import Any

import psutil
from rich.console import Console

from bench.chaos_app import COUNTED, EVENTS, LATE, PASSED, PROMPT, RECENT, counted, passed, recent
from bench.driver import Driver
from headwater import Log, Settings, Source, Topic, embedded
from headwater.clock import wait_until
from headwater.embedded.ports import a_free_port
from headwater.log.late import LateLetters
from headwater.run.decode import parsed
from headwater.run.session import close, session

APP = Path(__file__).with_name("chaos_app.py")
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
EVENTS_A_SECOND = 500
FASTER = 60  # event time runs this many times faster than the clock
LASTS = 20  # cards enough for every partition to have one
MUCH_LATER = 0.02  # of the events, by up to 50 minutes
CLOSED = "card NOT LIKE 'last-%'"
VICTIMS = ("driver", "worker", "broker")
SAY = Console(stderr=True)


class Writer:
    """Appends events at a steady pace in a thread of its own, until told to end."""

    def __init__(self, settings: Settings) -> None:
        self.count = 0
        self._settings = settings
        self._ending = Event()
        self._thread = Thread(target=self._run)
        self._random = random.Random(1)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        with Log.open(self._settings).writer(deliver_within=timedelta(minutes=5)) as writer:
            while not self._ending.is_set():
                for _ in range(EVENTS_A_SECOND // 10):
                    self._append(writer)
                self._ending.wait(0.1)
            for number in range(LASTS):  # their windows stay open, all others close
                last = {"number": -1, "card": f"last-{number}", "amount": 0.0}
                writer.append(EVENTS, last | {"paid_at": self._now() + timedelta(days=1)})

    def _append(self, writer: Any) -> None:
        card, disorder = f"card-{self._random.randrange(50)}", self._random.randrange(30)
        if self._random.random() < MUCH_LATER:
            disorder *= 100
        paid_at = self._now() - timedelta(seconds=disorder)
        amount = self._random.randrange(1000) / 4
        writer.append(EVENTS, {"number": self.count, "card": card, "amount": amount, "paid_at": paid_at})
        self.count += 1

    def _now(self) -> datetime:
        return BEGIN + timedelta(seconds=FASTER * self.count / EVENTS_A_SECOND)


def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(home=Path(folder), kafka_port=a_free_port())
        embedded.up(settings, [embedded.SERVERS["kafka"]], lambda *_: None)
        try:
            found = run(settings, rounds)
        finally:
            embedded.down(settings)
    SAY.print(found)
    print(json.dumps(found))
    if any(found[name] for name in ("lost", "doubled", "wrong", "late", "unaccounted")):
        raise SystemExit(1)


def run(settings: Settings, rounds: int, seed: int | None = None) -> dict[str, Any]:
    """That many kills; what was lost, doubled or wrong in the end."""
    seed = random.randrange(10_000) if seed is None else seed
    chance = random.Random(seed)
    log = Log.open(settings)
    for topic in (EVENTS, PASSED, COUNTED, PROMPT, RECENT):
        log.topics.create(topic)
    driver, writer = Driver(settings, APP), Writer(settings)
    writer.start()
    killed: Counter[str] = Counter()
    try:
        driver.start()
        for number in range(rounds):
            victim = VICTIMS[number % len(VICTIMS)] if number < len(VICTIMS) else chance.choice(VICTIMS)
            _await_batches(driver, 2)
            time.sleep(chance.random() * 3)  # a random moment is the point
            SAY.print(f"round {number + 1}: kill the {victim}")
            killed[victim] += _kill(victim, driver, settings, chance)
        _await_batches(driver, 1)
    except BaseException:
        with suppress(psutil.Error):
            driver.kill()
        raise
    finally:
        writer.end()
    driver.finish()
    driver.start("--once")
    if driver.process.wait(300):
        raise SystemExit(driver.said())
    return {"seed": seed, "events": writer.count, "killed": dict(killed)} | _judged(settings, driver)


def _await_batches(driver: Driver, more: int) -> None:
    wanted = driver.batches() + more
    if not wait_until(lambda: driver.batches() >= wanted, timedelta(seconds=120), pause=0.2):
        raise SystemExit("no batch within two minutes")


def _kill(victim: str, driver: Driver, settings: Settings, chance: random.Random) -> int:
    if victim == "driver":
        driver.kill()
        driver.start()
        return 1
    if victim == "broker":
        pid = next(one.pid for one in embedded.status(settings) if one.name == "kafka")
        os.kill(int(pid or 0), signal.SIGKILL)
        time.sleep(chance.random() * 2)
        embedded.up(settings, [embedded.SERVERS["kafka"]], lambda *_: None)
        return 1
    workers = driver.workers()
    with suppress(psutil.NoSuchProcess):
        for one in workers[:1]:
            one.kill()
    return len(workers[:1])


def _judged(settings: Settings, driver: Driver) -> dict[str, int]:
    late = sum(one["late"] for one in driver.told()[-4:] if one["pipeline"] != "prompt")
    restarts = max(one["restarts"] for one in driver.told())
    with _batch(settings) as (events, spark):
        should = {
            PASSED: Counter(tuple(row) for row in passed(events).collect()),
            COUNTED: Counter(tuple(row) for row in counted(events).where(CLOSED).collect()),
            RECENT: Counter(tuple(row) for row in recent(events).where(CLOSED).collect()),
        }
        del spark
    found = {topic: _outputs(settings, topic) for topic in should}
    lost = sum((should[topic] - found[topic]).total() for topic in should)
    doubled = sum(sum(count - 1 for count in found[topic].values()) for topic in should)
    wrong = sum((found[topic] - should[topic]).total() for topic in should) - doubled
    outputs = sum(one.total() for one in should.values())
    diverted, unaccounted = _diverted(settings, should[COUNTED])
    return {"outputs": outputs, "lost": lost, "doubled": doubled, "wrong": wrong} | {
        "late": late,
        "diverted": diverted,
        "unaccounted": unaccounted,
        "restarts": restarts,
    }


def _diverted(settings: Settings, should: Counter[tuple[Any, ...]]) -> tuple[int, int]:
    """How many events were diverted, and in how many windows on time and late are not all."""
    count, found = 0, Counter[tuple[Any, ...]]()
    for card, opened_at, events, _, numbers in _outputs(settings, PROMPT).elements():
        found.update({(card, opened_at, "events"): events, (card, opened_at, "numbers"): numbers})
    for one in LateLetters(LATE, settings).read():
        event, (window,) = json.loads(one.letter.value or b""), one.letter.missed
        where, count = (event["card"], _naive(window[0])), count + 1
        found.update({(*where, "events"): 1, (*where, "numbers"): event["number"]})
    wanted = Counter[tuple[Any, ...]]()
    for card, opened_at, events, _, numbers in should:
        wanted.update({(card, opened_at, "events"): events, (card, opened_at, "numbers"): numbers})
    return count, sum(found[where] != wanted[where] for where in {*found, *wanted})


@contextmanager
def _batch(settings: Settings) -> Iterator[tuple[Any, Any]]:
    """The whole topic as a bounded DataFrame, decoded as the stream's is."""
    spark = session(settings, "chaos-judge")
    try:
        raw = (
            spark.read.format("kafka")
            .option("kafka.bootstrap.servers", embedded.kafka_address(settings))
            .option("subscribe", EVENTS.name)
            .load()
        )
        yield parsed(raw, Source(EVENTS), settings), spark
    finally:
        close(spark)


def _outputs(settings: Settings, topic: Topic) -> Counter[tuple[Any, ...]]:
    """What a read-committed reader sees, as Spark's rows would be."""
    names = topic.spark_schema.names
    rows = (record.value for record in Log.open(settings).read(topic))
    return Counter(tuple(_naive(getattr(row, name)) for name in names) for row in rows)


def _naive(value: Any) -> Any:
    return value.astimezone().replace(tzinfo=None) if isinstance(value, datetime) else value


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 30)
