"""The bank at work: payments, some of them broken; a crash; and an account of every one of them.

    make demo             runs the log's demo, then this one

Everything happens on a real Kafka and a real Spark of its own, under .headwater/bank. The exit code is 0
only when every payment was counted exactly once or is a dead letter.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bank import ACTIVITY, LARGE, PAYMENTS
from headwater import Log, Settings, embedded
from headwater.clock import wait_until

HOME = Path(".headwater/bank").absolute()
COMMAND = str(Path(sys.executable).with_name("headwater"))
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_")}
ENVIRONMENT["HEADWATER_HOME"] = str(HOME)
BANK = Path(__file__).with_name("bank.py")
A_WHILE = timedelta(seconds=120)
CONSOLE = Console()


def main() -> int:
    CONSOLE.print("[bold]Headwater: a bank's payments on Spark[/]  (a real Kafka, a real Spark)")
    settings = Settings.load(ENVIRONMENT)
    embedded.down(settings)
    shutil.rmtree(HOME, ignore_errors=True)  # every run counts from nought
    subprocess.run([COMMAND, "up"], env=ENVIRONMENT, check=True)
    try:
        return play(Log.open(settings))
    finally:
        subprocess.run([COMMAND, "down"], env=ENVIRONMENT, check=True)


def play(log: Log) -> int:
    log.topics.create(PAYMENTS)
    written = pay(log, 2_000)
    run = start()
    try:
        tell("the app runs; 2,000 payments, 20 of them broken, were waiting for it")
        await_letters(log, 20)
        tell("every broken one is a dead letter, with its bytes, its place and the reason")
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()
        tell("killed with -9, driver, Spark and all")
        written += pay(log, 2_000)
        run = start()
        await_letters(log, 40)
        pay_at_last(log)
        complete = wait_until(lambda: counted(log)[1] >= written, A_WHILE)
        tell("started again: it went on where it was")
    finally:
        run.terminate()
        run.wait()
    return summarise(log, written) if complete else 1


def start() -> "subprocess.Popen[bytes]":
    """`headwater run bank.py`, in a process group of its own so that all of it can be killed."""
    with (HOME / "run.log").open("a") as lines:
        return subprocess.Popen(
            [COMMAND, "run", str(BANK), "--plain"],
            env=ENVIRONMENT,
            stdout=lines,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def pay(log: Log, count: int) -> int:
    """Append payments, one in a hundred of them broken; tells how many are whole."""
    began = datetime.now(UTC)
    with log.writer() as writer:
        for number in range(count):
            if number % 100 == 99:
                writer.append_bytes(PAYMENTS.name, b'{"card": "42", "amount": "much"}', key=b"42")
                continue
            paid_at = began + timedelta(milliseconds=number)
            card, amount = f"card-{random.randrange(20)}", random.randrange(100_000) / 100
            writer.append(PAYMENTS, {"card": card, "amount": amount, "country": "NL", "paid_at": paid_at})
    return count - count // 100


def pay_at_last(log: Log) -> None:
    """Payments of the next day: they close every window before them, and their own stay open."""
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    with log.writer() as writer:
        for number in range(20):
            row = {"card": f"card-{number}", "amount": 1.0, "country": "NL", "paid_at": tomorrow}
            writer.append(PAYMENTS, row)


def await_letters(log: Log, count: int) -> None:
    if not wait_until(lambda: buried(log) >= count, A_WHILE, pause=0.5):
        told = (HOME / "run.log").read_text()[-3000:]
        raise SystemExit(f"no {count} dead letters within two minutes:\n{told}")


def buried(log: Log) -> int:
    """Bad records with a letter; each pipeline that met one has written its own."""
    topic = f"{PAYMENTS.name}.dead"
    if topic not in log.topics.names():
        return 0
    headers = [dict(record.headers) for record in log.read(topic)]
    return len({(one["headwater.partition"], one["headwater.offset"]) for one in headers})


def counted(log: Log) -> tuple[int, int]:
    """Windows, and the payments in them, as a read-committed reader sees them."""
    if ACTIVITY.name not in log.topics.names():
        return 0, 0
    windows = [record.value.payments for record in log.read(ACTIVITY)]
    return len(windows), sum(windows)


def summarise(log: Log, written: int) -> int:
    windows, payments = counted(log)
    letters = buried(log)
    alerts = {(row.value.card, row.value.paid_at) for row in log.read(LARGE)}
    table = Table("what", "count", box=None)
    table.add_row("payments written whole", f"{written:,}")
    table.add_row(f"counted in {windows:,} windows, exactly once", f"{payments:,}")
    table.add_row("large payments told in real time", f"{len(alerts):,}")
    table.add_row("broken ones, each a dead letter", f"{letters:,}")
    table.add_row("lost or counted twice", f"{abs(written - payments):,}")
    CONSOLE.print(table)
    return 0 if payments == written and letters == 40 else 1


def tell(what: str) -> None:
    CONSOLE.print(f"{time.monotonic() - BEGAN:5.1f} s  {what}", soft_wrap=True, highlight=False)


BEGAN = time.monotonic()
if __name__ == "__main__":
    sys.exit(main())
