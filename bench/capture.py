"""How long a commit takes to every copy, and how many rows a second a snapshot brings, on embedded servers.

A thread commits 75 updates a second to PostgreSQL, on a timetable. Debezium captures them, and a pipeline
keeps a copy by micro-batches: in Redis, then in a search index, then in PostgreSQL, one at a time. A change's
time begins just before its statement is sent, so the database's own share is in it, and ends when a reader of
committed records has it, or when a reader of the copy sees it; in the search index, when a search finds it.
Only what was sent after the warm-up is counted, all of it.

    .venv/bin/python -m bench.capture [seconds of each measurement] [rows of the snapshot]
"""

import json
import sys
import tempfile
import time
from bisect import bisect_right
from contextlib import ExitStack
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

from bench import capture_hops as hops
from bench import capture_snapshot
from bench.latency_picture import at
from headwater import (
    App,
    Database,
    Pipeline,
    PostgresSink,
    RedisSink,
    SearchSink,
    Settings,
    Table,
    embedded,
    upserts,
)
from headwater.clock import wait_until
from headwater.embedded.ports import a_free_port
from headwater.run.runner import running
from headwater.sink.contract import Sink

A_SECOND = 75
KEYS = 1000
RUN = 1_000_000
"""Numbers that a run has for its changes."""

WARM_UP = 15.0
SERVERS = ("kafka", "connect", "postgres", "redis", "search")
SHOP = Database("shop")
ORDERS = Table(
    SHOP,
    "public.orders",
    schema="id long NOT NULL, product string, amount decimal(10,2), placed_at timestamp, number long",
    key="id",
)
SINKS: dict[str, Sink] = {
    "redis": RedisSink("orders", key="id"),
    "search": SearchSink("orders", key="id"),
    "postgres": PostgresSink("public.orders_copy", database=SHOP, key="id"),
}


