"""Outbox: state and event in one transaction of the database, so that both happen or neither does.

A service that writes its table and then sends an event can die in between: the copies never hear of it. With
an outbox it writes the event into a table of the same database, in the same transaction; capture reads that
table's log and appends each event to its topic, once, in the order of the commits. The bytes are those that a
writer of the topic would have appended.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import Any

from headwater.capture.database import Database
from headwater.clock import wait_until
from headwater.errors import SpecError
from headwater.log.channel import Channel, turns
from headwater.log.schemas import open_schemas
from headwater.log.topic import Topic
from headwater.settings import Settings

_NAME = re.compile(r"[a-z_][a-z0-9_]*\.[a-z_][a-z0-9_]*")
_COLUMNS = (
    "id uuid PRIMARY KEY DEFAULT gen_random_uuid(), topic text NOT NULL, key bytea, value bytea NOT NULL, "
    "sent_at timestamptz NOT NULL DEFAULT now()"
)
_SEND = "INSERT INTO {table} (topic, key, value) VALUES (%s, %s, %s)"
_SEEN = "SELECT id, pg_current_wal_insert_lsn() FROM {table}"
_PASSED = (
    "SELECT 1 FROM pg_replication_slots WHERE slot_name = %s AND confirmed_flush_lsn >= %s AND EXISTS "
    "(SELECT FROM pg_publication_tables WHERE pubname = slot_name AND schemaname || '.' || tablename = %s)"
)
_CLEAN = "DELETE FROM {table} WHERE id = ANY(%s)"


@dataclass(frozen=True)
class Outbox:
    """A table of events beside a service's own tables, in PostgreSQL, and the topics that it sends to."""

    database: Database
    topics: Sequence[Topic] = field(kw_only=True)
    table: str = field(default="public.outbox", kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "topics", tuple(self.topics))
        if not _NAME.fullmatch(self.table):
            raise SpecError(
                f"{self.table!r} cannot be the name of an outbox",
                hint='name it with its schema, in small letters, as in table="public.outbox"',
            )
        if not self.topics:
            raise SpecError(f"the outbox {self.table!r} sends to no topic", hint="topics=[ORDER_PLACED]")

    @property
    def slot(self) -> str:
        """Its replication slot, which is its publication's name, too."""
        return f"headwater_{self.database.name}_outbox"

    @property
    def ddl(self) -> str:
        """The SQL that makes its table; nothing happens where it is there."""
        return f"CREATE TABLE IF NOT EXISTS {self.table} ({_COLUMNS})"

    def send(self, connection: Any, topic: Topic, value: object, settings: Settings | None = None) -> None:
        """Write an event in the connection's transaction: it is sent if, and only if, that commits.

        The connection is one of psycopg's (or its cursor), or SQLAlchemy's Connection or Session. A value
        that does not fit the topic is refused before anything is written.
        """
        channel = self._channel(topic, settings)
        data = channel.encode(value)
        _execute(connection, _SEND.format(table=self.table), (topic.name, channel.key_of(value), data))

    def clean(self, connection: Any, within: timedelta = timedelta(seconds=30)) -> int:
        """Delete the events that capture has taken over; tells how many.

        What can be seen now has been committed before now, so once capture has passed this place in the
        database's log, it has passed them all. An outbox that nobody captures, or that is not published,
        keeps its events.
        """
        seen = connection.execute(_SEEN.format(table=self.table)).fetchall()
        if not seen or not wait_until(lambda: self._has_passed(connection, seen[0][1]), within):
            return 0
        done = connection.execute(_CLEAN.format(table=self.table), [[one for one, _ in seen]])
        return int(done.rowcount)

    def _has_passed(self, connection: Any, place: str) -> bool:
        return connection.execute(_PASSED, [self.slot, place, self.table]).fetchone() is not None

    def _channel(self, topic: Topic, settings: Settings | None) -> Channel:
        if topic not in self.topics:
            raise SpecError(
                f"the outbox {self.table!r} does not send to topic {topic.name!r}",
                hint="name it: Outbox(…, topics=[…])",
            )
        if topic.name not in self._channels:
            schemas = lambda: open_schemas(settings or Settings.load())  # noqa: E731 - asked only if needed
            self._channels[topic.name] = Channel(topic, schemas, turns(topic.partitions))
        return self._channels[topic.name]

    @cached_property
    def _channels(self) -> dict[str, Channel]:
        return {}


def _execute(connection: Any, sql: str, row: tuple[object, ...]) -> None:
    """In the caller's own transaction, whichever library it is of."""
    if hasattr(connection, "get_bind"):  # a Session of SQLAlchemy's
        connection = connection.connection()
    run = getattr(connection, "exec_driver_sql", None) or connection.execute
    run(sql, row)
