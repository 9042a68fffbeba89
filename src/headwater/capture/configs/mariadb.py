"""What Debezium's connector for MariaDB is told beside what all are: its number, and its history.

A binary log has rows without the names of their columns, so the connector reads every statement that changes
a table, and keeps them in a topic: its history. Without that, what stands in the log could not be read after
a restart. It reads and writes the topic with clients of its own, which know nothing of Connect's settings.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

_HISTORY = "schema.history.internal"
BEAT = "UPDATE {} SET data = now(6) WHERE id = 'heartbeat'"
_OURS = 1 << 31
"""Servers are numbered by people, from 1 on: readers of the log have the upper half."""


@dataclass(frozen=True, kw_only=True)
class Kafka:
    """How a connector itself reaches the log."""

    address: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)


def told(name: str, history: str, signals: str, kafka: Kafka) -> Mapping[str, str]:
    """Its number among the readers of the log, which the name alone makes; its history."""
    clients = {
        f"{_HISTORY}.{client}.{option}": value
        for client in ("producer", "consumer")
        for option, value in kafka.options.items()
    }
    return {
        "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
        "database.server.id": str(_OURS | zlib.crc32(name.encode())),
        "include.schema.changes": "false",
        "enable.time.adjuster": "false",  # the year 1 is not 2001
        "connect.keep.alive.interval.ms": "15000",  # where nothing happens, the server beats at 80 % of it
        # A row that changes, so that its place moves on while nothing else happens.
        "heartbeat.action.query": BEAT.format(quoted(signals)),
        f"{_HISTORY}.kafka.bootstrap.servers": kafka.address,
        f"{_HISTORY}.kafka.topic": history,
        **clients,
    }


def quoted(table: str) -> str:
    """A table's name as SQL has it."""
    return ".".join(f"`{one}`" for one in table.split("."))
