"""A real Connect worker: what it knows, what it survives, and what it tells nobody."""

import json
import os
import signal
import socket
import urllib.request
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka import Consumer, TopicPartition

from headwater import Log, Settings, embedded
from headwater.clock import wait_until
from headwater.embedded.connect import Connect, _properties
from headwater.embedded.ports import LOOPBACK, a_free_port
from headwater.embedded.server import Place, running
from headwater.errors import ServerUnavailable

pytestmark = pytest.mark.system
SOON = timedelta(seconds=60)


def ask(url: str, path: str, method: str = "GET", said: object = None) -> Any:
    body = json.dumps(said).encode() if said is not None else None
    request = urllib.request.Request(
        f"{url}/{path}", data=body, method=method, headers={"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read() or b"null")


@pytest.fixture
def table(postgres: str) -> Iterator[str]:
    """A table with two rows in the shared PostgreSQL."""
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE TABLE captured (id int PRIMARY KEY, word text)")
        connection.execute("INSERT INTO captured VALUES (1, 'one'), (2, 'two')")
        yield "captured"
        connection.execute("DROP TABLE captured")
        connection.execute("DROP PUBLICATION IF EXISTS embedded")
        connection.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots "
            "WHERE slot_name = 'embedded' AND NOT active"
        )


def a_connector(postgres: str, table: str) -> dict[str, str]:
    at = psycopg.conninfo.conninfo_to_dict(postgres)
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.hostname": str(at["host"]),
        "database.port": str(at["port"]),
        "database.user": str(at["user"]),
        "database.password": str(at["password"]),
        "database.dbname": str(at["dbname"]),
        "plugin.name": "pgoutput",
        "slot.name": "embedded",
        "publication.name": "embedded",
        "publication.autocreate.mode": "filtered",
        "topic.prefix": "embedded",
        "table.include.list": f"public.{table}",
        "topic.creation.default.replication.factor": "1",
        "topic.creation.default.partitions": "1",
        "poll.interval.ms": "20",
    }


def test_it_has_both_connectors_of_debezium(connect: str) -> None:
    found = {one["class"]: one["version"] for one in ask(connect, "connector-plugins?connectorsOnly=true")}
    assert found["io.debezium.connector.postgresql.PostgresConnector"].startswith("3.6.")
    assert found["io.debezium.connector.mariadb.MariaDbConnector"].startswith("3.5.")


def test_its_topics_are_named_for_us(connect: str, log: Log) -> None:
    assert connect
    wanted = {f"headwater-connect-{one}" for one in ("configs", "offsets", "status")}
    assert wanted <= set(log.topics.names())


def test_rows_of_a_table_arrive_and_a_worker_killed_with_9_goes_on_with_them(
    connect: str, system: Settings, postgres: str, table: str
) -> None:
    topic = f"embedded.public.{table}"

    def arrived(count: int) -> bool:
        return len(read(system, topic)) == count

    ask(connect, f"connectors/{table}/config", "PUT", a_connector(postgres, table))
    try:
        assert wait_until(lambda: arrived(2), SOON)
        worker = running("connect", system)
        assert worker
        os.kill(worker.pid, signal.SIGKILL)
        with psycopg.connect(postgres, autocommit=True) as connection:
            connection.execute(f"INSERT INTO {table} VALUES (3, 'three')")
        embedded.up(system, [embedded.SERVERS["connect"]], lambda *_: None)
        assert wait_until(lambda: arrived(3), SOON)
    finally:
        ask(connect, f"connectors/{table}", "DELETE")


def read(settings: Settings, topic: str) -> list[Any]:
    """The ids in a topic of changes, as far as they are committed."""
    options = {"bootstrap.servers": embedded.kafka_address(settings), "group.id": "look"}
    consumer = Consumer({**options, "enable.partition.eof": True, "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    try:
        while (said := consumer.poll(5)) and not said.error():
            found.append(json.loads(said.value() or b"")["payload"]["after"]["id"])
    finally:
        consumer.close()
    return found


def place_in(folder: Path, settings: Settings) -> Place:
    return Place(folder=folder, bundles={}, java=Path("java"), ports={"main": 1234}, settings=settings)


def test_without_a_log_it_is_not_started(tmp_path: Path) -> None:
    with pytest.raises(ServerUnavailable, match="this home's kafka does not run") as raised:
        embedded.up(Settings(home=tmp_path), [Connect()], lambda *_: None)
    assert raised.value.hint == "headwater up"
    nowhere = f"{LOOPBACK}:{a_free_port()}"
    with pytest.raises(ServerUnavailable, match=f"connect cannot reach kafka at {nowhere}"):
        embedded.up(Settings(home=tmp_path, kafka=nowhere), [Connect()], lambda *_: None)


def test_options_of_an_existing_kafka_reach_all_its_clients(tmp_path: Path) -> None:
    with socket.create_server((LOOPBACK, 0)) as broker:
        address = f"{LOOPBACK}:{broker.getsockname()[1]}"
        options = {"sasl.mechanism": "PLAIN", "sasl.jaas.config": 'x password="s3\\cret";'}
        lines = _properties(place_in(tmp_path, Settings(kafka=address, kafka_options=options)))
    for who in ("", "producer.", "consumer.", "admin."):
        assert lines[f"{who}sasl.mechanism"] == "PLAIN"
        assert lines[f"{who}sasl.jaas.config"] == options["sasl.jaas.config"]
    assert lines["offset.storage.replication.factor"] == "-1"


def test_its_properties_may_hold_passwords_and_are_its_users_only(connect: str, system: Settings) -> None:
    assert connect
    assert (system.home / "connect" / "worker.properties").stat().st_mode & 0o777 == 0o600


def test_an_existing_connect_is_named_by_its_url() -> None:
    settings = Settings(connect="https://me:s3cret@there:8083")
    assert embedded.connect_url(settings) == "https://me:s3cret@there:8083"
    assert "s3cret" not in repr(settings)
