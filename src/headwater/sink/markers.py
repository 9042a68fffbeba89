"""Markers: what a sink has written, kept as offsets of a consumer group of its own.

The group is named `<app>.<pipeline>.to.<sink>`. A marker stands at a place (a topic and a partition) and
says up to where that slice of the output is written; who wrote it, in which batch, stands in the
offset's metadata. Rows that come from one partition of a source are marked at that very partition,
with the offset where the batch ends, so that the group reads like any other. Slices that only have
a number are marked at the topic `headwater.slices`, which has no records and exists to be pointed at:
partition 0 stands for the sink as a whole, partition i + 1 for slice i, and the offset is the number of the
next batch.
"""

from collections.abc import Callable, Collection
from contextlib import suppress
from datetime import timedelta
from typing import Any, NamedTuple

import msgspec
from confluent_kafka import Consumer, KafkaException, TopicPartition

from headwater.errors import BrokerRefused, CannotAlter, TopicExists, UnknownTopic
from headwater.log.connection import ANSWER_WITHIN, Connection, patiently, translated
from headwater.log.topics import Topics

SLICES = "headwater.slices"
"""The topic of places for slices that have a number and no other name."""

_ROOM = 17
"""Places that are made at first: the whole, and sixteen slices."""

_SETTLE_WITHIN = timedelta(seconds=60)
_CLIENTS: dict[tuple[str, str, str], Any] = {}


class Place(NamedTuple):
    """Where a marker stands."""

    topic: str
    partition: int


WHOLE = Place(SLICES, 0)


class Marker(msgspec.Struct, frozen=True):
    """Which batch of which checkpoint was written, and how its output was cut into slices."""

    query: str
    batch: int
    scheme: str
    topics: tuple[str, ...] = ()

    def at(self, place: Place, offset: int) -> TopicPartition:
        """The marker as an offset to commit."""
        return TopicPartition(place.topic, place.partition, offset, self.text)

    @property
    def text(self) -> str:
        """The marker as it stands beside an offset."""
        return msgspec.json.encode(self).decode()


def marker_of(committed: TopicPartition) -> Marker | None:
    """The marker in a committed offset; None where there is none of ours."""
    with suppress(msgspec.MsgspecError):
        return msgspec.json.decode(committed.metadata or "", type=Marker)
    return None


class Markers:
    """The markers of one sink.

    They are asked of a consumer that never joins its group. Kafka's admin client could list them all, and
    librdkafka's crashes the process when the group's coordinator is not ready (2.16: a missing check in
    the answer to OffsetFetch).
    """

    def __init__(self, connection: Connection, group: str) -> None:
        self._connection = connection
        self.group = group

    def read(self, places: Collection[Place]) -> dict[Place, Marker]:
        """The markers at these places as far as they are decided; what is open is not seen."""
        return self._read(places, "read_uncommitted")

    def read_settled(self, places: Collection[Place]) -> dict[Place, Marker]:
        """The markers at these places once no transaction is open there."""
        return self._read(places, "read_committed")

    def set(self, place: Place, offset: int, marker: Marker) -> None:
        """Put a marker, outside of any transaction."""
        wanted = [marker.at(place, offset)]
        self._ask("read_committed", lambda client: client.commit(offsets=wanted, asynchronous=False))

    def make_room(self, slices: int) -> None:
        """Have a place for the whole and for each of so many slices."""
        topics = Topics(self._connection)
        try:
            have = topics.partitions(SLICES)
        except UnknownTopic:
            with suppress(TopicExists):  # another driver was quicker
                topics.ensure(SLICES, max(_ROOM, slices + 1), {"cleanup.policy": "compact"})
            have = topics.partitions(SLICES)
        if have <= slices:
            with suppress(CannotAlter, BrokerRefused):  # likewise; a real refusal shows when it is used
                topics.alter(SLICES, partitions=slices + 1)

    def _read(self, places: Collection[Place], isolation: str) -> dict[Place, Marker]:
        wanted = [TopicPartition(*one) for one in places]
        found = self._ask(isolation, lambda client: client.committed(wanted, ANSWER_WITHIN))
        known = {Place(one.topic, one.partition): marker_of(one) for one in found}
        return {place: marker for place, marker in known.items() if marker is not None}

    def _ask(self, isolation: str, question: Callable[[Any], list[TopicPartition]]) -> list[TopicPartition]:
        def ask() -> list[TopicPartition]:
            try:
                found = question(group_client(self._connection, self.group, isolation))
            except KafkaException:  # a client that saw its coordinator go may never find the next one
                _CLIENTS.pop((self._connection.address, self.group, isolation), None)
                raise
            for one in found:
                if one.error is not None:
                    raise KafkaException(one.error)
            return found

        return patiently(self._connection, ask, topic=SLICES, group=self.group, within=_SETTLE_WITHIN)


def group_client(connection: Connection, group: str, isolation: str = "read_committed") -> Any:
    """A client that speaks for a group and never joins it; made once."""
    key = (connection.address, group, isolation)
    if key not in _CLIENTS:
        with translated(connection):
            _CLIENTS[key] = Consumer(
                connection.config(group_id=group, enable_auto_commit=False, isolation_level=isolation)
            )
    return _CLIENTS[key]
