"""The two ends of a latency: a producer on a timetable, a consumer, and a stopwatch for every record."""

import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Literal

import msgspec
from confluent_kafka import Consumer, Producer, TopicPartition

from headwater import Topic

A_SECOND = 200
CARDS = 20
WINDOW = 10
Place = tuple[str, int]
"""What an output row answers for: a record, or a card's window."""


@dataclass(frozen=True)
class Run:
    """One measurement: which pipeline, in which mode, with batches of which length."""

    work: Literal["stateless", "windowed"]
    latency: Literal["real-time", "micro-batch"]
    every: timedelta | None = None

    @property
    def name(self) -> str:
        length = f" {self.every.total_seconds():.0f} s" if self.every else ""
        return f"{self.work}, {self.latency}{length}"


@dataclass
class Stopwatch:
    """When each record was sent, until an answer stops its time."""

    waiting: dict[Place, dict[int, float]] = field(default_factory=lambda: defaultdict(dict))
    took: list[tuple[float, float]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def sent(self, place: Place, number: int) -> None:
        with self.lock:
            self.waiting[place][number] = time.perf_counter()

    def answered(self, place: Place, number: int, at: float) -> None:
        with self.lock:
            for one in [one for one in self.waiting[place] if one <= number]:
                began = self.waiting[place].pop(one)
                self.took.append((began, at - began))

    def unanswered(self, before: float) -> int:
        """Records that were sent before a moment and still wait."""
        with self.lock:
            return sum(sent < before for place in self.waiting.values() for sent in place.values())


def produce(address: str, topic: Topic, run: Run, watch: Stopwatch, stop: threading.Event) -> None:
    """Send on a timetable, from the first answer's absence to the end."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 0, "partitioner": "murmur2_random"})
    encode, began, number = msgspec.json.encode, time.perf_counter(), 0
    while not stop.wait(max(0.0, began + number / A_SECOND - time.perf_counter())):
        number += 1
        card, now = f"card-{number % CARDS}", datetime.now(UTC)
        row = {"card": card, "amount": float(1 + number % 100), "paid_at": now, "number": number}
        value = encode(row)
        watch.sent(place_of(run, card, now, number), number)
        producer.produce(topic.name, value, card.encode())
        producer.poll(0)
    producer.flush(10)


def consume(address: str, topic: Topic, run: Run, watch: Stopwatch, stop: threading.Event) -> None:
    config = {"bootstrap.servers": address, "group.id": "bench", "enable.auto.commit": False}
    consumer = Consumer(config)
    consumer.assign([TopicPartition(topic.name, one, 0) for one in range(topic.partitions)])
    time_column = "opened_at" if run.work == "windowed" else "paid_at"
    while not stop.is_set():
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            arrived, row = time.perf_counter(), msgspec.json.decode(message.value() or b"")
            moment = datetime.fromisoformat(row[time_column])
            watch.answered(place_of(run, row["card"], moment, row["number"]), row["number"], arrived)
    consumer.close()


def place_of(run: Run, card: str, moment: datetime, number: int) -> Place:
    return (card, int(moment.timestamp()) // WINDOW) if run.work == "windowed" else ("", number)
