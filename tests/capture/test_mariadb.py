"""A real MariaDB, Debezium, Connect and Kafka: what is committed is in the log, once and in order."""

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from threading import Thread
from typing import Any

import pytest

from headwater import Database, Log, Outbox, Settings, Table, Topic, embedded
from headwater.capture.capturing import Capturing, capturing, ensure
from headwater.capture.connect import Connect
from headwater.capture.connectors import stop
from headwater.clock import wait_until
from headwater.embedded.server import running
from headwater.errors import CaptureGap, SpecError
from tests.capture.captured import AFTER_A_KILL, SCHEMA, SOON, Sql, changes, come, own_mariadb, rows_of

pytestmark = [pytest.mark.system, pytest.mark.usefixtures("connect")]
TABLE = (
    "(id bigint PRIMARY KEY, product varchar(20) DEFAULT 'none', amount decimal(10, 2), "
    "placed_at timestamp(6) NULL)"
)


@pytest.fixture(scope="module")
def store(mariadb: str, system: Settings, connect: str) -> Iterator[Database]:
    assert connect
    with own_mariadb(mariadb, "store", system) as database:
        yield database


@pytest.fixture
def sql(store: Database) -> Iterator[Sql]:
    run = Sql(store.url or "")
    yield run
    run.close()


@pytest.fixture(scope="module")
def orders(store: Database, system: Settings) -> Table:
    """A table with three rows in it, captured."""
    run = Sql(store.url or "")
    run(f"CREATE TABLE orders {TABLE}")
    run("INSERT INTO orders SELECT seq, 'first', seq, now(6) FROM seq_1_to_3")
    run.close()
    table = Table(store, "store.orders", schema=SCHEMA, key="id", partitions=2)
    ensure("bank", [table], restless(system))
    return table


@pytest.fixture
def capture(orders: Table, system: Settings) -> Capturing:
    (found,) = capturing("bank", [orders], restless(system))
    return found


def restless(settings: Settings) -> Settings:
    """With hearts that beat within a test's time."""
    options = {"connect.keep.alive.interval.ms": "5000", "heartbeat.interval.ms": "1000"}
    return replace(settings, connect_options=options)


def test_first_come_the_rows_that_are_there_and_then_every_change(system, sql, orders):
    come(system, orders, lambda found: len(found) == 3)
    sql("INSERT INTO orders VALUES (10, NULL, 9.50, NULL)", "UPDATE orders SET amount = 1 WHERE id = 10")
    sql("UPDATE orders SET id = 11 WHERE id = 10", "DELETE FROM orders WHERE id = 11")
    found = come(system, orders, lambda found: len([one for one in found if one is None]) == 2)
    assert [one.operation for one in found if one and one.key.id <= 3] == ["read"] * 3
    inserted, updated, deleted = (one for one in found if one and one.key.id == 10)
    assert [inserted.operation, updated.operation, deleted.operation] == ["insert", "update", "delete"]
    assert (inserted.after.amount, inserted.after.product, inserted.before) == (Decimal("9.50"), None, None)
    assert (updated.before.amount, updated.after.amount) == (Decimal("9.50"), Decimal(1))
    assert (deleted.before.amount, deleted.after) == (Decimal(1), None)
    assert [one.operation for one in found if one and one.key.id == 11] == ["insert", "delete"]
    places = [place_of(one) for one in (inserted, updated, deleted)]
    assert places == sorted(set(places))
    assert sorted(rows_of(found)) == [1, 2, 3]


def test_rows_of_a_transaction_bear_its_name_and_their_places_and_a_rollback_leaves_nothing(
    system, sql, orders
):
    sql("BEGIN", "INSERT INTO orders VALUES (20, 'undone', 1, NULL)", "ROLLBACK")
    sql("BEGIN", "INSERT INTO orders (id, product) VALUES (21, 'together'), (22, 'together')")
    sql("UPDATE orders SET amount = 3 WHERE id = 21", "COMMIT", "INSERT INTO orders (id) VALUES (23)")
    found = come(system, orders, lambda found: any(one and one.key.id == 23 for one in found))
    together = [one for one in found if one and one.key.id in (21, 22)]
    assert {one.transaction.id for one in together} == {together[0].transaction.id}
    assert sorted(one.transaction.place for one in together) == [1, 2, 3]
    assert not any(one and one.key.id == 20 for one in found)


