"""A real PostgreSQL, Debezium, Connect and Kafka: what is committed is in the log, once and in order."""

import os
import signal
from collections.abc import Iterator
from decimal import Decimal
from threading import Thread
from typing import Any

import psycopg
import pytest

from headwater import Database, Log, Settings, Table, embedded
from headwater.capture.capturing import ensure
from headwater.capture.claims import claims_in
from headwater.capture.connect import Connect
from headwater.clock import wait_until
from headwater.embedded.server import running
from tests.capture.captured import AFTER_A_KILL, SCHEMA, SOON, changes, come, own_database, rows_of

pytestmark = [pytest.mark.system, pytest.mark.usefixtures("connect")]
TABLE = "(id bigint PRIMARY KEY, product text DEFAULT 'none', amount numeric(10, 2), placed_at timestamptz)"


@pytest.fixture(scope="module")
def shop(postgres: str, system: Settings, connect: str) -> Iterator[Database]:
    assert connect
    with own_database(postgres, "shop", system) as database:
        yield database


@pytest.fixture(scope="module")
def sql(shop: Database) -> Iterator[Any]:
    with psycopg.connect(shop.url or "", autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="module")
def orders(shop: Database, sql: Any, system: Settings) -> Table:
    """A table with three rows in it, captured."""
    sql.execute(f"CREATE TABLE orders {TABLE}")
    sql.execute("INSERT INTO orders SELECT n, 'first', n, now() FROM generate_series(1, 3) AS n")
    table = Table(shop, "public.orders", schema=SCHEMA, key="id", partitions=2)
    ensure("bank", [table], system)
    return table


def test_first_come_the_rows_that_are_there_and_then_every_change(system, sql, orders):
    come(system, orders, lambda found: len(found) == 3)
    sql.execute("INSERT INTO orders VALUES (10, NULL, 9.50)")
    sql.execute("UPDATE orders SET amount = 1 WHERE id = 10")
    sql.execute("UPDATE orders SET id = 11 WHERE id = 10")
    sql.execute("DELETE FROM orders WHERE id = 11")
    found = come(system, orders, lambda found: len([one for one in found if one is None]) == 2)
    assert [one.operation for one in found if one and one.key.id <= 3] == ["read"] * 3
    of_10 = [one for one in found if one and one.key.id == 10]
    assert [one.operation for one in of_10] == ["insert", "update", "delete"]
    assert (of_10[0].after.amount, of_10[0].after.product) == (Decimal("9.50"), None)
    assert [one.operation for one in found if one and one.key.id == 11] == ["insert", "delete"]
    assert sorted(rows_of(found)) == [1, 2, 3]


def test_rows_of_a_transaction_bear_its_name_and_their_places_and_a_rollback_leaves_nothing(
    system, sql, orders
):
    with pytest.raises(ZeroDivisionError), sql.transaction():
        sql.execute("INSERT INTO orders VALUES (20, 'undone', 1)")
        _ = 1 / 0
    with sql.transaction():
        sql.execute("INSERT INTO orders VALUES (21, 'together', 1), (22, 'together', 2)")
        sql.execute("UPDATE orders SET amount = 3 WHERE id = 21")
    sql.execute("INSERT INTO orders VALUES (23, 'alone', 1)")
    found = come(system, orders, lambda found: any(one and one.key.id == 23 for one in found))
    together = [one for one in found if one and one.key.id in (21, 22)]
    assert {one.transaction.id for one in together} == {together[0].transaction.id}
    assert sorted(one.transaction.place for one in together) == [1, 2, 3]
    assert not any(one and one.key.id == 20 for one in found)


@pytest.mark.usefixtures("orders")
def test_a_column_that_is_added_is_carried_from_then_on(system, shop, sql):
    sql.execute("ALTER TABLE orders ADD COLUMN note text")
    sql.execute("INSERT INTO orders VALUES (30, 'noted', 1, now(), 'so')")
    wider = Table(shop, "public.orders", schema=f"{SCHEMA}, note string", key="id", partitions=2)
    found = come(system, wider, lambda found: any(one and one.key.id == 30 for one in found))
    assert {one.key.id: one.after.note for one in found if one and one.key.id in (1, 30)} == {
        1: None,
        30: "so",
    }


