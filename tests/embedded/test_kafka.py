"""A real broker: what it survives, how fast it is there, what it holds and where it listens."""

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import psutil
import pytest
from confluent_kafka.admin import AdminClient

from headwater import Log, Settings, Topic, embedded
from headwater.clock import wait_until
from headwater.embedded.kafka import Kafka, _cluster_id
from headwater.embedded.ports import LOOPBACK
from headwater.embedded.process import started_for
from headwater.embedded.server import Place, Running, running
from headwater.errors import ServerFailed

pytestmark = pytest.mark.system
SOON = timedelta(seconds=20)
NOTES = Topic("notes", schema="text string NOT NULL")
MEGABYTE = 1_000_000


def up(settings: Settings, kafka: Kafka | None = None) -> Running:
    return embedded.up(settings, [kafka or Kafka()], lambda *_: None)[0]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """A home of these tests' own, because they kill its broker."""
    settings = Settings(home=tmp_path_factory.mktemp("kafka"))
    up(settings)
    Log.open(settings).topics.create(NOTES)
    yield settings
    embedded.down(settings)
    assert started_for(settings.home / "kafka") == []


@pytest.fixture
def crowd() -> float:
    """How many processes share a core: on a busy machine a start takes so many times as long."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def append(settings: Settings, *texts: str) -> None:
    with Log.open(settings).writer() as writer:
        for text in texts:
            writer.append(NOTES, {"text": text})


def texts(settings: Settings) -> list[str]:
    with Log.open(settings).read(NOTES) as reader:
        return [record.value.text for record in reader]


def kill(settings: Settings) -> None:
    alive = running("kafka", settings)
    assert alive is not None
    os.kill(alive.pid, signal.SIGKILL)
    assert wait_until(lambda: running("kafka", settings) is None, SOON)


def test_a_broker_killed_with_9_comes_up_again_with_its_data(home: Settings, crowd: float) -> None:
    up(home)
    append(home, "before the first kill", "and this")
    before = texts(home)
    kill(home)
    began = time.monotonic()
    up(home)
    assert time.monotonic() - began <= 10 * crowd
    assert texts(home) == before
    append(home, "after it")
    kill(home)
    up(home)
    assert texts(home) == [*before, "after it"]


def test_data_survives_down_and_up(home: Settings) -> None:
    up(home)
    append(home, "kept")
    before = texts(home)
    assert embedded.down(home) == ["kafka"]
    up(home)
    assert texts(home) == before
    assert before[-1] == "kept"


def test_a_warm_start_takes_at_most_10_seconds(home: Settings, crowd: float) -> None:
    embedded.down(home)
    began = time.monotonic()
    up(home)
    assert time.monotonic() - began <= 10 * crowd


def test_a_new_home_with_a_warm_cache_takes_at_most_10_seconds(tmp_path: Path, crowd: float) -> None:
    settings = Settings(home=tmp_path / "new")
    began = time.monotonic()
    try:
        up(settings)
        assert time.monotonic() - began <= 10 * crowd
    finally:
        embedded.down(settings)


def test_a_broker_that_took_200_000_records_holds_less_than_600_mb(home: Settings) -> None:
    started = up(home)
    log = Log.open(home)
    log.topics.ensure("many", 4, {})
    with log.writer() as writer:
        for number in range(200_000):
            writer.append_bytes("many", b"x" * 200, key=str(number % 1000).encode())
    assert started.identity.resident_bytes < 600 * MEGABYTE


def test_a_broker_listens_on_loopback_only(home: Settings) -> None:
    started = up(home)
    listening = {
        one.laddr.ip
        for one in psutil.net_connections(kind="inet")
        if one.laddr and one.pid == started.pid and one.status == psutil.CONN_LISTEN
    }
    assert {one.removeprefix("::ffff:") for one in listening} == {LOOPBACK}


def test_a_broker_does_not_make_topics_on_its_own(home: Settings) -> None:
    started = up(home)
    client = AdminClient({"bootstrap.servers": started.address})
    client.list_topics("never-made", timeout=10)
    assert "never-made" not in client.list_topics(timeout=10).topics


def test_variables_meant_for_other_kafkas_do_not_change_ours(
    home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_HEAP_OPTS", "-Xmx1m")
    monkeypatch.setenv("LOG4J_CONFIGURATION_FILE", "/nonexistent")
    embedded.down(home)
    up(home)
    assert "KAFKA_HEAP_OPTS" not in psutil.Process(up(home).pid).environ()


def test_properties_are_laid_over_ours(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.properties").touch()  # formatted already
    place = Place(
        folder=tmp_path,
        bundles={"kafka": tmp_path},
        java=Path("java"),
        ports={"main": 1234, "controller": 1235},
        settings=Settings(),
    )
    Kafka(properties={"num.partitions": "7", "node.id": "2"}).prepare(place)
    lines = (tmp_path / "server.properties").read_text().splitlines()
    assert "num.partitions=7" in lines
    assert "node.id=2" in lines
    assert "node.id=1" not in lines
    assert f"advertised.listeners=BROKER://{LOOPBACK}:1234" in lines


def test_a_property_that_kafka_refuses_is_told_with_kafkas_words(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home")
    with pytest.raises(ServerFailed) as raised:
        up(settings, Kafka(properties={"log.retention.hours": "often"}))
    assert "often" in raised.value.detail
    assert started_for(settings.home / "kafka") == []


def test_a_storage_that_cannot_be_formatted_is_told(home: Settings, tmp_path: Path) -> None:
    settings = replace(home, home=tmp_path / "home")
    (settings.home / "kafka").mkdir(parents=True)
    (settings.home / "kafka" / "data").write_text("not a folder")
    with pytest.raises(ServerFailed, match="could not format its storage") as raised:
        up(settings)
    assert "kafka" in raised.value.hint


def test_nothing_answers_on_a_port_without_a_broker() -> None:
    assert not Kafka().answers(1)


def test_a_cluster_id_is_never_taken_for_an_option() -> None:
    made = {_cluster_id() for _ in range(1000)}
    assert len(made) == 1000
    assert {len(one) for one in made} == {22}
    assert not any(one.startswith("-") for one in made)