@pytest.mark.usefixtures("orders")
def test_a_column_that_is_added_is_carried_from_then_on(system, store, sql):
    sql("ALTER TABLE orders ADD COLUMN note text FIRST", "INSERT INTO orders (id, note) VALUES (30, 'so')")
    wider = Table(store, "store.orders", schema=f"{SCHEMA}, note string", key="id", partitions=2)
    found = come(system, wider, lambda found: any(one and one.key.id == 30 for one in found))
    notes = {one.key.id: one.after.note for one in found if one and one.key.id in (1, 30)}
    assert notes == {1: None, 30: "so"}


def test_a_table_that_another_app_adds_gets_its_rows_while_changes_go_on(system, store, sql, orders):
    sql(f"CREATE TABLE later {TABLE}")
    sql("INSERT INTO later SELECT seq, 'old', seq, NULL FROM seq_1_to_3000")
    table = Table(store, "store.later", schema=SCHEMA, key="id")

    def write_on() -> None:
        other = Sql(store.url or "")
        for number in range(3001, 3201):
            other(f"INSERT INTO later VALUES ({number}, 'new', 1, NULL)")
            other(f"UPDATE later SET product = 'changed' WHERE id = {number - 3000}")
        other.close()

    writer = Thread(target=write_on)
    writer.start()
    ensure("other", [table], restless(system))
    writer.join()
    come(system, table, lambda found: len(rows_of(found)) == 3200)
    sql("INSERT INTO later VALUES (4000, 'last', 1, NULL)")
    rows = rows_of(come(system, table, lambda found: 4000 in rows_of(found)))
    assert {key: row.product for key, row in rows.items()} == dict(sql("SELECT id, product FROM later"))
    sql("INSERT INTO orders (id) VALUES (40)")
    come(system, orders, lambda found: 40 in rows_of(found))


@pytest.mark.parametrize("victim", ["connect", "mariadb"])
def test_what_is_killed_with_9_in_a_burst_loses_nothing_and_doubles_nothing(
    system, mariadb_home, sql, orders, victim
):
    home = system if victim == "connect" else mariadb_home
    product, before = f"before {victim} died"[:20], len(changes(system, orders))
    committed: list[int] = []

    def burst() -> None:
        for number in range(*{"connect": (1000, 2000), "mariadb": (3000, 4000)}[victim]):
            rows = [f"({number + more}, '{product}')" for more in (0, 10_000, 20_000)]
            insert = "INSERT INTO orders (id, product) VALUES "
            sql("BEGIN", insert + rows[0], insert + ", ".join(rows[1:]), "COMMIT")
            committed.append(number)

    writer = Thread(target=unharmed, args=[burst])
    writer.start()
    assert wait_until(lambda: len(changes(system, orders)) > before + 100, SOON)
    found = running(victim, home)
    assert found
    os.kill(found.pid, signal.SIGKILL)
    writer.join()
    embedded.up(home, [embedded.SERVERS[victim]], lambda *_: None)
    again = Sql(orders.database.url or "")
    again(f"INSERT INTO orders (id, product) VALUES (90000 + {committed[-1]}, '{product}')")
    kept = [one for (one,) in again(f"SELECT id FROM orders WHERE product = '{product}' ORDER BY id")]
    again.close()
    assert {one + more for one in committed for more in (0, 10_000, 20_000)} <= set(kept)

    def inserted(found: list[Any]) -> list[int]:
        return [one.key.id for one in found if one and one.after and one.after.product == product]

    told = come(system, orders, lambda found: set(inserted(found)) >= set(kept), AFTER_A_KILL)
    assert sorted(inserted(told)) == kept


def place_of(change: Any) -> tuple[str, int]:
    """Where a change stands in the binary log."""
    file, _, at = change.source_position.rpartition(":")
    return file, int(at)


def unharmed(burst: Any) -> None:
    """Until the database dies."""
    try:
        burst()
    except Exception as error:  # noqa: BLE001 - the driver's own, and the socket's
        assert "Lost connection" in str(error) or "MySQL server" in str(error), error  # noqa: PT017


