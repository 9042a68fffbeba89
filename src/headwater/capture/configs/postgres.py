"""What Debezium's connector for PostgreSQL is told beside what all are: its slot and its publication."""

from collections.abc import Mapping

from headwater.capture.database import Address


def told(slot: str, address: Address) -> Mapping[str, str]:
    """The slot, which is its place in the WAL, and the publication of the same name."""
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.dbname": address.name,
        "plugin.name": "pgoutput",
        "slot.name": slot,
        "publication.name": slot,
        "publication.autocreate.mode": "filtered",
        "offset.mismatch.strategy": "trust_offset",  # a slot that somebody made anew lacks changes: fail
        # A word in the log, so that the slot moves on while nothing else happens.
        "heartbeat.action.query": "SELECT pg_logical_emit_message(false, 'headwater', '')",
        "message.prefix.exclude.list": "headwater",
        "hstore.handling.mode": "json",
    }
