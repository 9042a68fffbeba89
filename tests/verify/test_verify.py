"""Copies in real systems against the log and the database: equal, and every forgery is named."""

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pymysql
import pytest
from redis import Redis
from tests.cli.command import called
from tests.run.test_pipelines import finished

from headwater import (
    App,
    Database,
    KafkaSink,
    Pipeline,
    PostgresSink,
    RedisSink,
    SearchSink,
    Settings,
    Table,
    Topic,
    embedded,
    upserts,
)
from headwater.capture.database import parsed
from headwater.errors import BadPipeline, DatabaseRefused, DatabaseUnreachable
from headwater.log.formats.changes import ChangesCodec
from headwater.sink.by_key import Change
from headwater.sink.redis_store import RedisStore
from headwater.sink.search_server import SearchServer
from headwater.verify.pipeline import verify

pytestmark = pytest.mark.system
NOW = timedelta(milliseconds=1)
SCHEMA = (
    "shop string NOT NULL, id long NOT NULL, name string, price decimal(12,2), weight double, good boolean, "
    "sold_on date, sold_at timestamp, local timestamp_ntz, photo binary, tags array<string>, about string, "
    "opens long"
)
DDL = (
    "shop {text}, id bigint, name {text}, price numeric(12,2), weight double precision, good boolean, "
    "sold_on date, sold_at {instant}, local {local}, photo {bytes}, tags {tags}, about {json}, opens {time}, "
    "PRIMARY KEY (shop, id)"
)
AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
UTC_TIME = "SET time_zone = '+00:00'"
UNLIKELY = 0.1234567
SYSTEMS = ("PostgresSink", "RedisSink", "SearchSink")


def row(number):
    """A row of the table as the log has it; every fifth one is as empty as it can be."""
    key = {"shop": f"ams:{number % 3}", "id": number}
    if number % 5 == 0:
        return key
    return key | {
        "name": f"thing {number} ☂",
        "price": Decimal(number) / 4,
        "weight": float("nan") if number % 7 == 0 else number / 3,
        "good": number % 2 == 0,
        "sold_on": date(2026, 1, 1 + number % 28),
        "sold_at": AT + timedelta(microseconds=number),
        "local": AT.replace(tzinfo=None),
        "photo": bytes([number, 0, 255]),
        "tags": ["a", None, f"{number}"],
        "about": '{"of": [1]}',
        "opens": 1_000_000 * number,
    }


ROWS = [row(number) for number in range(40)]


class World:
    """A table, its changes in the log, and its copies in three systems."""

    def __init__(self, table, app, settings):
        self.table, self.app, self.settings = table, app, settings

    def verified(self, **asked):
        usual = {"against": "log", "within": NOW} | asked
        return {one.kind: one.verdict for one in verify(self.app, "copies", self.settings, **usual)}


@pytest.fixture(scope="module")
def world(spark, system, log, postgres, redis, search) -> World:
    database = Database("verified", postgres)
    goods = Table(database, "public.Goods", schema=SCHEMA, key=["shop", "id"], partitions=2)
    sinks: list[Any] = [
        PostgresSink("public.goods_copy", database=database, key=["id", "shop"]),
        RedisSink("goods", key=["shop", "id"], url=redis),
        SearchSink("goods", key=["shop", "id"], url=search),
    ]
    log.topics.create(goods.changes)
    with log.writer() as writer:
        for before in ("read", "delete"):  # everything was there before, and went
            for one in ROWS:
                append(writer, goods, one, before)
        for one in ROWS:
            append(writer, goods, one, "insert")
        writer.append_bytes(goods.changes.name, b"a dead letter", key=b"?")
    with psycopg.connect(postgres) as connection:
        kinds = {"text": "text", "instant": "timestamptz", "local": "timestamp", "bytes": "bytea"}
        fill(connection, '"Goods"', kinds | {"tags": "text[]", "json": "jsonb", "time": "time"}, ROWS)
    app = App("verified", Pipeline("copies", upserts, reads=[goods], writes=sinks), captures=[goods])
    assert finished(app, spark, system).figures[0].state == "done"
    return World(goods, app, system)


def append(writer, table, found, operation):
    whole = dict.fromkeys(table.columns.names) | found
    key = {one: found[one] for one in table.keys}
    sides = {"before": whole, "after": None} if operation == "delete" else {"before": None, "after": whole}
    change = {"key": key, **sides, "operation": operation, "committed_at": AT}
    said = json.dumps(list(key.values())).encode()
    writer.append_bytes(table.changes.name, encoded(table, change), key=said)


def encoded(table, change):
    """The envelope; its codec writes no NaN, which connectors write as text."""
    for one in (change["before"], change["after"]):
        if one is not None and one["weight"] != one["weight"]:
            one["weight"] = UNLIKELY
    data = ChangesCodec(table.changes).encode({"position": None, "source_position": None} | change)
    return data.replace(str(UNLIKELY).encode(), b'"NaN"')


