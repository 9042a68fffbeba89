"""What the tests of the log share: a registry's schemas, a topic of payments, and a broker to kill."""

import pytest

from headwater import Settings, Topic, embedded
from headwater.embedded.ports import a_free_port
from headwater.log.registry import Schemas


@pytest.fixture
def schemas(registry: Settings) -> Schemas:
    return Schemas.open(registry)


@pytest.fixture
def payments(log, name):
    topic = Topic(name, schema="card string, amount double", key="card", partitions=3)
    log.topics.create(topic)
    return topic


@pytest.fixture
def fragile(tmp_path):
    """A log whose broker a test may kill."""
    settings = Settings(home=tmp_path, kafka_port=a_free_port())
    embedded.up(settings, [embedded.SERVERS["kafka"]], lambda *_: None)
    yield settings
    embedded.down(settings)
