"""Outbox: an event is sent if, and only if, the transaction that it stands in commits."""

from datetime import timedelta

import psycopg
import pytest
import sqlalchemy
from sqlalchemy.orm import Session

from headwater import Database, Topic
from headwater.capture.outbox import Outbox
from headwater.errors import SpecError, ValueMismatch

PLACED = Topic("orders-placed", schema="order_id long NOT NULL, amount decimal(10,2)", key="order_id")
OUTBOX = Outbox(Database("shop"), topics=[PLACED])
EVENT = {"order_id": 7, "amount": "9.50"}


@pytest.fixture
def connection(postgres):
    with psycopg.connect(postgres) as found:
        found.execute(OUTBOX.ddl)
        found.execute("CREATE TABLE IF NOT EXISTS orders_of_outbox (id bigint PRIMARY KEY)")
        found.commit()
        yield found
        found.rollback()
        found.execute("DROP TABLE outbox, orders_of_outbox")


def sent(connection):
    return connection.execute("SELECT topic, key, value FROM public.outbox").fetchall()


def test_an_event_stands_in_the_outbox_as_a_writer_would_have_appended_it(connection):
    OUTBOX.send(connection, PLACED, EVENT)
    assert sent(connection) == [("orders-placed", b"7", b'{"order_id":7,"amount":9.50}')]


def test_an_event_of_a_transaction_that_fails_is_not_sent(connection):
    with pytest.raises(ZeroDivisionError), connection.transaction():
        connection.execute("INSERT INTO orders_of_outbox VALUES (7)")
        OUTBOX.send(connection, PLACED, EVENT)
        _ = 1 / 0
    assert sent(connection) == []


def test_a_cursor_sends_as_its_connection_does(connection):
    with connection.cursor() as cursor:
        OUTBOX.send(cursor, PLACED, EVENT)
    assert len(sent(connection)) == 1


def test_sqlalchemy_sends_in_its_own_transactions(connection, postgres):
    engine = sqlalchemy.create_engine(postgres.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as begun:
        OUTBOX.send(begun, PLACED, EVENT)
    with Session(engine) as session:
        OUTBOX.send(session, PLACED, EVENT)
        session.rollback()
    engine.dispose()
    assert len(sent(connection)) == 1


@pytest.mark.parametrize(
    "event", [{"order_id": "seven"}, {"amount": "1"}, {"order_id": 7, "amount": "0.001"}]
)
def test_an_event_that_does_not_fit_its_topic_is_refused_before_anything_is_written(connection, event):
    with pytest.raises(ValueMismatch):
        OUTBOX.send(connection, PLACED, event)
    assert sent(connection) == []


def test_an_outbox_that_nobody_captures_keeps_its_events(connection):
    OUTBOX.send(connection, PLACED, EVENT)
    connection.commit()
    assert OUTBOX.clean(connection, within=timedelta(milliseconds=100)) == 0
    assert len(sent(connection)) == 1


def test_an_event_of_a_topic_that_the_outbox_does_not_name_is_refused(connection):
    with pytest.raises(SpecError, match="does not send to topic 'other'"):
        OUTBOX.send(connection, Topic("other", schema="n int"), {"n": 1})


@pytest.mark.parametrize(
    ("given", "why"), [({"table": "outbox"}, "cannot be the name"), ({"topics": []}, "sends to no topic")]
)
def test_an_outbox_that_cannot_be_is_refused(given, why):
    with pytest.raises(SpecError, match=why):
        Outbox(Database("shop"), **{"topics": [PLACED], **given})
