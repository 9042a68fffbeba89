"""Configs: what a connector is told, as a pure function of the specs.

Nothing that the database had may be lost or changed on the way: a null stays null where a column has a
default, what the database did not send is marked, and a truncation, which has no key, gets one, for a
compacted topic would refuse it and capture would stand still. Debezium writes in transactions that hold its
place in the source, too, so what it writes twice is seen once.
"""

import re
from collections.abc import Mapping

from headwater.capture.claims import PROPERTY, Claims, as_property
from headwater.capture.database import Address
from headwater.log.formats.change_values import CONNECTOR
from headwater.log.topic import LARGEST_CHANGE

HEARTBEATS = "headwater-heartbeat"
HEARTBEAT_S = 10
_KAFKA = "org.apache.kafka.connect.transforms"
_BINARY = "io.debezium.converters.BinaryDataConverter"


def signals(address: Address) -> str:
    """The table through which a snapshot is asked for; the connector reads it like any other, in order."""
    return "headwater_capture.signals" if address.kind == "postgres" else f"{address.name}.headwater_signals"


def common(prefix: str, claims: Claims, address: Address, password: str) -> dict[str, str]:
    """What every connector is told: where its source is, what it reads, and to write it once."""
    return {
        "tasks.max": "1",
        "topic.prefix": prefix,
        "database.hostname": address.host,
        "database.port": str(address.port),
        "database.user": address.user,
        "database.password": password,
        "table.include.list": ",".join(map(re.escape, claims)),
        "exactly.once.support": "required",
        "transaction.boundary": "poll",
        "poll.interval.ms": "5",  # for so long it gathers what it writes in one transaction
        "retriable.restart.connector.wait.ms": "1000",
        "max.queue.size.in.bytes": str(4 * LARGEST_CHANGE),  # rows that wait must fit into the worker
        "producer.override.max.request.size": str(LARGEST_CHANGE),
        "topic.heartbeat.prefix": HEARTBEATS,
        "heartbeat.interval.ms": str(1000 * HEARTBEAT_S),
        "extended.headers.enabled": "false",
        PROPERTY: as_property(claims),
    }


def of_tables(database: str, claims: Claims, address: Address) -> dict[str, str]:
    """What the connector of tables is told: their keys, values without loss, transactions, signals."""
    return {
        **CONNECTOR,
        "value.converter.replace.null.with.default": "false",
        "key.converter": CONNECTOR["value.converter"],
        "key.converter.schemas.enable": "false",
        "skipped.operations": "none",
        "provide.transaction.metadata": "true",
        "snapshot.mode": "no_data",  # rows are asked for by signals: see ADR 20
        "incremental.snapshot.chunk.size": "2048",
        "signal.enabled.channels": "source",
        "signal.data.collection": signals(address),
        "incremental.snapshot.watermarking.strategy": "insert_delete",
        "message.key.columns": ";".join(
            f"{re.escape(name)}:{','.join(one.key)}" for name, one in claims.items()
        ),
        **_keyed(database, claims),
    }


def of_outbox() -> dict[str, str]:
    """What the connector of an outbox is told: each new row's bytes to the topic that the row names."""
    plain = {"": _BINARY, ".delegate.converter.type": CONNECTOR["value.converter"]}
    plain[".delegate.converter.type.schemas.enable"] = "false"  # what is no event of ours: heartbeats
    return {
        **{
            f"{side}.converter{option}": value for side in ("key", "value") for option, value in plain.items()
        },
        "skipped.operations": "u,d,t",
        "transforms": "route",
        "transforms.route.type": "io.debezium.transforms.outbox.EventRouter",
        "transforms.route.table.field.event.id": "id",
        "transforms.route.table.field.event.key": "key",
        "transforms.route.table.field.event.payload": "value",
        "transforms.route.route.by.field": "topic",
        "transforms.route.route.topic.replacement": "${routedByValue}",
    }


def _keyed(database: str, claims: Claims) -> Mapping[str, str]:
    """A key for what has none: it is put into a struct, which is laid flat again."""
    columns = sorted({column for one in claims.values() for column in one.key})
    steps = {
        "wrap": ("HoistField$Key", "field", "row"),
        "flatten": ("Flatten$Key", "delimiter", "."),
        "unwrap": ("ReplaceField$Key", "renames", ",".join(f"row.{one}:{one}" for one in columns)),
    }
    told = {
        "transforms": ",".join(steps),
        "predicates": "change",
        "predicates.change.type": f"{_KAFKA}.predicates.TopicNameMatches",
        "predicates.change.pattern": "|".join(re.escape(f"{database}.{name}") for name in claims),
    }
    for name, (kind, option, value) in steps.items():
        told[f"transforms.{name}.type"] = f"{_KAFKA}.{kind}"
        told[f"transforms.{name}.predicate"] = "change"
        told[f"transforms.{name}.{option}"] = value
    return told
