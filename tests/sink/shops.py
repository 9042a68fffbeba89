"""A shop whose orders are captured: their changes in the log, as a connector writes them, and the copies."""

import json
import os
import random
import signal
from dataclasses import dataclass
from typing import Any

import psycopg
import redis as client

from headwater import App, Database, Pipeline, PostgresSink, RedisSink, Settings, Table, embedded, upserts


def up(settings: Settings, *names: str) -> None:
    embedded.up(settings, [embedded.SERVERS[one] for one in names], lambda *_: None)


def kill(settings: Settings, name: str) -> None:
    pid = next(one.pid for one in embedded.status(settings) if one.name == name)
    os.kill(int(pid or 0), signal.SIGKILL)


@dataclass
class Shop:
    """A table's changes in the log, as capture would have written them, and its copies."""

    log: Any
    settings: Settings
    name: str

    def __post_init__(self) -> None:
        self.url = embedded.postgres_url(self.settings) or ""
        self.table = Table(
            Database("shop", self.url),
            f"public.{self.name}",
            schema="id long NOT NULL, name string",
            key="id",
            partitions=2,
        )
        self.in_postgres = PostgresSink(f"public.{self.name}_copy", database=self.table.database, key="id")
        self.in_redis = RedisSink(self.name, key="id", url=embedded.redis_url(self.settings))
        self.newest: dict[int, str] = {}
        self.log.topics.create(self.table.changes)

    def change(self, count: int, chance: random.Random) -> None:
        """That many inserts, updates and deletes of 300 keys, each key in the order of its commits."""
        with self.log.writer() as writer:
            for number in range(count):
                key, source = chance.randrange(300), {"ts_us": 1_794_999_960_000_000 + number}
                row = {"id": key, "name": f"n{number}"}
                envelope: dict[str, Any] = {
                    "op": "u" if key in self.newest else "c",
                    "after": row,
                    "source": source,
                }
                self.newest[key] = f"n{number}"
                if chance.random() < 0.2:
                    envelope = {"op": "d", "before": {"id": key}, "source": source}
                    del self.newest[key]
                data, topic = json.dumps(envelope).encode(), self.table.changes.name
                writer.append_bytes(topic, data, key=b'{"id":%d}' % key)

    def copies(self) -> list[dict[int, str]]:
        """What readers of either copy find."""
        with psycopg.connect(self.url) as database:
            found: Any = database.execute(f"SELECT id, name FROM {self.in_postgres.name}").fetchall()
            rows = dict(found)
        with client.Redis.from_url(embedded.redis_url(self.settings) or "", decode_responses=True) as known:
            pattern = f"{self.name}:*"
            kept = [known.hgetall(key) for key in known.scan_iter(pattern, count=1000)]
        return [rows, {int(one["id"]): one["name"] for one in kept if one}]  # some went between the two

    def app(self, **more: Any) -> App:
        return App(
            self.name,
            Pipeline("in-postgres", upserts, reads=[self.table], writes=self.in_postgres, **more),
            Pipeline("in-redis", upserts, reads=[self.table], writes=self.in_redis, **more),
        )
