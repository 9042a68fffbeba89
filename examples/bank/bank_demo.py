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
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from threading import Event

from rich.console import Group, RenderableType

from account import Account, Outage
from bank import ALERTS, TRANSACTIONS, app
from cardholders import Cardholders
from desk import Desk
from driver import Driver
from headwater import Log, Settings, embedded
from headwater.clock import Deadline, now
from headwater.embedded.jars import fetch
from headwater.verify.pipeline import verify
from picture import COMMANDS, RIGHT, TITLE, WRONG, cases, pipelines, summary
from screen import Screen
from transactions import CARDS, Day, Sent, send

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

    @property
    def account(self) -> Account:
        """What has become of the day's records until now."""
        return Account(self.settings, self.day)

    def send(self, records: Sequence[Sent]) -> None:
        """Append records, each when it is due."""
        send(self.log, records, self.over)

    def wait(self, until: Callable[[], bool], pause: float = 0.25) -> None:
        """Show what is going on until something has happened; an app that has ended ends the demo."""

        def has_happened() -> bool:
            self.driver.look()
            return until()

        self.screen.wait(has_happened, self._picture, pause)

    def _picture(self) -> RenderableType:
        return Group("", pipelines(app, self.driver.figures), "", cases(self.desk.newest))


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
            call("down")


def call(*words: str) -> None:
    """Run a command; what it says of an error is enough."""
    code = subprocess.run([COMMAND, *words], env=ENVIRONMENT, check=False).returncode
    if code:
        sys.exit(code)


def fresh_servers() -> Settings:
    """Servers that know nothing of earlier runs; Spark's own files are fetched meanwhile."""
    settings = Settings.load(ENVIRONMENT)
    embedded.down(settings)
    shutil.rmtree(HOME, ignore_errors=True)
    with ThreadPoolExecutor() as threads:
        threads.submit(fetch, "spark", settings, lambda *_: None)
        call("up", *(word for one in SERVERS for word in ("--with", one)))
    return settings


def yesterday_at_nine() -> datetime:
    return now().replace(hour=9, minute=0, second=0, microsecond=0) - timedelta(days=1)


def play(bank: Bank) -> bool:
    """The story, and the account of it; tells whether all is right."""
    with ThreadPoolExecutor() as threads, at_work(bank):
        outage = act(bank, threads)
        copies = [one for name in COPIES for one in verify(app, name, bank.settings, against="database")]
        bank.screen.tell("the copies are compared with the table, row by row")
    account, changes = bank.account, bank.cardholders.changes.total()
    bank.screen.console.print(
        "", cases(bank.desk.newest), summary(account, outage, changes, copies), sep="\n"
    )
    is_right = account.is_right and all(one.verdict.is_equal for one in copies)
    bank.screen.console.print(RIGHT if is_right else WRONG)
    return is_right


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
    open_up(bank)
    morning, afternoon = bank.day.parted()
    living = threads.submit(bank.cardholders.live, bank.over)
    sending = threads.submit(bank.send, morning)
    bank.screen.tell("transactions begin; cardholders move, change their names, leave, come")
    outage = crash(bank, sending)
    sending = threads.submit(bank.send, afternoon)
    bank.wait(sending.done)
    bank.over.set()
    for one in (sending, living):
        one.result()
    bank.screen.tell("all is sent, and the evening's payments complete every window before")
    bank.wait(lambda: bank.account.is_complete, pause=1.0)
    return outage


def open_up(bank: Bank) -> None:
    """The table, the first payments, and the app."""
    count = bank.cardholders.create()
    bank.screen.tell(f"PostgreSQL has {count:,} cardholders; nobody writes them anywhere else")
    for topic in (TRANSACTIONS, ALERTS):
        bank.log.topics.create(topic)
    bank.send(bank.day.opening)
    bank.desk.open()
    bank.driver.start()
    bank.wait(lambda: all(bank.driver.figure(one, "rows") >= len(CARDS) for one in READERS))
    bank.screen.tell("the app runs; the table is captured, and copied to Redis and OpenSearch")


def crash(bank: Bank, sending: Future[None]) -> Outage:
    """Kill the app in the morning, and start it again; it is over when the app has caught up."""
    moment = Deadline(timedelta(seconds=bank.day.seconds / 4))
    bank.wait(lambda: moment.passed)
    bank.driver.kill()
    began_at = now()
    bank.screen.tell("the app is killed with -9: driver, Spark, workers; transactions go on")
    bank.driver.start()
    bank.wait(lambda: bank.driver.figure("card-activity", "batch") >= 0)
    away = (now() - began_at).total_seconds()
    bank.screen.tell(f"it works again after {away:.0f} s, and goes on where it was")
    bank.wait(sending.done)
    sending.result()
    bank.wait(lambda: not any(one.behind for one in bank.log.lag("bank.card-activity")))
    bank.screen.tell("it has caught up with the morning; the afternoon's transactions begin")
    return Outage(began_at, now())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=30, help="how long transactions come")
    parser.add_argument("--keep", action="store_true", help="leave the servers running")
    asked = parser.parse_args()
    try:
        sys.exit(main(asked.seconds, keep=asked.keep))
    except KeyboardInterrupt:
        sys.exit(130)
