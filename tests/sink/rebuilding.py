"""Copies that are rebuilt under load: a writer that never rests, and readers that note what must not be."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import psycopg
import redis as client

from headwater import Database, PostgresSink, RedisSink, SearchSink, Table
from headwater.sink.search_server import SearchServer

KEYS = range(100)
"""Rows that are always there; those from 100 to 299 come and go."""

GHOST = 9999
"""A row that the log never had."""

Rows = dict[int, int]
"""The number of each row, which grows with each of its changes."""


class Source:
    """A table's changes in the log, as capture writes them."""

    def __init__(self, log: Any, name: str) -> None:
        schema = "id long NOT NULL, number long"
        self.log = log
        self.table = Table(Database("shop"), f"public.{name}", schema=schema, key="id", partitions=2)
        self.newest: Rows = {}
        self._number = 0
        log.topics.create(self.table.changes)

    def change(self, count: int) -> None:
        """That many changes: each row that stays is written, others are inserted and deleted in turn."""
        with self.log.writer() as writer:
            for _ in range(count):
                self._number += 1
                stays = self._number % 3 > 0
                key = self._number % 100 if stays else 100 + self._number // 3 % 200
                envelope: dict[str, Any] = {"op": "u", "source": {"ts_us": 1_794_999_960_000_000}}
                if stays or self._number // 600 % 2 == 0:
                    self.newest[key] = self._number
                    envelope["after"] = {"id": key, "number": self._number}
                else:
                    self.newest.pop(key, None)
                    envelope |= {"op": "d", "before": {"id": key}}
                data = json.dumps(envelope).encode()
                writer.append_bytes(self.table.changes.name, data, key=b'{"id":%d}' % key)

    @contextmanager
    def restless(self) -> Iterator[None]:
        """Changes all the time."""
        with _again_and_again(lambda: self.change(10)):
            yield


class InPostgres:
    kind = "postgres"

    def __init__(self, url: str, name: str) -> None:
        self.url, self.name = url, f"public.{name}"
        self.sink = PostgresSink(self.name, database=Database("kept", url), key="id")

    @contextmanager
    def reader(self) -> Iterator[Callable[[], Rows]]:
        with psycopg.connect(self.url, autocommit=True) as found:
            asked = f"SELECT id, number::bigint FROM {self.name}"  # the same for a statement that is prepared
            yield lambda: dict(found.execute(asked).fetchall())

    def haunt(self) -> None:
        with psycopg.connect(self.url, autocommit=True) as found:
            found.execute(f"INSERT INTO {self.name} (id, _position) VALUES ({GHOST}, {10**12})")

    def left(self) -> list[str]:
        """What a rebuild has left."""
        with psycopg.connect(self.url) as found:
            named = f"relname LIKE '{self.name.removeprefix('public.')}~%'"
            tables = found.execute(f"SELECT relname FROM pg_class WHERE relkind = 'r' AND {named}").fetchall()
            marked = "SELECT pipeline FROM headwater_slices WHERE copy LIKE %s AND pipeline LIKE '%%-rebuild'"
            return [one for (one,) in [*tables, *found.execute(marked, [f"{self.name}%"]).fetchall()]]


class InRedis:
    kind = "redis"

    def __init__(self, url: str, name: str) -> None:
        self.url, self.name = url, name
        self.sink = RedisSink(name, key="id", url=url)

    @contextmanager
    def reader(self) -> Iterator[Callable[[], Rows]]:
        with client.Redis.from_url(self.url, decode_responses=True) as found:

            def read() -> Rows:
                asked = found.pipeline(transaction=False)
                for key in (*range(300), GHOST):
                    asked.hget(f"{self.name}:{key}", "number")
                told = zip((*range(300), GHOST), asked.execute(), strict=True)
                return {key: int(number) for key, number in told if number is not None}

            yield read

    def haunt(self) -> None:
        with client.Redis.from_url(self.url) as found:
            row = {"id": GHOST, "number": 0, "_position": 10**12}
            found.hset(f"{self.name}:{GHOST}", mapping=row)
            found.hset(f"{self.name}:old:7", mapping={"id": 7, "number": 1})  # of the copy `…:old`

    def left(self) -> list[str]:
        with client.Redis.from_url(self.url, decode_responses=True) as found:
            alien = [] if found.exists(f"{self.name}:old:7") else ["a row of another copy was removed"]
            return [*found.scan_iter(f"{self.name}~new*"), *alien]


class InSearch:
    kind = "search"

    def __init__(self, url: str, name: str) -> None:
        self.url, self.name = url, name.replace("_", "-").strip("-").lower()
        self.sink = SearchSink(self.name, key="id", url=url)

    @contextmanager
    def reader(self) -> Iterator[Callable[[], Rows]]:
        with SearchServer(self.url) as server:

            def read() -> Rows:
                found = server.ask("POST", f"{self.name}/_search?size=1000", {"query": {"match_all": {}}})
                assert found.is_good, found
                assert len({one["_index"] for one in found.body["hits"]["hits"]}) <= 1
                hits = [one["_source"] for one in found.body["hits"]["hits"]]
                return {one["id"]: one["number"] for one in hits}

            yield read

    def haunt(self) -> None:
        with SearchServer(self.url) as server:
            said = {"id": GHOST, "number": 0}
            assert server.ask("PUT", f"{self.name}/_doc/{GHOST}?refresh=true", said).is_good

    def left(self) -> list[str]:
        with SearchServer(self.url) as server:
            found = server.ask("GET", f"{quote(self.name)}-*/_alias").body
            return sorted(found)[:-1] + [
                alias
                for one in found.values()
                for alias in one["aliases"]
                if alias.endswith(("~new", "~old"))
            ]


KINDS: dict[str, Any] = {one.kind: one for one in (InPostgres, InRedis, InSearch)}


class Watch:
    """Readers that look at a copy without a pause, and note what they should not have seen."""

    def __init__(self, copy: Any) -> None:
        self.faults: list[str] = []
        self.looks = 0
        self._copy = copy

    @contextmanager
    def watching(self, readers: int = 2) -> Iterator[None]:
        if not readers:
            yield
            return
        with self._copy.reader() as read, self.watching(readers - 1):
            seen: Rows = {}
            with _again_and_again(lambda: self._look(read, seen)):
                yield

    def _look(self, read: Callable[[], Rows], seen: Rows) -> None:
        try:
            rows = read()
        except Exception as error:  # noqa: BLE001 - whatever it is, a reader had no answer
            self.faults.append(f"{type(error).__name__}: {error}")
            return
        self.looks += 1
        self.faults += [f"{key} is missing" for key in KEYS if key not in rows]
        self.faults += [f"{key} is older" for key in KEYS if rows.get(key, 0) < seen.get(key, 0)]
        seen |= rows


@contextmanager
def _again_and_again(action: Callable[[], None]) -> Iterator[None]:
    ended = threading.Event()

    def act() -> None:
        while not ended.wait(0.05):
            action()

    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