def test_a_truncation_is_told_and_capture_goes_on(system, sql, store, orders):
    sql(f"CREATE TABLE cut {TABLE}", "INSERT INTO cut (id) VALUES (1)")
    table = Table(store, "store.cut", schema=SCHEMA, key="id")
    ensure("bank", [orders, table], restless(system))
    come(system, table, lambda found: 1 in rows_of(found))
    sql("TRUNCATE cut", "INSERT INTO cut (id) VALUES (2)")
    log = Log.open(system)

    def told() -> list[bytes | None]:
        return [one.key for one in log.read(table.changes.name) if b'"op":"t"' in (one.data or b"")]

    assert wait_until(lambda: told() == [b'{"row":null}'], SOON)
    assert wait_until(lambda: list(log.read(table.changes.name))[-1].key == b'{"id":2}', SOON)


def test_its_place_moves_on_while_nothing_happens_and_what_is_ahead_of_it_is_told(capture, sql):
    before = capture.health()
    assert (before.state, before.slot, before.limit_s) == ("running", "kept", None)
    assert wait_until(lambda: capture.health().position != before.position, SOON)
    found = capture.health()
    assert 0 <= (found.lag_bytes or 0) <= (found.retained_bytes or 0)
    assert (found.lag_s or 0) < SOON.total_seconds()
    sql("SET GLOBAL binlog_expire_logs_seconds = 1")
    try:
        assert wait_until(
            lambda: any("thrown away after 1" in one for one in capture.health().alerts()), SOON
        )
    finally:
        sql("SET GLOBAL binlog_expire_logs_seconds = 0")


def test_a_purged_log_is_refused_with_the_way_out_which_leads_out(system, sql, orders, capture):
    connect = Connect.open(system)
    stop(connect, capture.plan.name)
    sql("INSERT INTO orders (id) VALUES (50)", "DELETE FROM orders WHERE id = 1", "FLUSH BINARY LOGS")
    newest = sql("SHOW BINARY LOGS")[-1][0]
    # What somebody reads is not purged, and the server notices only with its next beat that nobody does.
    assert wait_until(lambda: len(sql(f"PURGE BINARY LOGS TO '{newest}'", "SHOW BINARY LOGS")) == 1, SOON)
    with pytest.raises(CaptureGap, match="no longer in the database's log") as refused:
        capture.resume()
    assert "headwater capture remove APP.py --slot" in refused.value.hint
    assert orders.changes.name in refused.value.hint
    assert list(capture.health().alerts())[-1].startswith("its place is purged")
    with pytest.raises(CaptureGap, match="no longer in the database's log"):
        capture.up()
    others = capturing(
        "other", [Table(orders.database, "store.later", schema=SCHEMA, key="id")], restless(system)
    )
    assert not others[0].remove(for_good=True)
    assert capture.remove(for_good=True)
    log = Log.open(system)
    for one in capture.plan.topics:
        log.topics.delete(one.name)
    capture.up()
    left = [one for (one,) in sql("SELECT id FROM orders ORDER BY id")]
    come(system, orders, lambda found: sorted(rows_of(found)) == left)


def test_a_statement_that_debezium_cannot_read_stops_capture_until_it_may_be_passed_over(
    system, sql, orders, capture
):
    statement = "CREATE TABLE odd (id bigint PRIMARY KEY, place inet6)"
    sql(statement, "INSERT INTO orders (id) VALUES (60)")
    assert wait_until(lambda: capture.health().state == "failed", SOON)
    assert capture.health().cause.endswith(f"and so not what comes after it: {statement}")
    assert not any(one and one.key.id == 60 for one in changes(system, orders))
    settings = restless(system)
    passing = {**settings.connect_options, "schema.history.internal.skip.unparseable.ddl": "true"}
    (bold,) = capturing("bank", [orders], replace(settings, connect_options=passing))
    bold.up()
    come(system, orders, lambda found: 60 in rows_of(found))


def test_a_database_without_an_address_is_the_embedded_one(mariadb, mariadb_home):
    name = mariadb.rpartition("/")[2]
    found = Database("anything").address(mariadb_home)
    assert (found.kind, found.name, found.port) == ("mariadb", name, mariadb_home.mariadb_port)


def test_an_outbox_is_refused(store, system):
    outbox = Outbox(store, topics=[Topic("placed", schema="id long", key="id")])
    with pytest.raises(SpecError, match="an outbox stands in a PostgreSQL"):
        ensure("bank", [outbox], system)
