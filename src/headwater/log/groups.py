"""Consumer groups as the broker has them: who reads, how far they are, and moving them.

A group's offsets are moved only while nobody reads in it: a living member would carry on from
where it was and overwrite the move with its next commit.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaException,
    TopicPartition,
)

from headwater.errors import GroupActive, UnknownGroup
from headwater.log.connection import ANSWER_WITHIN, TRY_WITHIN, Connection, patiently, translated
from headwater.log.member import Partition
from headwater.log.positions import Positions, Start
from headwater.log.topics import Topics

_STOP = "stop its readers first; they would overwrite the move with their next commit"


@dataclass(frozen=True, kw_only=True)
class GroupMember:
    """One member of a group and what it reads."""

    client: str
    host: str
    partitions: tuple[Partition, ...]


@dataclass(frozen=True, kw_only=True)
class GroupState:
    """One group: its state, its members and its committed offsets."""

    name: str
    state: str
    members: tuple[GroupMember, ...]
    committed: Mapping[Partition, int]


class Groups:
    """The broker's consumer groups."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def names(self) -> list[str]:
        """Every group that has members or committed offsets."""
        with translated(self._connection):
            listed = self._connection.admin.list_consumer_groups(request_timeout=ANSWER_WITHIN).result()
            for error in listed.errors:  # a list with gaps would look like groups without lag
                raise KafkaException(error)
        return sorted(one.group_id for one in listed.valid)

    def describe(self, name: str) -> GroupState:
        """One group whole; UnknownGroup if there is none."""
        told = self._ask("describe_consumer_groups", name, group=name)
        committed = self.committed(name)
        if told.state == ConsumerGroupState.DEAD and not committed:
            raise UnknownGroup(f"there is no group {name!r}", hint="`headwater groups` lists them")
        members = tuple(
            GroupMember(
                client=one.client_id,
                host=one.host,
                partitions=tuple(
                    Partition(where.topic, where.partition) for where in one.assignment.topic_partitions
                ),
            )
            for one in told.members
        )
        return GroupState(name=name, state=told.state.name.lower(), members=members, committed=committed)

    def committed(self, name: str) -> dict[Partition, int]:
        """The committed offset of each partition that has one."""
        whole = ConsumerGroupTopicPartitions(name)
        found = self._ask("list_consumer_group_offsets", whole, group=name)
        known = (one for one in found.topic_partitions if one.offset >= 0)
        return {Partition(one.topic, one.partition): one.offset for one in known}

    def reset(self, name: str, topic: str, start: Start) -> dict[int, int]:
        """Move the group's offsets in a topic; tells the new ones. GroupActive while it has members."""
        if self.describe(name).members:
            raise GroupActive(
                f"group {name!r} has members, so it cannot be moved",
                hint=_STOP,
            )
        partitions = range(Topics(self._connection).partitions(topic))
        offsets = Positions(self._connection).resolve(topic, partitions, start)
        wanted = [TopicPartition(topic, one, offset) for one, offset in offsets.items()]
        moved = ConsumerGroupTopicPartitions(name, wanted)
        for one in self._ask("alter_consumer_group_offsets", moved, group=name).topic_partitions:
            if one.error is not None:  # somebody joined between our look and the move
                raise GroupActive(f"group {name!r} could not be moved", detail=one.error.str(), hint=_STOP)
        return offsets

    def delete(self, name: str) -> None:
        """Forget a group and its offsets; GroupActive while it has members."""
        if self.describe(name).members:
            raise GroupActive(f"group {name!r} has members", hint="stop its readers first")
        self._ask("delete_consumer_groups", name, group=name)

    def _ask(self, question: str, about: object, *, group: str) -> Any:
        """The answer of the group's coordinator to one of the admin client's questions."""

        def ask() -> Any:
            asked = getattr(self._connection.admin, question)
            return asked([about], request_timeout=TRY_WITHIN)[group].result()

        return patiently(self._connection, ask, group=group)
