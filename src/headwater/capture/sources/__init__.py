"""Sources: what is asked of a captured database itself, beside the connector that reads its log."""

from collections.abc import Iterator
from contextlib import contextmanager

from headwater.capture.database import Address, Database
from headwater.capture.sources import mariadb, postgres
from headwater.capture.sources.contract import Source


@contextmanager
def opened(database: Database, address: Address) -> Iterator[Source]:
    """The database, for the block."""
    server = postgres if address.kind == "postgres" else mariadb
    with server.opened(database, address) as source:
        yield source


@contextmanager
def alone(database: Database, address: Address) -> Iterator[Source]:
    """The database, for the block, in which no other app changes what is captured."""
    with opened(database, address) as source:
        source.lock(f"headwater.{database.name}")
        yield source
