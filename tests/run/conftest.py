"""What tests of running share."""

import pytest

from headwater import Log, Topic


@pytest.fixture
def topic(log: Log, name: str) -> Topic:
    made = Topic(name, schema="n int NOT NULL", partitions=2)
    log.topics.create(made)
    return made