def test_a_table_that_another_app_adds_gets_its_rows_while_changes_go_on(system, shop, sql, orders):
    sql.execute(f"CREATE TABLE later {TABLE}")
    sql.execute("INSERT INTO later SELECT n, 'old', n FROM generate_series(1, 3000) AS n")
    table = Table(shop, "public.later", schema=SCHEMA, key="id")

    def write_on() -> None:
        with psycopg.connect(shop.url or "", autocommit=True) as other:
            for number in range(3001, 3201):
                other.execute("INSERT INTO later VALUES (%s, 'new', 1)", [number])
                other.execute("UPDATE later SET product = 'changed' WHERE id = %s", [number - 3000])

    writer = Thread(target=write_on)
    writer.start()
    ensure("other", [table], system)
    writer.join()
    come(system, table, lambda found: len(rows_of(found)) == 3200)
    sql.execute("INSERT INTO later VALUES (4000, 'last', 1)")
    rows = rows_of(come(system, table, lambda found: 4000 in rows_of(found)))
    wanted = dict(sql.execute("SELECT id, product FROM later").fetchall())
    assert {key: row.product for key, row in rows.items()} == wanted
    claims = claims_in(Connect.open(system).config("headwater-shop"))
    assert {name: one.apps for name, one in claims.items()} == {
        "public.orders": ("bank",),
        "public.later": ("other",),
    }
    sql.execute("INSERT INTO orders VALUES (40, 'still', 1)")
    come(system, orders, lambda found: 40 in rows_of(found))


def kill_connect(system: Settings) -> None:
    worker = running("connect", system)
    assert worker
    os.kill(worker.pid, signal.SIGKILL)


def test_connect_killed_with_9_in_a_burst_loses_nothing_and_doubles_nothing(system, sql, orders):
    before = len(changes(system, orders))

    def burst() -> None:
        for number in range(1000, 3000):
            sql.execute("INSERT INTO orders VALUES (%s, 'burst', 1)", [number])

    writer = Thread(target=burst)
    writer.start()
    assert wait_until(lambda: len(changes(system, orders)) > before + 100, SOON)
    kill_connect(system)
    writer.join()
    embedded.up(system, [embedded.SERVERS["connect"]], lambda *_: None)
    last = lambda found: any(one and one.key.id == 2999 for one in found)  # noqa: E731 - read here only
    found = come(system, orders, last, AFTER_A_KILL)
    inserted = [one.key.id for one in found if one and one.after and one.after.product == "burst"]
    assert sorted(inserted) == list(range(1000, 3000))


def test_rows_that_are_deleted_while_their_first_reading_is_interrupted_do_not_stay_in_the_log(
    system, postgres
):
    with (
        own_database(postgres, "interrupted", system) as database,
        psycopg.connect(database.url or "", autocommit=True) as connection,
    ):
        connection.execute(f"CREATE TABLE many {TABLE}")
        connection.execute("INSERT INTO many SELECT n, 'old', n FROM generate_series(1, 20000) AS n")
        table = Table(database, "public.many", schema=SCHEMA, key="id")
        ensure("bank", [table], system)
        assert wait_until(lambda: len(changes(system, table)) > 0, SOON, pause=0.01)
        kill_connect(system)
        connection.execute("DELETE FROM many WHERE id <= 2000")
        connection.execute("INSERT INTO many VALUES (30000, 'last', 1)")
        embedded.up(system, [embedded.SERVERS["connect"]], lambda *_: None)
        found = come(system, table, lambda found: {20000, 30000} <= set(rows_of(found)), AFTER_A_KILL)
        assert sorted(rows_of(found)) == [*range(2001, 20001), 30000]


def test_a_truncation_is_told_and_capture_goes_on(system, sql, shop, orders):
    sql.execute(f"CREATE TABLE cut {TABLE}")
    sql.execute("INSERT INTO cut VALUES (1, 'gone', 1)")
    table = Table(shop, "public.cut", schema=SCHEMA, key="id")
    ensure("bank", [orders, table], system)
    come(system, table, lambda found: 1 in rows_of(found))
    sql.execute("TRUNCATE cut")
    sql.execute("INSERT INTO cut VALUES (2, 'after', 1)")
    log = Log.open(system)

    def told() -> list[bytes | None]:
        return [one.key for one in log.read(table.changes.name) if b'"op":"t"' in (one.data or b"")]

    assert wait_until(lambda: told() == [b'{"row":null}'], SOON)
    assert wait_until(lambda: list(log.read(table.changes.name))[-1].key == b'{"id":2}', SOON)


@pytest.mark.usefixtures("orders")
def test_the_password_is_in_no_answer_of_connect(system, shop):
    told = Connect.open(system).config("headwater-shop")
    assert told
    secret = (shop.url or "").split(":")[2].partition("@")[0]
    assert secret not in str(told)
