"""The shared servers: one broker for the whole run, in a temporary folder, stopped at its end."""

import signal
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from headwater import Log, Settings, embedded
from headwater.embedded.kafka import Kafka
from headwater.embedded.ports import a_free_port
from headwater.embedded.server import stop

_NUMBERS = count()

# A shell without a terminal starts what runs in its background deaf to interrupts; our children hear them.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A cleaner that never sleeps, so that compaction happens within a test's time.
TEST_BROKER = Kafka(properties={"log.cleaner.backoff.ms": "50", "log.retention.check.interval.ms": "200"})


def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> None:
    """A test that is stopped within a call to Spark leaves the answer unread; the next one would get it."""
    gateway = SparkContext._gateway
    if gateway is None or call.excinfo is None or call.excinfo.errisinstance(Exception):
        return
    connection = gateway._gateway_client.get_thread_connection()
    if connection is not None:
        connection.close()  # the next call opens another


@pytest.fixture(scope="session")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Settings of a home whose broker runs."""
    settings = Settings(home=tmp_path_factory.mktemp("system"), kafka_port=a_free_port())
    embedded.up(settings, [TEST_BROKER], lambda *_: None)
    yield settings
    embedded.down(settings)


@pytest.fixture(scope="session")
def log(system: Settings) -> Log:
    """The log of the shared broker."""
    return Log.open(system)


@pytest.fixture(scope="session")
def spark(system: Settings) -> Iterator[SparkSession]:
    """The session of all tests in this process, with slots enough for a real-time pipeline."""
    from headwater.run.session import close, session  # noqa: PLC0415 - most tests need no Spark

    started = session(system, "tests", slots=8)
    yield started
    close(started)


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Settings of a home whose schema registry runs."""
    settings = Settings(home=tmp_path_factory.mktemp("registry"), registry_port=a_free_port())
    embedded.up(settings, [embedded.SERVERS["registry"]], lambda *_: None)
    yield settings
    embedded.down(settings)


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a PostgreSQL that is ready for capture, with its password."""
    settings = Settings(home=tmp_path_factory.mktemp("postgres"), postgres_port=a_free_port())
    embedded.up(settings, [embedded.SERVERS["postgres"]], lambda *_: None)
    yield embedded.postgres_url(settings) or ""
    embedded.down(settings)


@pytest.fixture(scope="session")
def connect(system: Settings) -> Iterator[str]:
    """The URL of a Kafka Connect worker on the shared broker."""
    embedded.up(system, [embedded.SERVERS["connect"]], lambda *_: None)
    yield embedded.connect_url(system) or ""
    stop("connect", system)


@pytest.fixture(scope="session")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a Redis, with its password."""
    settings = Settings(home=tmp_path_factory.mktemp("redis"), redis_port=a_free_port())
    embedded.up(settings, [embedded.SERVERS["redis"]], lambda *_: None)
    yield embedded.redis_url(settings) or ""
    embedded.down(settings)


@pytest.fixture(scope="session")
def search(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of an OpenSearch."""
    settings = Settings(home=tmp_path_factory.mktemp("search"), search_port=a_free_port())
    embedded.up(settings, [embedded.SERVERS["search"]], lambda *_: None)
    yield embedded.search_url(settings) or ""
    embedded.down(settings)


@pytest.fixture(scope="session")
def mariadb_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Settings of a home whose MariaDB runs."""
    settings = Settings(home=tmp_path_factory.mktemp("mariadb"), mariadb_port=a_free_port())
    embedded.up(settings, [embedded.SERVERS["mariadb"]], lambda *_: None)
    yield settings
    embedded.down(settings)


@pytest.fixture(scope="session")
def mariadb(mariadb_home: Settings) -> str:
    """The URL of a MariaDB that is ready for capture, with its password."""
    return embedded.mariadb_url(mariadb_home) or ""


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    return f"{Path(request.node.name).name[:60].replace('[', '-').replace(']', '')}-{next(_NUMBERS)}"
