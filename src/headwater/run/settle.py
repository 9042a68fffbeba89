"""Settle: after a batch, the pipeline's group moves to its end, and its bad records become dead letters.

Letters and the group's place are committed in one Kafka transaction, so each bad record has one letter
whatever crashes when: the place tells up to where the letters are written. A batch without bad records
moves the place alone. Otherwise, and after a crash before the last move, the range from the group's
place to the batch's end is read again for its bad records; no checkpoint file is ever read. Every move is
fenced by the transactional id, so that two drivers of one pipeline cannot both settle.
"""

import logging
from collections.abc import Iterable, Sequence
from datetime import timedelta

from pyspark.sql import SparkSession

from headwater.app import Source
from headwater.log.connection import Connection
from headwater.log.letter import Letter, dead_topic
from headwater.log.member import Partition
from headwater.log.positions import Positions
from headwater.log.topics import Topics
from headwater.log.transfer import Transfer
from headwater.run.letters import Ranges, bad_in_real_time, bad_records
from headwater.run.progress import Offsets
from headwater.run.standing import Places, Standing
from headwater.settings import Settings

AT_ONCE = 500_000
"""Offsets that one transaction covers at most, so that no number of letters outlasts it."""

SETTLE_WITHIN = timedelta(minutes=2)
"""How long a broker may be away before settling gives up (the next run catches up)."""

_LOGGER = logging.getLogger("headwater.dead")


class Settlement:
    """The settling of one pipeline (`app.pipeline`)."""

    def __init__(
        self,
        pipeline: str,
        sources: Sequence[Source],
        spark: SparkSession,
        settings: Settings,
        *,
        in_real_time: bool = False,
        has_run: bool = False,
        within: timedelta = SETTLE_WITHIN,
    ) -> None:
        self.lost = 0
        """Records that retention removed before they could be looked at again."""
        self._pipeline = pipeline
        self._sources = sources
        self._spark, self._settings, self._within = spark, settings, within
        self._in_real_time = in_real_time
        self._connection = Connection(settings)
        self._standing = Standing(pipeline, sources, self._connection, has_run=has_run)

    def starts(self) -> dict[str, dict[int, int]]:
        """Where the pipeline begins when it has no checkpoint: its group's place, kept from now on."""
        self._open()
        return {one.topic.name: self._kept(one.topic.name) for one in self._sources}

    @property
    def has_begun(self) -> bool:
        """Whether the pipeline has ever read, so that it must have a checkpoint."""
        self._open()
        return self._standing.has_moved

    def catch_up(self, starts: Offsets) -> None:
        """Stand at a checkpoint's place when the broker has forgotten the group's."""
        self._open()
        missed = {one: at for one, at in _flat(starts).items() if one in self._standing.forgotten}
        if ahead := self._standing.behind(missed):
            self._move(ahead)
        self._standing.forgotten.clear()

    def is_at(self, starts: Offsets) -> bool:
        """Whether everything before these offsets is settled."""
        self._open()
        return not self._standing.behind(_flat(starts))

    def settle(self, ends: Offsets, *, clean: bool) -> int:
        """Move the group to a batch's end; tells how many letters were written.

        `clean` says that the batch had no bad record and that everything before it is settled.
        """
        self._open()
        written, limit = 0, _flat(ends)
        while ahead := self._standing.behind(limit):
            written += self._move(ahead) if clean else self._bury(self._chunk(ahead))
        return written

    def close(self) -> None:
        """Let go of the broker."""
        self._standing.close()

    def _open(self) -> None:
        self._standing.patiently(lambda _: None, self._within)

    def _chunk(self, ahead: Places) -> Places:
        """As much of the way as one transaction covers."""
        share = max(1, AT_ONCE // len(ahead))
        return {where: min(end, self._standing.at(where) + share) for where, end in ahead.items()}

    def _move(self, places: Places) -> int:
        def move(transfer: Transfer) -> None:
            with transfer.transaction(places):
                pass
            self._standing.moved(places)

        self._standing.patiently(move, self._within)
        return 0

    def _bury(self, chunk: Places) -> int:
        """Letters and places in one transaction; tells how many letters it has."""
        sent = 0

        def bury(transfer: Transfer) -> int:
            nonlocal sent
            if not self._standing.behind(chunk):  # the commit before went through, only its answer was lost
                return sent
            sent = 0
            with transfer.transaction(chunk):
                for one in self._sources:
                    sent += self._write(transfer, one, chunk)
            self._standing.moved(chunk)
            return sent

        return self._standing.patiently(bury, self._within)

    def _write(self, transfer: Transfer, source: Source, chunk: Places) -> int:
        topic, count = dead_topic(source.topic.name), 0
        ranges = self._ranges(source.topic.name, chunk)
        partitions = Topics(self._connection).partitions(topic)
        for count, letter in enumerate(self._found(source, ranges), start=1):  # noqa: B007 - it is returned
            transfer.append(
                topic,
                key=letter.key,
                value=letter.value,
                headers=letter.written_headers(),
                partition=letter.partition % partitions,  # so that they stand in their old order
            )
        return count

    def _found(self, source: Source, ranges: Ranges) -> Iterable[Letter]:
        if not ranges:
            return ()
        if self._in_real_time:
            return bad_in_real_time(self._spark, source, ranges, self._settings, self._pipeline)
        return bad_records(self._spark, source.topic, ranges, self._settings, self._pipeline)

    def _ranges(self, topic: str, chunk: Places) -> Ranges:
        """What of a topic is to be read again; what retention has taken is counted and told."""
        ends = {where.partition: end for where, end in chunk.items() if where.topic == topic}
        starts = {one: self._standing.at(Partition(topic, one)) for one in ends}
        first = Positions(self._connection).first(topic, ends)
        gone = sum(max(0, min(first[one], end) - starts[one]) for one, end in ends.items())
        if gone:
            self.lost += gone
            said = "%s: %d records of %s were removed before they could be looked at again"
            _LOGGER.warning(said, self._pipeline, gone, topic)
        found = {one: (max(starts[one], first[one]), end) for one, end in ends.items()}
        return {one: (start, end) for one, (start, end) in found.items() if start < end}

    def _kept(self, topic: str) -> dict[int, int]:
        """The group's places in a topic, or what retention has left behind them."""
        places = self._standing.of(topic)
        first = Positions(self._connection).first(topic, places)
        return {one: max(at, first[one]) for one, at in places.items()}


def _flat(offsets: Offsets) -> Places:
    return {Partition(topic, one): at for topic, places in offsets.items() for one, at in places.items()}
