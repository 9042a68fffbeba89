"""The log beside bare confluent-kafka loops: the same rows, the same broker, one run.

Each round runs both sides, in turns that change who goes first; the figure is the median of the
rounds' ratios, because on a shared machine only a ratio within one run means anything. "Rows" is
what people do (checked rows to JSON and back), "bytes" is the floor (bytes as they are).

    make bench
"""

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from rich.console import Console
from rich.table import Table

from headwater import Log, Topic, embedded
from headwater.settings import Settings

ROWS = 500_000
ROUNDS = 7
PARTITIONS = 4
CARDS = [f"card-{number:05}" for number in range(1000)]
SCHEMA = "card string NOT NULL, amount double, country string, paid_at timestamp"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(home=Path(folder))
        running = embedded.up(settings, [embedded.SERVERS["kafka"]], lambda *_: None)[0]
        try:
            compare(Log.open(settings), running.address)
        finally:
            embedded.down(settings)


def compare(log: Log, address: str) -> None:
    sides: dict[str, tuple[Callable[[], int], Callable[[], int]]] = {
        "append": (lambda: bare_append(log, address), lambda: our_append(log)),
        "append_bytes": (lambda: bare_append_bytes(log, address), lambda: our_append_bytes(log)),
        "read": (lambda: bare_read(address), lambda: our_read(log)),
        "read_bytes": (lambda: bare_read_bytes(address), lambda: our_read_bytes(log)),
    }
    log.topics.create(topic("bench-past"))
    our_append(log, "bench-past")
    rates: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
    for number in range(ROUNDS + 1):
        for name, (bare, ours) in sides.items():
            first, second = (bare, ours) if number % 2 else (ours, bare)
            measured = {first: rate(first), second: rate(second)}
            if number:  # the first round warms up
                rates[name].append((measured[bare], measured[ours]))
    report(rates)


def report(rates: dict[str, list[tuple[float, float]]]) -> None:
    table = Table(title=f"{ROWS:,} records, {PARTITIONS} partitions, median of {ROUNDS} rounds")
    for column in ("", "bare, records/s", "headwater, records/s", "ratio", "lowest", "highest"):
        table.add_column(column, justify="right")
    figures: dict[str, float] = {}
    for name, pairs in rates.items():
        ratios = sorted(ours / bare for bare, ours in pairs)
        figures[f"{name}_ratio"] = round(statistics.median(ratios), 3)
        bare, ours = (statistics.median(side) for side in zip(*pairs, strict=True))
        shown = (f"{one:.2f}" for one in (statistics.median(ratios), ratios[0], ratios[-1]))
        table.add_row(name, f"{bare:,.0f}", f"{ours:,.0f}", *shown)
    Console(file=sys.stdout).print(table)
    print(json.dumps(figures))


def rate(side: Callable[[], int]) -> float:
    before = time.perf_counter()
    count = side()
    return count / (time.perf_counter() - before)


def topic(name: str) -> Topic:
    return Topic(name, schema=SCHEMA, key="card", event_time="paid_at", partitions=PARTITIONS)


def rows() -> list[dict[str, Any]]:
    paid_at = datetime(2026, 1, 1, tzinfo=UTC)
    return [
        {"card": CARDS[number % 1000], "amount": number / 7, "country": "NL", "paid_at": paid_at}
        for number in range(ROWS)
    ]


ALL_ROWS = rows()
ALL_BYTES = [(one["card"].encode(), json.dumps(one, default=str).encode()) for one in ALL_ROWS]


def fresh(log: Log) -> Topic:
    made = topic(f"bench-{time.monotonic_ns()}")
    log.topics.create(made)
    return made


def our_append(log: Log, name: str = "") -> int:
    target = topic(name) if name else fresh(log)
    with log.writer() as writer:
        for row in ALL_ROWS:
            writer.append(target, row)
    return ROWS


def our_append_bytes(log: Log) -> int:
    name = fresh(log).name
    with log.writer() as writer:
        for key, value in ALL_BYTES:
            writer.append_bytes(name, value, key=key)
    return ROWS


class Bare:
    """A careful hand-written loop: idempotent, every delivery looked at."""

    def __init__(self, log: Log, address: str) -> None:
        self.topic = fresh(log).name
        self.failed = 0
        self.producer = Producer({"bootstrap.servers": address, "enable.idempotence": True, "acks": "all"})

    def delivered(self, error: object, _: object) -> None:
        self.failed += error is not None

    def send(self, key: Any, value: Any) -> None:
        while True:
            try:
                self.producer.produce(self.topic, value, key, on_delivery=self.delivered)
            except BufferError:
                self.producer.poll(0.05)
            else:
                break
        self.producer.poll(0)


def bare_append(log: Log, address: str) -> int:
    bare = Bare(log, address)
    for row in ALL_ROWS:
        bare.send(row["card"], json.dumps(row, default=str))
    bare.producer.flush()
    assert not bare.failed
    return ROWS


def bare_append_bytes(log: Log, address: str) -> int:
    bare = Bare(log, address)
    for key, value in ALL_BYTES:
        bare.send(key, value)
    bare.producer.flush()
    assert not bare.failed
    return ROWS


def bare_consume(address: str) -> Any:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "bare", "fetch.queue.backoff.ms": 5})
    consumer.assign([TopicPartition("bench-past", one, 0) for one in range(PARTITIONS)])
    return consumer


def bare_read(address: str) -> int:
    consumer, count = bare_consume(address), 0
    while count < ROWS:
        for message in consumer.consume(1_000, 0.1):
            if message.error() is None:
                json.loads(message.value())
                count += 1
    consumer.close()
    return count


def bare_read_bytes(address: str) -> int:
    consumer, count, size = bare_consume(address), 0, 0
    while count < ROWS:
        for message in consumer.consume(1_000, 0.1):
            if message.error() is None:
                size += len(message.value())
                count += 1
    consumer.close()
    return count


def our_read(log: Log) -> int:
    count = 0
    with log.read(topic("bench-past")) as reader:
        for record in reader:
            _ = record.value
            count += 1
    assert count == ROWS
    return count


def our_read_bytes(log: Log) -> int:
    count = size = 0
    with log.read("bench-past") as reader:
        for record in reader:
            size += len(record.data or b"")
            count += 1
    assert count == ROWS
    return count


if __name__ == "__main__":
    main()
