"""Topics are checked when they are made, and travel."""

import pickle
from datetime import timedelta

import pytest

from headwater import FOREVER, Retention, Topic
from headwater.errors import SpecError

SCHEMA = "card string, amount double, paid_at timestamp"


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"name": "a b"}, "cannot be a topic's name"),
        ({"name": ""}, "cannot be a topic's name"),
        ({"name": ".."}, "cannot be a topic's name"),
        ({"schema": "card strin"}, "schema cannot be read"),
        ({"key": "cart"}, "key 'cart' is not a column"),
        ({"key": "amount"}, "cannot be a key: it is double"),
        ({"event_time": "at"}, "event_time 'at' is not a column"),
        ({"event_time": "card"}, "event time 'card' of topic 'payments' is string"),
        ({"partitions": 0}, "at least one partition"),
        ({"compacted": True}, "compacted but has no key"),
        ({"format": "xml"}, "'xml' is not a format"),
    ],
)
def test_a_topic_that_cannot_be_is_refused_with_the_reason(wrong, why):
    spec = {"name": "payments", "schema": SCHEMA} | wrong
    with pytest.raises(SpecError, match=why):
        Topic(spec.pop("name"), **spec)


@pytest.mark.parametrize("wrong", [{"age": timedelta(0)}, {"bytes": 0}])
def test_retention_must_be_positive(wrong):
    with pytest.raises(SpecError, match="must be positive"):
        Retention(**wrong)


@pytest.mark.parametrize(
    ("spec", "policy", "age", "size"),
    [
        ({}, "delete", "604800000", "-1"),
        ({"retention": FOREVER}, "delete", "-1", "-1"),
        ({"retention": Retention(age=timedelta(hours=1), bytes=1000)}, "delete", "3600000", "1000"),
        ({"compacted": True, "key": "card"}, "compact", "-1", "-1"),
        (
            {"compacted": True, "key": "card", "retention": Retention()},
            "compact,delete",
            "604800000",
            "-1",
        ),
    ],
)
def test_retention_and_compaction_in_kafkas_words(spec, policy, age, size):
    config = Topic("payments", schema=SCHEMA, **spec).config
    assert config["cleanup.policy"] == policy
    assert (config["retention.ms"], config["retention.bytes"]) == (age, size)


def test_a_topic_travels_to_another_process():
    topic = Topic("payments", schema=SCHEMA, key="card", event_time="paid_at")
    _ = topic.row, topic.spark_schema
    arrived = pickle.loads(pickle.dumps(topic))
    assert arrived == topic
    assert arrived.row(card="42").card == "42"
