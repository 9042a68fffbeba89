"""Kill -9 against the log's promises, again and again; then count what was lost or doubled.

- transactions: a writer is killed in the middle of transactions; a committed reader must see whole
  transactions only, each once.
- broker: the broker is killed under an idempotent writer; every record must stand in the log once.
- queue: consumers are killed while they hold tasks; every task must be done by somebody.

    make chaos                                  20 rounds of each
    .venv/bin/python bench/chaos_log.py 3       3 rounds

The last line is one JSON object; `rolled_back` and `redelivered` show that the kills really hit.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import islice
from pathlib import Path
from threading import Thread

from confluent_kafka import Consumer, TopicPartition
from rich.console import Console
from rich.table import Table

from headwater import Log, Settings, Topic, embedded
from headwater.clock import wait_until
from headwater.embedded.ports import a_free_port

PER_TRANSACTION = 20
LEDGER = Topic("chaos-ledger", schema="number long NOT NULL, part int NOT NULL", partitions=3)
STREAM = Topic("chaos-stream", schema="number long NOT NULL", partitions=3)
TASKS = Topic("chaos-tasks", schema="number long NOT NULL", partitions=3)
LOCK = timedelta(seconds=2)
A_MINUTE = timedelta(seconds=60)
Figures = dict[str, int]


def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(home=Path(folder), kafka_port=a_free_port())
        embedded.up(settings, [embedded.SERVERS["kafka"]], lambda *_: None)
        try:
            report(rounds, run(settings, rounds))
        finally:
            embedded.down(settings)


def run(settings: Settings, rounds: int) -> dict[str, Figures]:
    scenarios = {"transactions": transactions, "broker": broker, "queue": queue}
    return {name: scenario(settings, rounds) for name, scenario in scenarios.items()}


def report(rounds: int, results: dict[str, Figures]) -> None:
    table = Table(title=f"{rounds} kills each")
    for column in ("", "records", "lost", "doubled", "torn", "rolled back", "redelivered"):
        table.add_column(column, justify="right")
    total: Counter[str] = Counter()
    for name, figures in results.items():
        total.update(figures)
        names = ("records", "lost", "doubled", "torn", "rolled_back", "redelivered")
        table.add_row(name, *(f"{figures[one]:,}" if one in figures else "-" for one in names))
    Console(file=sys.stdout).print(table)
    print(json.dumps({"rounds": rounds, **total}))


def transactions(settings: Settings, rounds: int) -> Figures:
    log = Log.open(settings)
    log.topics.create(LEDGER)
    acknowledged = -1
    for number in range(rounds):
        with worker("write-transactions", settings) as writer:
            wanted = acknowledged + random.randint(1, 15)
            for line in writer.lines():
                acknowledged = int(line)
                if acknowledged >= wanted:
                    break
            time.sleep(random.random() * 0.03)  # into the middle of the next transaction
            writer.kill()
            acknowledged = max([acknowledged, *(int(line) for line in writer.lines())])
        print(f"transactions: kill {number + 1}, {acknowledged + 1} acknowledged", file=sys.stderr)
    with log.writer(transactional_id="chaos"):  # settles what the last kill left open
        pass
    seen = Counter((record.value.number, record.value.part) for record in log.read(LEDGER))
    parts = Counter(number for number, _ in seen)
    return {
        "records": sum(seen.values()),
        "lost": sum(parts[number] == 0 for number in range(acknowledged + 1)),
        "doubled": sum(count > 1 for count in seen.values()),
        "torn": sum(count != PER_TRANSACTION for count in parts.values()),
        "rolled_back": everything_in(LEDGER, settings) - sum(seen.values()),
    }


def write_transactions(settings: Settings) -> None:
    """Transactions numbered on from the last committed one; each number is printed when acknowledged."""
    log = Log.open(settings)
    with log.writer(transactional_id="chaos") as writer:
        number = max((record.value.number for record in log.read(LEDGER)), default=-1)
        while True:
            number += 1
            with writer.transaction():
                for part in range(PER_TRANSACTION):
                    writer.append(LEDGER, {"number": number, "part": part})
                    time.sleep(0.001)
            print(number, flush=True)


def everything_in(topic: Topic, settings: Settings) -> int:
    """All records, rolled back ones too: what a careless reader would see."""
    config = {"group.id": "careless", "isolation.level": "read_uncommitted", "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": embedded.kafka_address(settings), **config})
    consumer.assign([TopicPartition(topic.name, one, 0) for one in range(topic.partitions)])
    count, ended = 0, 0
    while ended < topic.partitions:
        for message in consumer.consume(1000, 1.0):
            ended += message.error() is not None
            count += message.error() is None
    consumer.close()
    return count


def broker(settings: Settings, rounds: int) -> Figures:
    log = Log.open(settings)
    log.topics.create(STREAM)
    appended = 0
    with log.writer() as writer:
        for number in range(rounds):
            restarting = Thread(target=kill_broker, args=(settings,))
            restarting.start()
            while restarting.is_alive():
                writer.append(STREAM, {"number": appended})
                appended += 1
                time.sleep(0.0005)
            restarting.join()
            print(f"broker: kill {number + 1}, {appended:,} appended", file=sys.stderr)
    seen = Counter(record.value.number for record in log.read(STREAM))
    return {
        "records": sum(seen.values()),
        "lost": sum(seen[number] == 0 for number in range(appended)),
        "doubled": sum(count > 1 for count in seen.values()),
    }


def kill_broker(settings: Settings) -> None:
    time.sleep(0.5 + random.random())
    running = next(one for one in embedded.status(settings) if one.name == "kafka")
    assert running.pid is not None, "the broker is not running"
    os.kill(running.pid, signal.SIGKILL)
    embedded.up(settings, [embedded.SERVERS["kafka"]], lambda *_: None)


def queue(settings: Settings, rounds: int) -> Figures:
    log = Log.open(settings)
    log.topics.create(TASKS)
    count = 30 * (rounds + 1)
    with log.writer() as writer:
        for number in range(count):
            writer.append(TASKS, {"number": number})
    done: Counter[int] = Counter()
    for number in range(rounds):
        with worker("do-tasks", settings) as consumer:
            holding = list(islice(consumer.lines(), 20))
            consumer.kill()
            done.update(int(line) for line in [*holding, *consumer.lines()])
        print(f"queue: kill {number + 1}, {len(done):,} of {count:,} tasks done", file=sys.stderr)
    with worker("do-tasks", settings) as consumer:
        consumer.collect(done)
        wait_until(lambda: len(done) == count, A_MINUTE)
    return {
        "records": count,
        "lost": count - len(done) + sum(1 for _ in log.read(f"{TASKS.name}.dead")),
        "redelivered": done.total() - len(done),
    }


def do_tasks(settings: Settings) -> None:
    """Do tasks slowly, so that a kill finds some held; each is printed when it is done."""
    with Log.open(settings).queue(TASKS, "chaos", lock=LOCK, tries=7) as tasks:
        for task in tasks:
            time.sleep(0.01)
            print(task.value.number, flush=True)
            task.acknowledge()


class Worker:
    """A child process that prints a line for each thing that it has done."""

    def __init__(self, verb: str, settings: Settings) -> None:
        command = [sys.executable, __file__, verb, str(settings.home)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def lines(self) -> Iterator[str]:
        assert self.process.stdout is not None
        return (line for line in iter(self.process.stdout.readline, "") if line.endswith("\n"))

    def collect(self, into: Counter[int]) -> None:
        Thread(target=lambda: into.update(map(int, self.lines())), daemon=True).start()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)


@contextmanager
def worker(verb: str, settings: Settings) -> Iterator[Worker]:
    made = Worker(verb, settings)
    try:
        yield made
    finally:
        made.process.kill()
        made.process.wait()
        if made.process.stdout is not None:
            made.process.stdout.close()


if __name__ == "__main__":
    if len(sys.argv) == 3:
        {"write-transactions": write_transactions, "do-tasks": do_tasks}[sys.argv[1]](
            Settings(home=Path(sys.argv[2]))
        )
    else:
        main(int(sys.argv[1]) if len(sys.argv) == 2 else 20)
