"""Copies built beside others, by hand: what a new one takes over, what it refuses, what a switch does."""

import threading
from datetime import date, timedelta

import psycopg
import pytest
from redis import Redis

from headwater import Database, PostgresSink, RedisSink, Settings
from headwater.errors import CopyMismatch, SinkUnreachable
from headwater.log.schema import parse_schema
from headwater.run import rebuild
from headwater.sink.by_key import Change
from headwater.sink.postgres_beside import BesideTable
from headwater.sink.postgres_marks import Marks
from headwater.sink.postgres_table import CopyTable
from headwater.sink.redis_store import RedisStore

pytestmark = pytest.mark.system
NEW = parse_schema("id long, name string, amount decimal(10,2), shout string")
DAY = date(2026, 1, 1)


class Tables:
    """A copy's table as a user has it, and the one beside it."""

    def __init__(self, url, name):
        self.url, self.name = url, f"b_{name.replace('-', '_')[-20:]}"
        sink = PostgresSink(f"public.{self.name}", database=Database("kept", url), key="id")
        self.beside = sink.beside(Settings())
        self.old = CopyTable(sink.name, parse_schema("id long, name string, amount string"), ("id",))
        self.run(self.old.ddl, *self.old.deleted_ddl, Marks(sink.name, "test.p", "q", 0, ()).ddl)

    def run(self, *statements):
        with psycopg.connect(self.url, autocommit=True) as connection:
            for one in statements:
                connection.execute(one)

    def ask(self, sql):
        with psycopg.connect(self.url) as connection:
            return [one for (one,) in connection.execute(sql).fetchall()]

    def make(self):
        table = BesideTable(self.old.name, NEW, ("id",))
        with psycopg.connect(self.url) as connection:
            table.make(connection)
            table.check(connection)
            for one in table.deleted_ddl:
                connection.execute(one)


def test_a_new_table_has_the_old_ones_indices_defaults_and_rights_and_the_rows_columns(postgres, name):
    tables = Tables(postgres, name)
    tables.run(
        f"ALTER TABLE {tables.name} ADD COLUMN made_at timestamptz DEFAULT now(), ADD COLUMN gone text",
        f"CREATE INDEX ON {tables.name} (name)",
        f"GRANT SELECT ON {tables.name} TO PUBLIC",
    )
    tables.make()
    tables.make()
    assert tables.beside.is_begun
    tables.beside.switch(NEW)
    tables.beside.switch(NEW)
    tables.beside.drop()
    columns = "SELECT attname || ' ' || format_type(atttypid, atttypmod) FROM pg_attribute"
    lives = "attnum > 0 AND NOT attisdropped"
    found = tables.ask(f"{columns} WHERE attrelid = '{tables.name}'::regclass AND {lives}")
    assert sorted(found) == [
        "_position bigint",
        "amount numeric(10,2)",
        "id bigint",
        "made_at timestamp with time zone",
        "name text",
        "shout text",
    ]
    assert tables.ask(f"SELECT count(*) FROM pg_indexes WHERE tablename = '{tables.name}'") == [2]
    rights = f"FROM pg_class, aclexplode(relacl) WHERE relname = '{tables.name}' AND grantee = 0"
    assert tables.ask(f"SELECT privilege_type {rights}") == ["SELECT"]
    assert (
        tables.ask(f"SELECT relname FROM pg_class WHERE relname LIKE '{tables.name}~%' AND relkind = 'r'")
        == []
    )


def test_a_table_on_which_a_view_hangs_keeps_its_place(postgres, name):
    tables = Tables(postgres, name)
    tables.run(f"CREATE VIEW {tables.name}_seen AS SELECT id FROM {tables.name}")
    with pytest.raises(CopyMismatch, match="cannot give its place to another") as caught:
        tables.make()
    assert caught.value.detail == f"view {tables.name}_seen"
    assert not tables.beside.is_begun


def test_the_renaming_waits_for_a_reader_and_others_do_not_wait_for_it(postgres, name):
    tables = Tables(postgres, name)
    tables.make()
    with psycopg.connect(postgres) as slow:
        slow.execute(f"SELECT * FROM {tables.name}")
        switching = threading.Thread(target=tables.beside.switch, args=(NEW,))
        switching.start()
        for _ in range(10):
            tables.run("SET statement_timeout = '2s'", f"SELECT * FROM {tables.name}")
        assert switching.is_alive()
        slow.commit()
        switching.join(30)
    assert tables.ask(f"SELECT count(shout) FROM {tables.name}") == [0]


@pytest.mark.parametrize("form", ["hash", "json"])
def test_rows_in_redis_are_put_over_the_old_ones_even_if_positions_began_anew(redis, name, form):
    columns = parse_schema("id long, day date, name string")

    def write(prefix, *told):
        usual = {"form": form, "columns": columns, "keys": ("id", "day"), "ttl": None}
        rows = [
            Change((key, DAY), at, said and {"id": key, "day": DAY, "name": said}) for key, at, said in told
        ]
        RedisStore(url=redis, prefix=prefix, remembered=timedelta(hours=1), **usual)(iter([rows]))

    sink = RedisSink(name, key=["id", "day"], form=form, url=redis)
    beside, long_ago = sink.beside(Settings()), 10**9
    write(name, (1, 1, "old"), (2, 1, "ghost"), (3, long_ago, "old"), (4, long_ago, None), (5, 7, "old"))
    write(f"{name}:old", (7, 1, "of another copy"))
    assert not beside.is_begun
    write(f"{name}~new", (1, 3, "new"), (3, 4, "new"), (5, 8, None), (6, 1, "new"))
    assert beside.is_begun
    beside.switch(columns)
    beside.switch(columns)
    assert sorted((one["id"], one["name"]) for one in sink.read(columns, Settings())) == [
        (1, "new"),
        (3, "new"),
        (6, "new"),
    ]
    beside.drop()
    with Redis.from_url(redis, decode_responses=True) as known:
        left = {one.removeprefix(name) for one in known.scan_iter(f"{name}[~:]*", count=1000)}
    rows = {f":{key}:{DAY}" for key in (1, 3, 6)}
    assert left == rows | {f":old:7:{DAY}", f"~deleted:5:{DAY}", "~switches"}


def test_a_switch_is_tried_again_while_its_system_is_away(monkeypatch):
    monkeypatch.setattr(rebuild, "_PAUSE", 0)
    answers = iter([SinkUnreachable("away"), SinkUnreachable("away"), None])

    class Beside:
        def switch(self, _):
            if answer := next(answers):
                raise answer

    rebuild._switch(Beside(), NEW)
    assert next(answers, "no more") == "no more"