def main(seconds: float, rows: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(home=Path(folder), **{f"{one}_port": a_free_port() for one in SERVERS})  # type: ignore[arg-type]
        embedded.up(settings, [embedded.SERVERS[one] for one in SERVERS], lambda *_: None)
        try:
            fill(settings)
            ways = {copy: hops.Way(RUN * place) for place, copy in enumerate(SINKS)}
            found = {copy: measured(copy, way, settings, seconds) for copy, way in ways.items()}
            snapshot = capture_snapshot.measured(Database("history"), rows, settings)
        finally:
            embedded.down(settings)
    report(found, snapshot)


def fill(settings: Settings) -> None:
    with psycopg.connect(embedded.postgres_url(settings) or "") as connection:
        connection.execute(
            "CREATE TABLE orders (id bigint PRIMARY KEY, product text, amount numeric(10,2), "
            "placed_at timestamptz, number bigint)"
        )
        connection.execute(
            "INSERT INTO orders SELECT n, 'product ' || n, n, now() FROM generate_series(0, %s) AS n",
            [KEYS - 1],
        )


def measured(copy: str, way: hops.Way, settings: Settings, seconds: float) -> dict[str, list[float]]:
    """Each hop of every change that was sent after the warm-up, in milliseconds."""
    url = embedded.postgres_url(settings) or ""
    seen, begun = way.copies.setdefault(copy, {}), way.batches.setdefault(copy, [])
    sink = hops.Timed(SINKS[copy], begun)
    app = App(f"to-{copy}", Pipeline("copy", upserts, reads=[ORDERS], writes=sink), captures=[ORDERS])
    with ExitStack() as stack:
        supervisor = stack.enter_context(running(app, settings))
        numbers = stack.enter_context(reader(copy, settings, url))
        address = str(embedded.kafka_address(settings))
        works = (
            partial(hops.commit, url, "orders", KEYS, A_SECOND, way),
            partial(hops.consume, address, ORDERS.changes.name, way),
            partial(hops.look, numbers, way, seen),
        )
        assert wait_until(lambda: supervisor.figures[0].lag == 0, timedelta(minutes=2)), supervisor.errors
        stack.enter_context(hops.under_way(*works))
        return timed(copy, way, seconds, supervisor)


def reader(copy: str, settings: Settings, url: str) -> Any:
    match copy:
        case "redis":
            return hops.in_redis(embedded.redis_url(settings) or "", "orders", KEYS)
        case "search":
            return hops.in_search(embedded.search_url(settings) or "", "orders")
    return hops.in_postgres(url, "public.orders_copy")


def timed(copy: str, way: hops.Way, seconds: float, supervisor: Any) -> dict[str, list[float]]:
    seen = way.copies[copy]
    time.sleep(WARM_UP)
    began = time.time()
    time.sleep(seconds)
    ended = time.time()
    numbers = [one for one, sent in list(way.sent.items()) if began <= sent < ended]
    settled = wait_until(lambda: all(one in seen for one in numbers), timedelta(seconds=60))
    assert settled, f"{copy}: {sum(one not in seen for one in numbers)} changes did not arrive"
    took = [one.batch_ms for one in supervisor.pipelines[0].history]
    print(f"{copy}: {len(numbers):,} commits; a batch takes {at(sorted(took[-50:]), 50):.0f} ms", flush=True)
    return shares(copy, way, numbers)


def shares(copy: str, way: hops.Way, numbers: list[int]) -> dict[str, list[float]]:
    begun, seen = way.batches[copy], way.copies[copy]

    def written(number: int) -> float:
        """When the batch that has it began to be written: the last before it was seen."""
        return begun[bisect_right(begun, seen[number]) - 1]

    moments = {
        one: (way.sent[one], way.committed[one], way.captured[one], way.appended[one]) for one in numbers
    }
    found: dict[str, list[float]] = {
        "commit": [to - since for since, to, _, _ in moments.values()],
        "Debezium": [to - since for _, since, to, _ in moments.values()],
        "append": [to - since for _, _, since, to in moments.values()],
        "transaction": [way.in_kafka[one] - appended for one, (*_, appended) in moments.items()],
        "to Kafka": [way.in_kafka[one] - way.sent[one] for one in numbers],
        "Spark": [written(one) - way.in_kafka[one] for one in numbers],
        "sink": [seen[one] - written(one) for one in numbers],
        "to the copy": [seen[one] - way.sent[one] for one in numbers],
    }
    return {hop: [1000 * one for one in took] for hop, took in found.items()}


def report(found: dict[str, dict[str, list[float]]], snapshot: capture_snapshot.Snapshot) -> None:
    print(f"{'p50 / p99 ms':14}" + "".join(f"{copy:>18}" for copy in found))
    for hop in next(iter(found.values())):
        cells = (f"{at(one[hop], 50):,.1f} / {at(one[hop], 99):,.1f}" for one in found.values())
        print(f"{hop:14}" + "".join(f"{cell:>18}" for cell in cells))
    print(
        f"snapshot: {snapshot.rows:,} rows in {snapshot.seconds:.1f} s, beside {snapshot.changes:,} changes; "
        f"{snapshot.differing} rows differ"
    )
    assert snapshot.differing == 0, "the log is not the table"
    figures = {
        **of_kafka([took for one in found.values() for took in one["to Kafka"]]),
        **{f"commit_to_{copy}_p50_ms": round(at(one["to the copy"], 50)) for copy, one in found.items()},
        **{f"commit_to_{copy}_p99_ms": round(at(one["to the copy"], 99)) for copy, one in found.items()},
        "snapshot_rows_per_s": round(snapshot.rows_per_s),
    }
    for name, value in figures.items():
        print(f"{name} {value}")
    print(json.dumps(figures))


def of_kafka(took: list[float]) -> dict[str, float]:
    return {f"commit_to_kafka_p{one}_ms": round(at(took, one), 1) for one in (50, 99)}


if __name__ == "__main__":
    asked = sys.argv[1:]
    main(float(asked[0]) if asked else 30.0, int(asked[1]) if len(asked) > 1 else 1_000_000)
