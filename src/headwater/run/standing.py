"""Standing: up to where a pipeline's records are settled, which is where its Kafka group stands.

The group is named as the pipeline, and no reader ever joins it. Its place is kept from the pipeline's
first start on, so that "the end" means the same moment for ever. A group that stands behind the log's end
belongs to a topic that was made anew, and starts over. A broker forgets a group that was not moved for long
(seven days by default); the pipeline's checkpoint then tells where it stood.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TypeVar

from headwater.app import Source
from headwater.clock import Deadline
from headwater.errors import HeadwaterError
from headwater.log.connection import Connection
from headwater.log.letter import dead_topic, prepare
from headwater.log.member import Partition
from headwater.log.positions import Beginning, End, Positions
from headwater.log.topics import Topics
from headwater.log.transfer import Transfer, may_pass

Places = dict[Partition, int]
_PAUSE = 0.1
T = TypeVar("T")


class Standing:
    """The place of a pipeline's group in each partition that it reads, and the only way to move it."""

    def __init__(
        self,
        pipeline: str,
        sources: Sequence[Source],
        connection: Connection,
        *,
        late_topic: str | None = None,
        has_run: bool = False,
    ) -> None:
        self._pipeline = pipeline
        self._sources = sources
        self._connection = connection
        self._transfer: Transfer | None = None
        self._places: Places = {}
        self._late_topic = late_topic
        self._has_run = has_run
        self.forgotten: set[Partition] = set()
        """Where the pipeline has run, by its checkpoint, and the broker knows no place of its group."""

    def open(self) -> Transfer:
        """Fence older drivers of this pipeline and look where the group stands; done once."""
        if self._transfer is None:
            topics = Topics(self._connection)
            largest = max(self._prepared(topics, one.topic.name) for one in self._sources)
            name = dead_topic(self._pipeline)
            transfer = Transfer(self._connection, name, group=self._pipeline, largest=largest)
            self._places = self._look(transfer, topics)
            self._transfer = transfer
        return self._transfer

    def close(self) -> None:
        """Let go of the broker; the next `open` looks again."""
        if self._transfer is not None:
            self._transfer.close()
            self._transfer = None

    def at(self, where: Partition) -> int:
        """The place in a partition; one that was added later is read from its beginning."""
        return self._places.get(where, 0)

    @property
    def has_moved(self) -> bool:
        """Whether the group has ever gone on from where it was first placed."""
        return bool(self._places.keys() - self.open().unmoved)

    def of(self, topic: str) -> dict[int, int]:
        """The places in a topic."""
        return {where.partition: at for where, at in self._places.items() if where.topic == topic}

    def behind(self, ends: Mapping[Partition, int]) -> Places:
        """Those of these ends that are not reached yet."""
        return {where: end for where, end in ends.items() if self.at(where) < end}

    def moved(self, places: Places) -> None:
        """Know that a transaction has moved the group."""
        self._places |= places

    def patiently(self, step: Callable[[Transfer], T], within: timedelta) -> T:
        """Take a step; anew, after a new look, while the broker is away or an answer of its was lost."""
        deadline = Deadline(within)
        while True:
            try:
                return step(self.open())
            except HeadwaterError as error:
                self.close()
                self._connection.renew()
                if deadline.passed or not may_pass(error):
                    raise
                time.sleep(_PAUSE)

    def _prepared(self, topics: Topics, topic: str) -> int:
        """See to the topics that letters of this one go to; tells how large they may be."""
        largest = prepare(topics, topic)
        return max(largest, prepare(topics, topic, self._late_topic)) if self._late_topic else largest

    def _look(self, transfer: Transfer, topics: Topics) -> Places:
        found: Places = {}
        for one in self._sources:
            found |= self._placed(transfer, one, range(topics.partitions(one.topic.name)))
        return found

    def _placed(self, transfer: Transfer, source: Source, partitions: range) -> Places:
        topic = source.topic.name
        known = transfer.committed(Partition(topic, one) for one in partitions)
        ends = Positions(self._connection).end(topic, partitions)
        kept = {where: at for where, at in known.items() if at <= ends[where.partition]}
        first = self._first(source, partitions, is_new=not (kept or self._has_run))
        new = {where: at for where, at in first.items() if where not in kept}
        if self._has_run:  # its place is in its checkpoint
            self.forgotten |= new.keys()
        elif new:
            transfer.place(new)
        return kept | new

    def _first(self, source: Source, partitions: range, *, is_new: bool) -> Places:
        """Where reading begins; partitions that were added later are read whole."""
        start = End() if is_new and source.start == "end" else Beginning()
        found = Positions(self._connection).resolve(source.topic.name, partitions, start)
        return {Partition(source.topic.name, one): at for one, at in found.items()}
