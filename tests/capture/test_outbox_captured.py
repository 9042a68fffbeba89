"""An outbox that is captured: events reach their topics once; and what becomes of two writes without it."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from headwater import Database, Log, Outbox, Settings, Topic, embedded
from headwater.capture.capturing import ensure
from headwater.clock import wait_until
from headwater.errors import SpecError
from tests.capture.captured import SOON, own_database

pytestmark = [pytest.mark.system, pytest.mark.usefixtures("connect")]

PLACED = Topic(
    "outbox-placed", schema="order_id long NOT NULL, amount decimal(10,2)", key="order_id", partitions=2
)
NOTED = Topic("outbox-noted", schema="note string")
ORDERS = "CREATE TABLE IF NOT EXISTS orders (id bigint PRIMARY KEY)"
SERVICE = """
import os, signal, sys
import psycopg
from headwater import Database, Log, Outbox, Settings, Topic

number, kafka, url, way = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
SCHEMA = "order_id long NOT NULL, amount decimal(10,2)"
PLACED = Topic("outbox-placed", schema=SCHEMA, key="order_id", partitions=2)
EVENT = {"order_id": number, "amount": "9.50"}
die = lambda: os.kill(os.getpid(), signal.SIGKILL)

with psycopg.connect(url) as db:
    db.execute("INSERT INTO orders VALUES (%s)", [number])
    if way == "two writes":
        db.commit()
        die()
        with Log.open(Settings(kafka=kafka)).writer() as writer:
            writer.append(PLACED, EVENT)
    OUTBOX = Outbox(Database("sales", url), topics=[PLACED])
    OUTBOX.send(db, PLACED, EVENT)
    if way == "outbox, killed before the commit":
        die()
    db.commit()
    die()
"""


@pytest.fixture(scope="module")
def sales(postgres: str, system: Settings, connect: str) -> Iterator[Database]:
    assert connect
    with own_database(postgres, "sales", system) as database:
        yield database


@pytest.fixture(scope="module")
def sql(sales: Database) -> Iterator[Any]:
    with psycopg.connect(sales.url or "", autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="module")
def outbox(sales: Database, sql: Any, system: Settings) -> Outbox:
    """An outbox with one event in it, captured."""
    found = Outbox(sales, topics=[PLACED, NOTED])
    sql.execute(found.ddl)
    sql.execute(ORDERS)
    found.send(sql, PLACED, {"order_id": 1, "amount": "1.00"})
    ensure("sales", [found], system)
    return found


def placed(log: Log) -> list[int]:
    return [record.value.order_id for record in log.read(PLACED)]


def test_events_reach_their_topics_once_in_the_order_of_the_commits_as_a_writer_would_append_them(
    log, sql, outbox
):
    with sql.transaction():
        for number in range(2, 50):
            outbox.send(sql, PLACED, {"order_id": number, "amount": "2.50"})
        outbox.send(sql, NOTED, {"note": "of no key"})
    with pytest.raises(ZeroDivisionError), sql.transaction():
        outbox.send(sql, PLACED, {"order_id": 1000, "amount": "0.01"})
        _ = 1 / 0
    outbox.send(sql, PLACED, {"order_id": 50, "amount": "3.00"})
    assert wait_until(lambda: 50 in placed(log), SOON)
    assert sorted(placed(log)) == list(range(1, 51))
    (first,) = [record for record in log.read(PLACED) if record.value.order_id == 2]
    assert (first.key, first.data) == (b"2", b'{"order_id":2,"amount":2.50}')
    with log.writer() as writer:
        writer.append(PLACED, {"order_id": 2, "amount": "2.50"})
    again = [record for record in log.read(PLACED) if record.value.order_id == 2]
    assert [one.partition for one in again] == [first.partition] * 2
    (note,) = log.read(NOTED)
    assert (note.key, note.value.note) == (None, "of no key")


def test_what_capture_has_passed_can_be_cleaned_away_and_nothing_is_sent_for_it(log, sql, outbox):
    before = len(placed(log))
    outbox.send(sql, PLACED, {"order_id": 60, "amount": "1.00"})
    assert outbox.clean(sql, timedelta(seconds=30)) > 0
    assert sql.execute("SELECT count(*) FROM outbox").fetchone() == (0,)
    outbox.send(sql, PLACED, {"order_id": 61, "amount": "1.00"})
    assert wait_until(lambda: 61 in placed(log), SOON)
    assert len(placed(log)) == before + 2


def test_an_outbox_that_is_published_no_more_keeps_its_events(log, sql, outbox):
    sql.execute(f"ALTER PUBLICATION {outbox.slot} DROP TABLE outbox")
    outbox.send(sql, PLACED, {"order_id": 70, "amount": "1.00"})
    assert outbox.clean(sql, timedelta(seconds=1)) == 0
    sql.execute(f"ALTER PUBLICATION {outbox.slot} ADD TABLE outbox")
    outbox.send(sql, PLACED, {"order_id": 71, "amount": "1.00"})
    assert wait_until(lambda: 71 in placed(log), SOON)
    assert 70 not in placed(log)


def test_a_second_outbox_of_a_database_is_refused(sales, system, outbox):
    assert outbox
    other = Outbox(sales, topics=[PLACED], table="public.other_outbox")
    with psycopg.connect(sales.url) as connection:
        connection.execute(other.ddl)
    with pytest.raises(SpecError, match="has an outbox already"):
        ensure("other", [other], system)


class TestAServiceThatDies:
    """Between the row and the event, whichever way it sends it."""

    def die(self, number: int, way: str, sales: Database, system: Settings) -> None:
        kafka = embedded.kafka_address(system) or ""
        command = [sys.executable, "-c", SERVICE, str(number), kafka, sales.url or "", way]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert done.returncode == -signal.SIGKILL, done.stderr

    @pytest.mark.parametrize(
        ("number", "way", "row", "event"),
        [
            (100, "two writes", True, False),  # the trap: the row is there, and nobody ever hears of it
            (101, "outbox, killed before the commit", False, False),
            (102, "outbox, killed after the commit", True, True),
        ],
    )
    def test_with_two_writes_the_event_is_lost_and_with_an_outbox_both_happen_or_neither(
        self, log, sql, sales, system, outbox, number, way, row, event
    ):
        self.die(number, way, sales, system)
        outbox.send(sql, PLACED, {"order_id": -number, "amount": "1.00"})  # whatever was before it has come
        assert wait_until(lambda: -number in placed(log), SOON)
        found = sql.execute("SELECT count(*) FROM orders WHERE id = %s", [number]).fetchone()
        assert (found == (1,), number in placed(log)) == (row, event)
