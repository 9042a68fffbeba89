"""Topics on the broker: created once, altered as far as Kafka goes."""

from datetime import timedelta
from functools import partial

import pytest

from headwater import Retention, Topic
from headwater.clock import wait_until
from headwater.errors import BrokerRefused, CannotAlter, SpecError, TopicExists, UnknownTopic
from headwater.log.positions import Positions


def test_creating_twice_is_creating_once(log, name):
    topic = Topic(name, schema="n int", partitions=2, retention=Retention(age=timedelta(hours=1)))
    assert log.topics.create(topic) is True
    assert log.topics.create(topic) is False
    state = log.topics.describe(name)
    assert (state.partitions, state.config["retention.ms"]) == (2, "3600000")
    assert name in log.topics.names()


def test_a_topic_that_differs_is_refused_with_the_difference(log, name):
    log.topics.create(Topic(name, schema="n int", partitions=2))
    with pytest.raises(TopicExists) as caught:
        log.topics.create(Topic(name, schema="n int", partitions=3, retention=Retention(bytes=5)))
    assert "partitions: 2, not 3" in caught.value.detail
    assert "retention.bytes: -1, not 5" in caught.value.detail


def test_partitions_grow_and_never_shrink(log, name):
    log.topics.create(Topic(name, schema="n int", partitions=2))
    assert log.topics.alter(name, partitions=4).partitions == 4
    assert log.topics.alter(name, partitions=4).partitions == 4
    with pytest.raises(CannotAlter, match="has 4 partitions and cannot have 3"):
        log.topics.alter(name, partitions=3)


def test_settings_that_kafka_refuses_are_refused(log, name):
    log.topics.create(Topic(name, schema="n int"))
    with pytest.raises(CannotAlter, match=name):
        log.topics.alter(name, config={"retention.ms": "soon"})
    with pytest.raises((CannotAlter, BrokerRefused)):
        log.topics.alter(name, config={"no.such.setting": "1"})


def test_what_is_not_there_is_named(log, name):
    for ask in (log.topics.describe, log.topics.partitions, log.topics.delete, log.topics.alter):
        with pytest.raises(UnknownTopic, match=name):
            ask(name)
    with pytest.raises(SpecError, match="cannot be a topic's name"):
        log.topics.describe("no/such")


def test_a_deleted_topic_is_gone(log, name):
    log.topics.create(Topic(name, schema="n int"))
    log.topics.delete(name)
    assert name not in log.topics.names()


def test_retention_by_size_removes_the_oldest(log, name):
    topic = Topic(name, schema="text string", retention=Retention(age=None, bytes=1_000_000))
    log.topics.create(topic)
    log.topics.alter(name, config={"segment.bytes": "1048576"})
    with log.writer() as writer:
        for number in range(4000):
            writer.append(topic, {"text": f"{number:01000}"})

    first = partial(Positions(log._connection).first, name, [0])
    assert wait_until(lambda: first()[0] > 0, timedelta(seconds=30), pause=0.3)