def fill(connection, name, kinds, rows):
    columns = [one.split()[0] for one in SCHEMA.split(", ")]
    marks = ", ".join(["%s"] * len(columns))
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {name} ({DDL.format(**kinds)})")
        for one in rows:
            opens = one.get("opens")
            clock = None if opens is None else f"00:00:{opens // 1_000_000:02}"
            cursor.execute(
                f"INSERT INTO {name} VALUES ({marks})",
                [clock if column == "opens" else one.get(column) for column in columns],
            )


@pytest.mark.parametrize("against", ["log", "database"])
def test_copies_of_every_type_are_equal_to_the_log_and_to_the_table(world, against):
    found = world.verified(against=against)
    assert tuple(found) == SYSTEMS
    for verdict in found.values():
        assert (verdict.differences, verdict.looked_again, verdict.behind) == ((), 0, 0)
        assert (verdict.whole.rows, verdict.whole.copied) == (40, 40)
    assert len({one.whole.checksums for one in found.values()}) == 1


FORGED = {"name": ("thing 2 ☂", "forged"), "tags": (["a", None, "2"], None)}


def test_every_forgery_is_named_in_every_system(world, postgres, redis, search):
    forge_postgres(postgres)
    forge_redis(Redis.from_url(redis))
    forge_search(search)
    for against in ("log", "database"):
        for kind, verdict in world.verified(against=against).items():
            found = {one.key: (one.kind, dict(one.columns)) for one in verdict.differences}
            assert found == {
                ("ams:1", 1): ("missing", {}),
                ("ams:2", 2): (
                    "different",
                    {"name": ("thing 2 ☂", "forged"), "tags": (["a", None, "2"], None)},
                ),
                ("zzz", 99): ("unexpected", {}),
            }, (kind, against)
            assert not verdict.whole.is_equal
            assert sum(not one.is_equal for one in verdict.ranges) >= 2


def forge_postgres(url):
    with psycopg.connect(url) as connection:
        connection.execute("DELETE FROM goods_copy WHERE id = 1")
        connection.execute("UPDATE goods_copy SET name = 'forged', tags = NULL WHERE id = 2")
        connection.execute("INSERT INTO goods_copy (shop, id, _position) VALUES ('zzz', 99, 0)")


def forge_redis(client):
    client.delete("goods:ams%3A1:1")
    client.hset("goods:ams%3A2:2", "name", "forged")
    client.hdel("goods:ams%3A2:2", "tags")
    client.hset("goods:zzz:99", mapping={"shop": "zzz", "id": "99"})
    client.hset("goods:old:zzz:7", mapping={"shop": "zzz", "id": "7"})  # of the copy `goods:old`
    client.set("goods:alien", "something else")


def forge_search(url):
    with SearchServer(url) as server:
        server.ask("DELETE", "goods/_doc/%5B%22ams%3A1%22%2C1%5D")
        change = {"script": "ctx._source.name = 'forged'; ctx._source.tags = null"}
        assert server.ask("POST", "goods/_update/%5B%22ams%3A2%22%2C2%5D", change).is_good
        server.ask("PUT", "goods/_doc/%5B%22zzz%22%2C99%5D", {"shop": "zzz", "id": 99})


def test_a_copy_behind_its_log_is_different_and_the_command_says_how_far(world, log, tmp_path, postgres):
    (tmp_path / "shop.py").write_text(
        "from headwater import *\n"
        f"GOODS = Table(Database('verified'), 'public.Goods', schema={SCHEMA!r},\n"
        "              key=['shop', 'id'], partitions=2)\n"
        "copy = PostgresSink('public.goods_copy', database=Database('verified'), key=['shop', 'id'])\n"
        "app = App('verified', Pipeline('copies', upserts, reads=[GOODS], writes=copy))\n"
    )
    env = {"HEADWATER_KAFKA": embedded.kafka_address(world.settings), "HEADWATER_DATABASE_VERIFIED": postgres}
    with log.writer() as writer:
        append(writer, world.table, ROWS[3], "delete")
    done = called("verify", "shop.py", "copies", "--wait", "1ms", folder=tmp_path, env=env)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[0].startswith("PostgresSink public.goods_copy: ")
    assert "rows different from the log (39 rows there, 40 in the copy)" in lines[0]
    assert lines[1] == "the copy is 1 record behind: does its pipeline run?"
    assert any(line.split() == ["ams:0,", "3", "only", "in", "the", "copy"] for line in lines[3:])
    against = ("--against", "database", "--json", "--wait", "1ms")
    done = called("verify", "shop.py", "copies", *against, folder=tmp_path, env=env)
    (told,) = json.loads(done.stdout)
    assert (done.returncode, told["equal"], told["rows"], told["against"]) == (1, False, 40, "database")
    assert told["checksum"] != told["copy_checksum"]
    assert {tuple(one["key"]) for one in told["differences"]} >= {("ams:1", 1), ("zzz", 99)}
    assert sum(one["rows"] for one in told["ranges"]) == 40


