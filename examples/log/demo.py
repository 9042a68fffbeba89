"""The log at work: traffic, three readers at their own pace, two crashes and what they cost.

    .venv/bin/python examples/log/demo.py           runs for about 40 s and ends by itself
    .venv/bin/python examples/log/demo.py --keep    leaves the broker running to look around in

Everything happens on a real Kafka of its own, under .headwater/demo. The exit code is 0 only when
nothing was lost.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

from rich.console import Console
from rich.console import Group as RichGroup
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headwater import Log, Settings, embedded
from headwater.errors import BrokerRefused, BrokerUnreachable
from readers import Reader
from topics import PAYMENTS
from traffic import RATE, Traffic

HOME = Path(".headwater/demo").absolute()
COMMAND = str(Path(sys.executable).with_name("headwater"))
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_KAFKA")}
ENVIRONMENT["HEADWATER_HOME"] = str(HOME)
PACES = {"eager": 50_000, "steady": 2_000, "slow": 1_000}
KILL_READER_AT, KILL_BROKER_AT, STOP_TRAFFIC_AT = 5.0, 13.0, 22.0
GIVE_UP_AFTER = 150.0


@dataclass
class Demo:
    """What is running and what has happened so far."""

    log: Log
    settings: Settings
    traffic: Traffic
    readers: list[Reader]
    story: list[str] = field(default_factory=list)
    broker_away_for: float = 0.0
    began: float = field(default_factory=time.monotonic)
    lags: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PACES, 0))

    def tell(self, what: str) -> None:
        self.story.append(f"{time.monotonic() - self.began:5.1f} s  {what}")


def main(*, keep: bool) -> int:
    console = Console()
    console.print("[bold]Headwater: the log at work[/]  (a real Kafka, started for this)")
    settings = Settings.load(ENVIRONMENT)
    embedded.down(settings)
    shutil.rmtree(HOME, ignore_errors=True)  # every run counts from nought
    subprocess.run([COMMAND, "up"], env=ENVIRONMENT, check=True)
    demo = prepare(settings)
    try:
        play(demo, console)
        lost = summarise(demo, console)
        if keep:
            console.print(look_around())
        return 1 if lost else 0
    finally:
        for reader in demo.readers:
            reader.stop()
        if not keep:
            subprocess.run([COMMAND, "down"], env=ENVIRONMENT, check=True)


def prepare(settings: Settings) -> Demo:
    log = Log.open(settings)
    log.topics.create(PAYMENTS)
    readers = [Reader(name, pace, ENVIRONMENT) for name, pace in PACES.items()]
    return Demo(log, settings, Traffic(log), readers)


def play(demo: Demo, console: Console) -> None:
    """Let the acts happen in their own thread and draw what is going on, until all is read."""
    stage = Thread(target=act, args=(demo,), daemon=True)
    stage.start()
    told = 0
    deadline = time.monotonic() + GIVE_UP_AFTER
    with Live(console=console, auto_refresh=False, transient=True) as live:
        while (stage.is_alive() or not has_caught_up(demo)) and time.monotonic() < deadline:
            if console.is_terminal:
                live.update(RichGroup(picture(demo), *map(Text, demo.story)), refresh=True)
            elif told < len(demo.story):
                console.print(demo.story[told], soft_wrap=True, highlight=False)
                console.print(picture(demo))
                told += 1
            time.sleep(0.25)


def act(demo: Demo) -> None:
    acts: list[tuple[float, Callable[[Demo], None]]] = [
        (0.0, open_up),
        (KILL_READER_AT, kill_reader),
        (KILL_BROKER_AT, kill_broker),
        (STOP_TRAFFIC_AT, stop_traffic),
    ]
    for at, one in acts:
        time.sleep(max(0.0, demo.began + at - time.monotonic()))
        one(demo)


def open_up(demo: Demo) -> None:
    demo.traffic.start()
    for reader in demo.readers:
        reader.start()
    demo.tell(f"traffic begins: {RATE:,} payments a second; three groups read them")


def kill_reader(demo: Demo) -> None:
    steady = demo.readers[1]
    steady.kill()
    demo.tell(f"the reader of {steady.group!r} is killed with -9; another takes its place")


def kill_broker(demo: Demo) -> None:
    kafka = next(one for one in embedded.status(demo.settings) if one.name == "kafka")
    if kafka.pid is not None:
        os.kill(kafka.pid, signal.SIGKILL)
    before = time.monotonic()
    demo.tell("the broker is killed with -9; the writer and the readers wait")
    subprocess.run([COMMAND, "up", "--json"], env=ENVIRONMENT, check=True, stdout=subprocess.DEVNULL)
    demo.broker_away_for = time.monotonic() - before
    demo.tell(f"the broker is back, with its data, after {demo.broker_away_for:.1f} s")


def stop_traffic(demo: Demo) -> None:
    demo.traffic.stop()
    demo.tell(f"traffic ends: all {demo.traffic.appended:,} payments are acknowledged")


def has_caught_up(demo: Demo) -> bool:
    return all(len(reader.done) >= demo.traffic.appended for reader in demo.readers)


def picture(demo: Demo) -> Table:
    table = Table(title=f"{demo.traffic.appended:,} payments appended", title_justify="left")
    for column in ("group", "pace, records/s", "done", "lag", "", "state"):
        table.add_column(column, justify="left" if column in ("group", "state", "") else "right")
    lags = lag_of_each(demo)
    for reader in demo.readers:
        lag = lags.get(reader.group, 0)
        bar = "█" * min(20, -(-lag // 1000))
        table.add_row(
            reader.group, f"{reader.pace:,}", f"{len(reader.done):,}", f"{lag:,}", bar, reader.state
        )
    return table


def lag_of_each(demo: Demo) -> dict[str, int]:
    """The groups' lag now; the last one known while the broker is away."""
    with suppress(BrokerUnreachable, BrokerRefused):
        lags = dict.fromkeys(PACES, 0)
        for line in demo.log.lag():
            lags[line.group] += line.behind
        demo.lags = lags
    return demo.lags


