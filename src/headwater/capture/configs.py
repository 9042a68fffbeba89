"""Configs: what a connector is told, as a pure function of the specs.

Nothing that the database had may be lost or changed on the way: numbers and instants travel as text, a
null stays null where a column has a default, what the database did not send is marked, and a truncation,
which has no key, gets one, for a compacted topic would refuse it and capture would stand still. Debezium
writes in transactions that hold its place in the source, too, so what it writes twice is seen once.
"""

import re
from collections.abc import Mapping

from headwater.capture.claims import PROPERTY, Claims, as_property
from headwater.capture.database import Address, Database
from headwater.log.formats.change_values import CONNECTOR
from headwater.log.topic import Retention, Topic

SIGNALS = {"postgres": "headwater_capture.signals"}
"""The table through which a snapshot is asked for; the connector reads it like any other, in order."""

HEARTBEAT_S = 10
_TRANSFORMS = "org.apache.kafka.connect.transforms"


def connector_name(database: Database) -> str:
    """The connector of a database."""
    return f"headwater-{database.name}"


def slot_name(database: Database) -> str:
    """Its replication slot in PostgreSQL, and its publication."""
    return f"headwater_{database.name}"


def own_topics(database: Database, address: Address) -> list[Topic]:
    """The topics that a connector writes beside those of the tables."""
    brief = Retention()
    return [
        Topic(name, schema="value string", retention=brief)
        for name in (
            f"{database.name}.transaction",
            f"headwater-heartbeat.{database.name}",
            f"{database.name}.{SIGNALS[address.kind]}",
        )
    ]


def connector(
    database: Database, claims: Claims, address: Address, password: str, options: Mapping[str, str]
) -> dict[str, str]:
    """All that the connector of these tables is told; `options` are laid over ours."""
    return {
        **_source(database, address, password),
        **_postgres(database, address),
        **_tables(claims),
        **_as_they_are(),
        **_keyed(database, claims),
        PROPERTY: as_property(claims),
        **options,
    }


def _source(database: Database, address: Address, password: str) -> dict[str, str]:
    return {
        "tasks.max": "1",
        "topic.prefix": database.name,
        "database.hostname": address.host,
        "database.port": str(address.port),
        "database.user": address.user,
        "database.password": password,
        "exactly.once.support": "required",
        "transaction.boundary": "poll",
        "poll.interval.ms": "20",
        "retriable.restart.connector.wait.ms": "1000",
        "topic.heartbeat.prefix": "headwater-heartbeat",
        "heartbeat.interval.ms": str(1000 * HEARTBEAT_S),
        "provide.transaction.metadata": "true",
        "extended.headers.enabled": "false",
        "signal.enabled.channels": "source",
        "signal.data.collection": SIGNALS[address.kind],
        "incremental.snapshot.watermarking.strategy": "insert_delete",
    }


def _postgres(database: Database, address: Address) -> dict[str, str]:
    return {
        "database.dbname": address.name,
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "plugin.name": "pgoutput",
        "slot.name": slot_name(database),
        "publication.name": slot_name(database),
        "publication.autocreate.mode": "filtered",
        "offset.mismatch.strategy": "trust_offset",  # a slot that somebody made anew lacks changes: fail
        # A word in the log, so that the slot moves on while nothing else happens.
        "heartbeat.action.query": "SELECT pg_logical_emit_message(false, 'headwater', '')",
        "message.prefix.exclude.list": "headwater",
    }


def _tables(claims: Claims) -> dict[str, str]:
    return {
        "table.include.list": ",".join(map(re.escape, claims)),
        "message.key.columns": ";".join(
            f"{re.escape(name)}:{','.join(one.key)}" for name, one in claims.items()
        ),
    }


def _as_they_are() -> dict[str, str]:
    """Values without loss: as the codec of changes reads them."""
    return {
        **CONNECTOR,
        "value.converter.replace.null.with.default": "false",
        "key.converter": CONNECTOR["value.converter"],
        "key.converter.schemas.enable": "false",
        "hstore.handling.mode": "json",
        "skipped.operations": "none",
    }


def _keyed(database: Database, claims: Claims) -> dict[str, str]:
    """A key for what has none: it is put into a struct, which is laid flat again."""
    columns = sorted({column for one in claims.values() for column in one.key})
    steps = {
        "wrap": ("HoistField$Key", "field", "row"),
        "flatten": ("Flatten$Key", "delimiter", "."),
        "unwrap": ("ReplaceField$Key", "renames", ",".join(f"row.{one}:{one}" for one in columns)),
    }
    topics = "|".join(re.escape(f"{database.name}.{name}") for name in claims)
    told = {
        "transforms": ",".join(steps),
        "predicates": "change",
        "predicates.change.type": f"{_TRANSFORMS}.predicates.TopicNameMatches",
        "predicates.change.pattern": topics,
    }
    for name, (kind, option, value) in steps.items():
        told[f"transforms.{name}.type"] = f"{_TRANSFORMS}.{kind}"
        told[f"transforms.{name}.predicate"] = "change"
        told[f"transforms.{name}.{option}"] = value
    return told
