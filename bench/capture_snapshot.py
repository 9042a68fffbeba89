"""A snapshot of a large table while others go on writing to it: rows a second, and nothing missing.

The table has its rows; then capture begins, and at the same time a thread inserts, updates and deletes. When
all is in the log, the newest change of every key is compared with the table, row by row.
"""

import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import msgspec
import psycopg
from confluent_kafka import Consumer, TopicPartition

from bench.capture_hops import under_way
from headwater import Database, Settings, Table, embedded
from headwater.capture.capturing import capturing, ensure
from headwater.capture.connect import Connect
from headwater.clock import wait_until
from headwater.log.connection import Connection
from headwater.log.positions import Positions

A_SECOND = 100
_ENDS_WITHIN = timedelta(minutes=5)
_COLUMNS = "id bigint PRIMARY KEY, product text, amount numeric(10,2), placed_at timestamptz, number bigint"
_SCHEMA = "id long NOT NULL, product string, amount decimal(10,2), placed_at timestamp, number long"
_FILL = (
    "INSERT INTO many SELECT n, 'product ' || n, n %% 1000, now() - n * interval '1 ms', n "
    "FROM generate_series(1, %s) AS n"
)
_AS_TOLD = (
    "SELECT id, product, amount::text, (extract(epoch FROM placed_at) * 1000000)::bigint, number FROM many"
)


@dataclass(frozen=True)
class Snapshot:
    """The rows that it read, in how many seconds, the changes beside it, and how many rows differ."""

    rows: int
    seconds: float
    changes: int
    differing: int

    @property
    def rows_per_s(self) -> float:
        return self.rows / self.seconds


def measured(database: Database, rows: int, settings: Settings) -> Snapshot:
    """Capture a new table of so many rows, from the call to the append of the last row that was read."""
    table = Table(database, "public.many", schema=_SCHEMA, key="id")
    url = database.url or embedded.postgres_url(settings) or ""
    with psycopg.connect(url, autocommit=True) as sql:
        sql.execute(f"CREATE TABLE many ({_COLUMNS})")
        sql.execute(_FILL, [rows])
        began = time.time()
        with under_way(partial(_write, url, rows)):
            ensure("snapshot", [table], settings)
            assert wait_until(lambda: _ended(settings, table, rows), _ENDS_WITHIN, pause=0.2)
        sql.execute("INSERT INTO many (id) VALUES (0)")
        found = _Told()
        for message in _messages(settings, table):
            if found.take(message):
                break
        differing = found.compared(sql.execute(_AS_TOLD).fetchall())
    for one in capturing("snapshot", [table], settings):
        one.remove(for_good=True)
    return Snapshot(found.read, found.ended - began, found.changes, differing)


def _write(url: str, rows: int, stop: threading.Event) -> None:
    """Insert, update and delete, on a timetable."""
    chance, began, written = random.Random(7), time.perf_counter(), 0
    with psycopg.connect(url, autocommit=True) as connection:
        while not stop.wait(max(0.0, began + written / A_SECOND - time.perf_counter())):
            written += 1
            number, key = rows + written, chance.randrange(1, rows + 1)
            statement: Any = chance.choice(
                [
                    f"INSERT INTO many VALUES ({number}, 'beside', 1, now(), {number})",
                    f"UPDATE many SET product = 'changed', number = {number} WHERE id = {key}",
                    f"DELETE FROM many WHERE id = {key}",
                ]
            )
            connection.execute(statement)


def _ended(settings: Settings, table: Table, rows: int) -> bool:
    """Whether much has come, and the connector's place no longer tells of rows that it has still to read."""
    if sum(Positions(Connection(settings)).end(table.changes.name, [0]).values()) < rows // 2:
        return False
    place = Connect.open(settings).offsets(f"headwater-{table.database.name}")
    return not any("incremental" in one for one in place)


def _messages(settings: Settings, table: Table) -> Iterator[Any]:
    address = embedded.kafka_address(settings) or ""
    with Consumer(
        {"bootstrap.servers": address, "group.id": "bench", "enable.auto.commit": False}
    ) as consumer:
        consumer.assign([TopicPartition(table.changes.name, 0, 0)])
        while True:
            yield from consumer.consume(5000, 0.2)


@dataclass
class _Told:
    """What the topic tells: rows read, when the last of them was appended, the newest row of every key."""

    read: int = 0
    changes: int = 0
    ended: float = 0.0
    newest: dict[int, tuple[Any, ...]] = field(default_factory=dict)

    def take(self, message: Any) -> bool:
        """Take one record; tells whether it is the last, the row with the id 0."""
        if message.value() is None:  # a tombstone, after its delete
            return False
        key, told = msgspec.json.decode(message.key())["id"], msgspec.json.decode(message.value())
        if told["op"] == "r":
            self.read, self.ended = self.read + 1, message.timestamp()[1] / 1000
        else:
            self.changes += 1
        if told["op"] == "d":
            self.newest.pop(key, None)
        else:
            self.newest[key] = _in_order(told["after"])
        return bool(key == 0)

    def compared(self, rows: list[tuple[Any, ...]]) -> int:
        """How many rows are in the table and not, or not so, in the log; or the other way round."""
        wrong = [row for row in rows if self.newest.pop(row[0], None) != row]
        return len(wrong) + len(self.newest)


def _in_order(told: dict[str, Any]) -> tuple[Any, ...]:
    placed_at = told["placed_at"] and round(datetime.fromisoformat(told["placed_at"]).timestamp() * 1e6)
    return (told["id"], told["product"], told["amount"], placed_at, told["number"])
