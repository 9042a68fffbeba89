"""Log: the way in. One object that knows where the log is, and hands out everything else.

    log = Log.open()
    with log.writer() as writer:
        writer.append(PAYMENTS, {"card": "42", "amount": 9.5})
    for record in log.read(PAYMENTS):
        print(record.value.amount)

A topic is named by its Topic (rows are checked and decoded), or, where its schema is not ours to
know, by its name alone (bytes).
"""

from collections.abc import Sequence
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Self

from headwater.errors import UnknownTopic
from headwater.log.bootstrap import Bootstrap
from headwater.log.connection import Connection
from headwater.log.formats import codec_for
from headwater.log.groups import Groups
from headwater.log.lag import PartitionLag, measure
from headwater.log.member import GroupStart, Member, OnChange
from headwater.log.positions import Beginning, Positions, Start
from headwater.log.queue import Queue
from headwater.log.reader import Reader
from headwater.log.record import Decode, as_bytes
from headwater.log.schemas import open_schemas
from headwater.log.topic import Topic
from headwater.log.topics import Topics
from headwater.log.writer import DELIVER_WITHIN, Writer
from headwater.settings import Settings

if TYPE_CHECKING:
    from headwater.log.registry import Schemas


class Log:
    """The log that the settings name."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._connection = Connection(settings)

    @classmethod
    def open(cls, settings: Settings | None = None) -> Self:
        """The log of these settings, or of those found in the environment and headwater.toml."""
        return cls(settings or Settings.load())

    @cached_property
    def topics(self) -> Topics:
        """The broker's topics."""
        return Topics(self._connection)

    @cached_property
    def groups(self) -> Groups:
        """The broker's consumer groups."""
        return Groups(self._connection)

    @cached_property
    def schemas(self) -> "Schemas":
        """The schema registry."""
        return open_schemas(self._settings)

    def writer(
        self, *, transactional_id: str | None = None, deliver_within: timedelta = DELIVER_WITHIN
    ) -> Writer:
        """A writer; with a transactional id it appends in transactions and fences older ones of that id."""
        return Writer(
            self._connection,
            self._settings,
            transactional_id=transactional_id,
            deliver_within=deliver_within,
        )

    def read(
        self,
        topic: Topic | str,
        *,
        start: Start | None = None,
        follow: bool = False,
        partitions: Sequence[int] | None = None,
    ) -> Reader:
        """Committed records from a place on (the beginning), up to the present end or following for ever."""
        name = _name(topic)
        wanted = self._partitions(name, partitions)
        starts = Positions(self._connection).resolve(name, wanted, start or Beginning())
        grows = partitions is None
        return Reader(self._connection, name, self._decoder(topic), starts=starts, follow=follow, grows=grows)

    def join(
        self,
        group: str,
        *topics: Topic | str,
        start: GroupStart = "beginning",
        on_assign: OnChange | None = None,
        on_revoke: OnChange | None = None,
        session: timedelta = timedelta(seconds=10),
    ) -> Member:
        """A member of a group; `start` is for a group that has no offsets yet."""
        return Member(
            self._connection,
            group,
            {_name(one): self._decoder(one) for one in topics},
            start=start,
            on_assign=on_assign,
            on_revoke=on_revoke,
            session=session,
        )

    def lag(self, *groups: str) -> list[PartitionLag]:
        """The lag of these groups, or of all."""
        return measure(self._connection, groups)

    def snapshot_then_follow(self, topic: Topic | str) -> Bootstrap:
        """The current value of every key, then every change, with no gap and no overlap."""
        return Bootstrap(self._connection, _name(topic), self._decoder(topic))

    def queue(
        self,
        topic: Topic | str,
        name: str,
        *,
        tries: int = 4,
        lock: timedelta = timedelta(seconds=60),
        start: GroupStart = "beginning",
        at_once: int = 20,
    ) -> Queue:
        """A consumer of the queue `name` over a topic; after `tries` a task goes to `<topic>.dead`."""
        return Queue(
            self._connection,
            _name(topic),
            name,
            self._decoder(topic),
            lambda largest: Writer(self._connection, self._settings, largest=largest),
            tries=tries,
            lock=lock,
            start=start,
            at_once=at_once,
        )

    def _partitions(self, topic: str, wanted: Sequence[int] | None) -> Sequence[int]:
        """Those that are wanted, or all; UnknownTopic for one that the topic does not have."""
        count = self.topics.partitions(topic)
        for one in wanted or ():
            if not 0 <= one < count:
                raise UnknownTopic(f"topic {topic!r} has no partition {one}", hint=f"its last is {count - 1}")
        return range(count) if wanted is None else wanted

    def _decoder(self, topic: Topic | str) -> Decode:
        return as_bytes if isinstance(topic, str) else codec_for(topic, lambda: self.schemas).decode


def _name(topic: Topic | str) -> str:
    return topic if isinstance(topic, str) else topic.name
