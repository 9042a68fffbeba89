"""Event clock: how far event time has come in a pipeline, from what its inputs have shown.

Pure arithmetic: what was seen and the wall clock's time are arguments. An input is a topic, or a partition
of one where each has to say for itself how far it is. The input that is furthest behind decides. One that was
silent for long enough is left out; when all are, nothing is under way, and event time is the wall clock's.
The watermark never goes back.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from headwater.clock import EPOCH
from headwater.process.event_time import NONE, Adaptive, Punctuated, Watermark
from headwater.run.delays import Delays
from headwater.run.progress import Offsets

MEMORY = 20_000
"""Rows after which a third of what was learned about delays is left."""

ENOUGH = 500
"""Rows that must have been seen before a delay is learned from them."""

WALL_CLOCK = "nothing: the wall clock goes on"
_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True)
class Sight:
    """What was seen of a topic: rows in each partition, how far each has come, and the rows' delays.

    How far: the newest event, or what the source says of itself; microseconds since 1970.
    """

    rows: Mapping[int, int] = field(default_factory=dict)
    reach: Mapping[int, int] = field(default_factory=dict)
    delays: Delays | None = None

    def __add__(self, other: "Sight") -> "Sight":
        partitions = {*self.rows, *other.rows}
        rows = {one: self.rows.get(one, 0) + other.rows.get(one, 0) for one in partitions}
        reach = dict(self.reach)
        for one, at in other.reach.items():
            reach[one] = max(at, reach.get(one, at))
        delays = self.delays + other.delays if self.delays and other.delays else self.delays or other.delays
        return Sight(rows, reach, delays)


class Reading(NamedTuple):
    """The watermark in milliseconds since 1970, and what keeps it from being further."""

    watermark: int
    held_by: str


@dataclass
class _Input:
    name: str
    topic: str
    heard_at: datetime
    partition: int | None = None
    reach: int | None = None


class EventClock:
    """The event time of one pipeline."""

    def __init__(
        self,
        spec: Watermark,
        topics: Mapping[str, int],
        now: datetime,
        *,
        grace: timedelta = NONE,
        floor: int = 0,
        by_partition: bool = False,
    ) -> None:
        self._spec, self._grace, self._began, self._floor = spec, grace, now, floor
        self._by_partition = by_partition or isinstance(spec, Punctuated)
        self._inputs: dict[str, _Input] = {}
        self._learned = dict.fromkeys(topics, Delays.none())
        for topic, partitions in topics.items():
            self._know(topic, range(partitions))

    def newest(self, topic: str) -> int | None:
        """The newest event of a topic so far, in microseconds since 1970."""
        found = [one.reach for one in self._inputs.values() if one.topic == topic and one.reach is not None]
        return max(found, default=None)

    def delay(self, topic: str) -> timedelta:
        """How long rows of a topic are waited for at present."""
        spec = self._spec
        if isinstance(spec, Punctuated):
            return self._grace
        if not isinstance(spec, Adaptive):
            return spec.delay + self._grace
        learned = self._learned[topic]
        found = learned.quantile(spec.quantile) if learned.rows >= ENOUGH else spec.at_most
        return min(max(found, spec.at_least), spec.at_most) + self._grace

    def advance(self, sights: Mapping[str, Sight], ends: Offsets, now: datetime) -> Reading:
        """The watermark after a batch; `ends` tells which partitions there are by now."""
        for topic in self._learned:
            self._know(topic, ends.get(topic, {}))
            if topic in sights:
                self._hear(topic, sights[topic], now)
        known = [one for one in self._inputs.values() if not self._has_nothing_to_say(one)]
        awake = [one for one in known if not self._is_idle(one, now)]
        if awake:
            slowest = min(awake, key=self._bound)
            found, held_by = self._bound(slowest), slowest.name
        else:
            found = max(*map(self._bound, known), self._by_wall_clock(now))
            held_by = WALL_CLOCK
        self._floor = max(self._floor, found)
        return Reading(self._floor, held_by)

    def resume(self, reach: Mapping[str, Mapping[int, int]], watermark: int) -> None:
        """Go on from where an earlier run was: how far each partition had come, and the watermark."""
        for topic, partitions in reach.items():
            self._know(topic, partitions)
            for partition, at in partitions.items():
                one = self._input(topic, partition)
                one.reach = max(at, one.reach or at)
        self._floor = max(self._floor, watermark)

    @property
    def reach(self) -> dict[str, dict[int, int]]:
        """How far each partition has come, where each says for itself."""
        found: dict[str, dict[int, int]] = {}
        for one in self._inputs.values():
            if one.reach is not None and one.partition is not None:
                found.setdefault(one.topic, {})[one.partition] = one.reach
        return found

    def is_silent(self, now: datetime) -> bool:
        """Whether every input is idle."""
        return all(self._is_idle(one, now) for one in self._inputs.values())

    def _know(self, topic: str, partitions: Mapping[int, int] | range) -> None:
        for one in partitions if self._by_partition else [None]:
            name = topic if one is None else f"{topic}[{one}]"
            self._inputs.setdefault(name, _Input(name, topic, self._began, one))

    def _input(self, topic: str, partition: int) -> _Input:
        return self._inputs[f"{topic}[{partition}]" if self._by_partition else topic]

    def _hear(self, topic: str, sight: Sight, now: datetime) -> None:
        for partition, rows in sight.rows.items():
            one = self._input(topic, partition)
            reach = sight.reach.get(partition)
            if rows:
                one.heard_at = now
            if reach is not None:
                one.reach = max(reach, one.reach or reach)
        if sight.delays is not None:
            faded = self._learned[topic].faded(sight.delays.rows, MEMORY)
            self._learned[topic] = faded + sight.delays

    def _is_idle(self, one: _Input, now: datetime) -> bool:
        return self._spec.idle is not None and now - one.heard_at >= self._spec.idle

    def _has_nothing_to_say(self, one: _Input) -> bool:
        """A partition without any event holds nothing back once another of its topic has some.

        Unless the source says itself how far each is.
        """
        is_punctuated = isinstance(self._spec, Punctuated)
        return one.reach is None and not is_punctuated and self.newest(one.topic) is not None

    def _bound(self, one: _Input) -> int:
        if one.reach is None:
            return 0
        return one.reach // 1000 - self.delay(one.topic) // _MILLISECOND

    def _by_wall_clock(self, now: datetime) -> int:
        return (now - EPOCH - max(map(self.delay, self._learned))) // _MILLISECOND