def summarise(demo: Demo, console: Console) -> int:
    """What the crashes cost, counted from what every reader has really done."""
    expected = range(demo.traffic.appended)
    stored = [record.value.number for record in demo.log.read(PAYMENTS)]
    lost_in_log = len(set(expected) - set(stored))
    table = Table(title="what every group has done", title_justify="left")
    for column in ("group", "done", "lost", "done again", "away, s"):
        table.add_column(column, justify="left" if column == "group" else "right")
    lost = lost_in_log
    for reader in demo.readers:
        missing = len(set(expected) - set(reader.done))
        lost += missing
        again = reader.done.total() - len(reader.done)
        away = f"{reader.away_for:.1f}" if reader.away_for else "-"
        table.add_row(reader.group, f"{len(reader.done):,}", f"{missing:,}", f"{again:,}", away)
    if console.is_terminal:
        for line in demo.story:
            console.print(line, highlight=False)
    console.print(table)
    doubled = len(stored) - len(set(stored))
    console.print(
        f"In the log: {len(set(stored)):,} of {demo.traffic.appended:,} payments, {lost_in_log} lost, "
        f"{doubled} doubled, though the broker was away for {demo.broker_away_for:.1f} s.",
        highlight=False,
    )
    console.print(
        "A group that loses its reader does again what was not committed; nothing is skipped.\n"
        f"[bold {'red' if lost else 'green'}]lost in all: {lost}[/]"
    )
    return lost


def look_around() -> str:
    return (
        "\nThe broker is still running. Try:\n"
        f"  export HEADWATER_HOME={HOME}\n"
        "  .venv/bin/headwater tail payments --last 3\n"
        "  .venv/bin/headwater lag\n"
        "  .venv/bin/headwater down"
    )


if __name__ == "__main__":
    sys.exit(main(keep="--keep" in sys.argv[1:]))
