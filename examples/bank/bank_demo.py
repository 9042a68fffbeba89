"""The bank at work: from its database to its copies, from its transactions to its alerts, and a crash.

    make demo             runs for about two minutes and ends by itself
    make demo KEEP=1      leaves the servers running to look around in

Everything happens on real servers of its own, under .headwater/bank. What must come out is known beforehand,
and the exit code is 0 only when it came out: every record accounted for, every alert once, all copies equal.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from threading import Event, Thread

from rich.console import Group, RenderableType

from account import Account, Outage
from bank import ALERTS, TRANSACTIONS, app
from cardholders import Cardholders
from desk import Desk
from driver import Driver
from headwater import Log, Settings, embedded
from headwater.clock import now
from headwater.embedded.jars import fetch
from headwater.verify.pipeline import verify
from picture import COMMANDS, TITLE, cases, pipelines, summary
from screen import Screen
from transactions import CARDS, Day, send

HOME = Path(".headwater/bank").absolute()
COMMAND = str(Path(sys.executable).with_name("headwater"))
OF_THE_MACHINE = ("HEADWATER_CACHE", "HEADWATER_IVY_SETTINGS", "HEADWATER_JAVA_HOME")
OTHERS = {one for one in os.environ if one.startswith("HEADWATER_") and one not in OF_THE_MACHINE}
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in OTHERS}
ENVIRONMENT["HEADWATER_HOME"] = str(HOME)
SERVERS = ("postgres", "redis", "search", "capture")
COPIES = ("in-redis", "in-search")
READERS = ("card-activity", *COPIES)


@dataclass
class Bank:
    """All that is at work."""

    settings: Settings
    day: Day
    screen: Screen

    def __post_init__(self) -> None:
        self.log = Log.open(self.settings)
        self.cardholders = Cardholders(embedded.postgres_url(self.settings) or "")
        self.driver = Driver(COMMAND, ENVIRONMENT, HOME / "run.log")
        self.desk = Desk(self.log, embedded.redis_url(self.settings) or "")
        self.over = Event()

    def picture(self) -> RenderableType:
        """What is going on now."""
        return Group("", pipelines(app, self.driver.look()), "", cases(self.desk.newest))


def main(seconds: int, *, keep: bool) -> int:
    screen = Screen()
    screen.console.print(TITLE)
    settings = fresh_servers()
    screen.tell("Kafka, PostgreSQL, Redis, OpenSearch and Kafka Connect run")
    try:
        is_right = play(Bank(settings, Day(yesterday_at_nine(), seconds), screen))
        if keep:
            screen.console.print(COMMANDS.format(home=HOME, search=embedded.search_url(settings)))
        return 0 if is_right else 1
    finally:
        if not keep:
            subprocess.run([COMMAND, "down"], env=ENVIRONMENT, check=True)


def fresh_servers() -> Settings:
    """Servers that know nothing of earlier runs; Spark's own files are fetched meanwhile."""
    settings = Settings.load(ENVIRONMENT)
    embedded.down(settings)
    shutil.rmtree(HOME, ignore_errors=True)
    Thread(target=fetch, args=("spark", settings, lambda *_: None), daemon=True).start()
    extra = [word for one in SERVERS for word in ("--with", one)]
    subprocess.run([COMMAND, "up", *extra], env=ENVIRONMENT, check=True)
    return settings


def yesterday_at_nine() -> datetime:
    return now().replace(hour=9, minute=0, second=0, microsecond=0) - timedelta(days=1)


def play(bank: Bank) -> bool:
    """The story, and the account of it; tells whether all is right."""
    with ThreadPoolExecutor() as threads, at_work(bank):
        outage = act(bank, threads)
        copies = [one for name in COPIES for one in verify(app, name, bank.settings, against="database")]
        bank.screen.tell("the copies are compared with the table, row by row")
    account = Account(bank.settings, bank.day)
    bank.screen.console.print(cases(bank.desk.newest))
    bank.screen.console.print(summary(account, outage, bank.cardholders.changes.total(), copies))
    return account.is_right and all(one.verdict.is_equal for one in copies)


@contextmanager
def at_work(bank: Bank) -> Iterator[None]:
    """Whatever happens, everybody goes home afterwards."""
    try:
        yield
    finally:
        bank.over.set()
        bank.driver.stop()


def act(bank: Bank, threads: ThreadPoolExecutor) -> Outage:
    """What happens, in its order; tells when the app was away."""
    tell, wait, day, driver = bank.screen.tell, bank.screen.wait, bank.day, bank.driver
    tell(f"PostgreSQL has {bank.cardholders.create():,} cardholders; nobody writes them anywhere else")
    for topic in (TRANSACTIONS, ALERTS):
        bank.log.topics.create(topic)
    send(bank.log, day.opening, bank.over)
    bank.desk.open()
    driver.start()
    wait(lambda: all(driver.rows(one) >= len(CARDS) for one in READERS), bank.picture)
    tell("the app runs; the table is captured, and copied to Redis and OpenSearch")
    living = threads.submit(bank.cardholders.live, bank.over)
    morning, afternoon = day.parted()
    sending = threads.submit(send, bank.log, morning, bank.over)
    tell("transactions begin; cardholders move, change their names, leave, come")
    crash_at = time.monotonic() + 0.3 * day.seconds
    wait(lambda: time.monotonic() > crash_at, bank.picture)
    driver.kill()
    began_at = now()
    tell("the app is killed with -9: driver, Spark, workers. Transactions go on")
    driver.start()
    wait(lambda: driver.rows("card-activity") > 0, bank.picture)
    outage = Outage(began_at, now())
    tell("started again, it goes on where it was")
    wait(sending.done, bank.picture)
    sending.result()
    sending = threads.submit(send, bank.log, afternoon, bank.over)
    wait(sending.done, bank.picture)
    sending.result()
    bank.over.set()
    living.result()
    tell(f"all is sent; {bank.cardholders.changes.total():,} changes of cardholders are committed")
    wait(lambda: Account(bank.settings, day).is_complete, bank.picture, pause=1.0)
    return outage


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=40, help="how long transactions come")
    parser.add_argument("--keep", action="store_true", help="leave the servers running")
    asked = parser.parse_args()
    sys.exit(main(asked.seconds, keep=asked.keep))
