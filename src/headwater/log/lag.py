"""Lag: how many records a group has not yet done, per partition, and whether that grows.

lag = the partition's end - the group's committed offset: Kafka's own figure, so any Kafka tool shows
the same. A partition of the group's topics that has no commit yet has no lag in Kafka's sense (None);
`behind` then counts everything that the partition holds, so that an alert does not miss a reader
that never commits.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from headwater.errors import UnknownGroup, UnknownTopic
from headwater.log.connection import Connection
from headwater.log.groups import Groups, GroupState
from headwater.log.member import Partition
from headwater.log.positions import Positions
from headwater.log.topics import Topics


@dataclass(frozen=True, kw_only=True)
class PartitionLag:
    """One group's place in one partition."""

    group: str
    topic: str
    partition: int
    committed: int | None
    end: int
    lag: int | None
    behind: int
    trend: float | None = None
    """Records a second by which the lag grew (or, below zero, shrank) since the sample before."""


def measure(connection: Connection, groups: Sequence[str] | None = None) -> list[PartitionLag]:
    """The lag of these groups (all, when none is named) now; a topic that was deleted has none."""
    if groups:
        return [one for name in groups for one in _of_group(connection, name)]
    found: list[PartitionLag] = []
    for name in Groups(connection).names():
        with suppress(UnknownGroup):  # it was deleted since we asked for the names
            found += _of_group(connection, name)
    return found


def with_trend(
    before: Iterable[PartitionLag], after: Iterable[PartitionLag], seconds: float
) -> list[PartitionLag]:
    """The later sample, each line with the change since the earlier one."""
    earlier = {(one.group, one.topic, one.partition): one.behind for one in before}
    return [_trended(one, earlier.get((one.group, one.topic, one.partition)), seconds) for one in after]


def _trended(one: PartitionLag, earlier: int | None, seconds: float) -> PartitionLag:
    return replace(one, trend=None if earlier is None else (one.behind - earlier) / seconds)


def _of_group(connection: Connection, name: str) -> list[PartitionLag]:
    state = Groups(connection).describe(name)
    read = {where.topic for member in state.members for where in member.partitions}
    found: list[PartitionLag] = []
    for topic in sorted(read | {where.topic for where in state.committed}):
        with suppress(UnknownTopic):  # deleted: its readers and offsets go a moment later
            found += _of_topic(connection, state, topic)
    return found


def _of_topic(connection: Connection, state: GroupState, topic: str) -> list[PartitionLag]:
    partitions, positions = range(Topics(connection).partitions(topic)), Positions(connection)
    first, end = positions.first(topic, partitions), positions.end(topic, partitions)
    places = [Partition(topic, one) for one in partitions]
    return [
        _line(state.name, one, state.committed.get(one), first[one.partition], end[one.partition])
        for one in places
    ]


def _line(group: str, where: Partition, committed: int | None, first: int, end: int) -> PartitionLag:
    lag = None if committed is None else end - committed
    return PartitionLag(
        group=group,
        topic=where.topic,
        partition=where.partition,
        committed=committed,
        end=end,
        lag=lag,
        behind=end - first if lag is None else lag,
    )