def test_the_command_ends_with_2_where_nothing_can_be_verified(tmp_path):
    (tmp_path / "shop.py").write_text(
        "from headwater import *\n"
        "GOODS = Table(Database('shop'), 'public.goods', schema='id long, name string', key='id')\n"
        "app = App('shop', Pipeline('shouting', lambda rows: rows, reads=[GOODS],\n"
        "          writes=RedisSink('goods', key='id')))\n"
    )
    done = called("verify", "shop.py", "shouting", folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "makes other rows than its table's" in done.stderr
    assert called("verify", "shop.py", "nothing", folder=tmp_path).returncode == 2


GOODS = Table(Database("shop"), "public.goods", schema="id long NOT NULL, name string", key="id")
REDIS = RedisSink("goods", key="id")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"function": lambda rows: rows}, "makes other rows than its table's"),
        ({"reads": [GOODS.changes]}, "does not read one captured table"),
        ({"writes": KafkaSink(Topic("out", schema="id long"))}, "keeps no row of every key"),
        ({"writes": RedisSink("goods", key="name")}, "is not keyed as table 'public.goods' is"),
        ({"writes": RedisSink("goods", key="id", version="at")}, "is not keyed as table 'public.goods' is"),
        ({"writes": RedisSink("goods", key="id", ttl=timedelta(hours=1))}, "expire"),
    ],
)
def test_what_is_no_plain_copy_is_refused(changed, said):
    given = {"name": "p", "function": upserts, "reads": [GOODS], "writes": REDIS} | changed
    with pytest.raises(BadPipeline, match=said):
        list(verify(App("shop", Pipeline(**given)), "p", Settings()))


def test_a_database_that_cannot_be_asked_says_why(postgres, tmp_path):
    for url, error, said in (
        (postgres, DatabaseRefused, 'relation "public.goods" does not exist'),
        ("postgresql://me:s3cret@127.0.0.1:1/shop", DatabaseUnreachable, "me@127.0.0.1:1/shop"),
        ("mariadb://me:s3cret@127.0.0.1:1/shop", DatabaseUnreachable, "me@127.0.0.1:1/shop"),
    ):
        table = Table(Database("shop", url), "public.goods", schema="id long NOT NULL", key="id")
        app = App("shop", Pipeline("p", upserts, reads=[table], writes=REDIS))
        with pytest.raises(error) as raised:
            list(verify(app, "p", Settings(home=Path(tmp_path)), against="database"))
        assert said in raised.value.detail
        assert "s3cret" not in str(raised.value)


def test_a_table_of_mariadb_is_compared_too(mariadb, redis, tmp_path):
    address = parsed("maria", mariadb)
    place = {"host": address.host, "port": address.port, "user": address.user, "password": address.password}
    table = Table(Database("maria", mariadb), f"{address.name}.Goods", schema=SCHEMA, key=["shop", "id"])
    kinds = {
        "text": "varchar(40) CHARACTER SET utf8mb4",
        "instant": "timestamp(6)",
        "local": "datetime(6)",
        "bytes": "blob",
    }
    kinds |= {"tags": "text", "json": "json", "time": "time"}
    lacks = {"tags": None, "weight": None}  # arrays and NaN
    whole = [dict.fromkeys(table.columns.names) | one | lacks for one in ROWS]
    with pymysql.connect(**place, database=address.name, init_command=UTC_TIME) as connection:
        fill(connection, "Goods", kinds, whole)
        connection.commit()
    app = App(
        "maria",
        Pipeline("copy", upserts, reads=[table], writes=RedisSink("m", key=["shop", "id"], url=redis)),
    )
    settings = Settings(home=tmp_path)
    (found,) = verify(app, "copy", settings, against="database", within=NOW, show=1000)
    assert (found.verdict.different, found.verdict.whole.rows) == (len(whole), len(whole))
    keep(redis, table, whole)
    (found,) = verify(app, "copy", settings, against="database", within=NOW)
    assert found.verdict.differences == ()


def keep(url, table, rows):
    """Write rows into Redis as a pipeline would."""
    hour = timedelta(hours=1)
    given = {"prefix": "m", "form": "hash", "columns": table.columns, "keys": table.keys}
    store = RedisStore(url=url, **given, ttl=None, remembered=hour)
    store(iter([[Change((one["shop"], one["id"]), 0, one) for one in rows]]))
