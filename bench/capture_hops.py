"""How far each change has come, and when: moments of one wall clock, from the statement to every copy.

All that tells the time (PostgreSQL, Debezium, the broker, this process) runs on one machine, so moments can
be subtracted. A change is recognized by a number that it alone has, and that grows: a copy that has number n
has shown all changes before it.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import psycopg
import redis
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from headwater.sink.contract import Batch, Guarantee, Sink
from headwater.sink.search_server import SearchServer

LOOK_EVERY = 0.005
Seen = dict[int, float]
"""When a change was first seen at a place, by its number."""


@dataclass
class Way:
    """The moments of every change; their numbers begin after `first`, so that runs do not meet."""

    first: int
    sent: Seen = field(default_factory=dict)
    committed: Seen = field(default_factory=dict)
    captured: Seen = field(default_factory=dict)
    appended: Seen = field(default_factory=dict)
    in_kafka: Seen = field(default_factory=dict)
    copies: dict[str, Seen] = field(default_factory=dict)
    batches: dict[str, list[float]] = field(default_factory=dict)
    """When each copy's batches began to be written."""

    def waiting(self, seen: Seen) -> list[int]:
        """The changes that a place has not shown yet, the oldest first."""
        return [one for one in list(self.sent) if one not in seen]


class Timed:
    """A sink that tells when it begins to write a batch."""

    def __init__(self, sink: Sink, begun: list[float]) -> None:
        self.name, self._sink, self._begun = sink.name, sink, begun
        self.guarantee: Guarantee = sink.guarantee

    def check(self, columns: StructType) -> None:
        self._sink.check(columns)

    def write(self, rows: DataFrame, batch: Batch) -> int | None:
        self._begun.append(time.time())
        return self._sink.write(rows, batch)


def commit(url: str, table: str, keys: int, a_second: float, way: Way, stop: threading.Event) -> None:
    """Commit one update after another, on a timetable that waits for nobody."""
    with psycopg.connect(url, autocommit=True) as connection:
        began, number = time.perf_counter(), 0
        while not stop.wait(max(0.0, began + number / a_second - time.perf_counter())):
            number += 1
            told = way.first + number
            way.sent[told] = time.time()
            connection.execute(
                f"UPDATE {table} SET number = %s, amount = %s WHERE id = %s", [told, told % 100, told % keys]
            )


def consume(address: str, topic: str, way: Way, stop: threading.Event) -> None:
    """Read the topic as anybody would who reads what is committed."""
    with Consumer(
        {"bootstrap.servers": address, "group.id": "bench", "enable.auto.commit": False}
    ) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while not stop.is_set():
            message = consumer.poll(0.1)
            if message is None or message.error() is not None or message.value() is None:
                continue
            arrived, told = time.time(), msgspec.json.decode(message.value() or b"")
            number = told["after"]["number"]
            if number in way.sent:
                way.committed[number] = told["source"]["ts_us"] / 1e6
                way.captured[number] = told["ts_us"] / 1e6
                way.appended[number] = message.timestamp()[1] / 1e3
                way.in_kafka[number] = arrived


Numbers = Callable[[list[int]], list[int]]
"""Which of the changes that are waited for a copy shows now."""


def look(numbers: Numbers, way: Way, seen: Seen, stop: threading.Event) -> None:
    """Look into a copy again and again."""
    while not stop.wait(LOOK_EVERY):
        waiting = way.waiting(seen)
        found = numbers(waiting) if waiting else []
        now = time.time()
        seen.update((one, now) for one in found)


@contextmanager
def in_redis(url: str, prefix: str, keys: int) -> Iterator[Numbers]:
    with redis.Redis.from_url(url) as client:

        def numbers(waiting: list[int]) -> list[int]:
            asked = client.pipeline(transaction=False)
            for one in waiting:
                asked.hget(f"{prefix}:{one % keys}", "number")
            found: list[Any] = asked.execute()
            return [one for one, kept in zip(waiting, found, strict=True) if int(kept or 0) >= one]

        yield numbers


@contextmanager
def in_search(url: str, alias: str) -> Iterator[Numbers]:
    """What a search finds: a document is in the index before that, and is found after its next refresh."""
    with SearchServer(url) as server:

        def numbers(waiting: list[int]) -> list[int]:
            said = {"size": 1, "_source": ["number"], "sort": [{"number": "desc"}]}
            found = server.ask("POST", f"{alias}/_search", said)
            hits = found.body["hits"]["hits"] if found.is_good else []
            newest = max((one["_source"]["number"] or 0 for one in hits), default=0)
            return [one for one in waiting if one <= newest]

        yield numbers


@contextmanager
def in_postgres(url: str, table: str) -> Iterator[Numbers]:
    with psycopg.connect(url, autocommit=True) as connection:

        def numbers(waiting: list[int]) -> list[int]:
            there = connection.execute("SELECT to_regclass(%s) IS NOT NULL", [table]).fetchone()
            if there != (True,):
                return []
            found = connection.execute(f"SELECT max(number) FROM {table}").fetchone()
            return [one for one in waiting if one <= ((found and found[0]) or 0)]

        yield numbers


@contextmanager
def under_way(*works: Callable[[threading.Event], None]) -> Iterator[None]:
    """Threads for the block; they are told to stop at its end."""
    stop = threading.Event()
    threads = [threading.Thread(target=work, args=(stop,), daemon=True) for work in works]
    for one in threads:
        one.start()
    try:
        yield
    finally:
        stop.set()
        for one in threads:
            one.join()
