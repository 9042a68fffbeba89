"""The events that bench/pipelines.py measures with: payments, and impressions with their clicks.

Payments: 1,000 shops, 10,000 cards, 4,000 a second of event time, one in five out of order by up to
five seconds. Every second click comes within the ten seconds that the join allows, one not.
"""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from confluent_kafka import Producer

from headwater import FOREVER, Log, Topic

PAYMENTS = Topic(
    "payments",
    schema="number long, card string, shop string, amount double, country string, paid_at timestamp",
    key="card",
    event_time="paid_at",
    partitions=4,
    retention=FOREVER,
)
IMPRESSIONS = Topic(
    "impressions",
    schema="ad string, campaign string, shown_at timestamp",
    key="ad",
    event_time="shown_at",
    partitions=4,
    retention=FOREVER,
)
CLICKS = Topic(
    "clicks",
    schema="shown string, clicked_at timestamp",
    key="shown",
    event_time="clicked_at",
    partitions=4,
    retention=FOREVER,
)
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
A_SECOND = 4000
Message = dict[str, str]


def fill(log: Log, address: str, count: int) -> None:
    """Make the topics and append `count` payments, and as many impressions and clicks together."""
    for topic in (PAYMENTS, IMPRESSIONS, CLICKS):
        log.topics.create(topic)
    append(address, PAYMENTS, payments(count))
    append(address, IMPRESSIONS, impressions(count // 2))
    append(address, CLICKS, clicks(count // 2))


def payments(count: int) -> Iterator[Message]:
    """Payments as JSON text, with their keys."""
    chance = random.Random(1)
    for number in range(count):
        late = chance.random() * 5 if chance.random() < 0.2 else 0.0
        card, shop = f"card-{chance.randrange(10_000)}", f"shop-{chance.randrange(1_000)}"
        amount, country = chance.randrange(100_000) / 100, chance.choice(("NL", "DE", "FR", "BE"))
        value = (
            f'{{"number":{number},"card":"{card}","shop":"{shop}","amount":{amount},'
            f'"country":"{country}","paid_at":"{_at(number / A_SECOND - late)}"}}'
        )
        yield {"key": card, "value": value}


def impressions(count: int) -> Iterator[Message]:
    """Impressions, each of its own number."""
    for number in range(count):
        value = (
            f'{{"ad":"{number}","campaign":"campaign-{number % 100}","shown_at":"{_at(number / A_SECOND)}"}}'
        )
        yield {"key": str(number), "value": value}


def clicks(count: int) -> Iterator[Message]:
    """Clicks, each on an impression of the twenty seconds before it."""
    chance = random.Random(2)
    for number in range(count):
        shown = max(0, number - chance.randrange(20 * A_SECOND))
        value = f'{{"shown":"{shown}","clicked_at":"{_at(number / A_SECOND)}"}}'
        yield {"key": str(shown), "value": value}


def _at(seconds: float) -> str:
    return (BEGIN + timedelta(seconds=60 + seconds)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def append(address: str, topic: Topic, messages: Iterator[Message]) -> None:
    """Append messages to a topic, as fast as may be."""
    producer = Producer(
        {"bootstrap.servers": address, "linger.ms": 50, "batch.size": 262144, "partitioner": "murmur2_random"}
    )
    block: list[Message] = []
    for one in messages:
        block.append(one)
        if len(block) == 20_000:
            _send(producer, topic, block)
            block = []
    _send(producer, topic, block)


def _send(producer: Producer, topic: Topic, block: list[Message]) -> None:
    if producer.produce_batch(topic.name, block) != len(block) or producer.flush(60):
        raise SystemExit(f"{topic.name} could not be filled")
