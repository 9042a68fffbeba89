"""Settle: after a batch, the pipeline's group moves to its end; bad and late records become letters.

Letters and the group's place are committed in one Kafka transaction, so each bad record has one letter
whatever crashes when: the place tells up to where the letters are written. A batch without bad records
moves the place alone. Otherwise, and after a crash before the last move, the range from the group's
place to the batch's end is read again for its bad records. Late ones are found in the same way, batch by
batch, because each batch had its own watermark; the checkpoint tells which. Every move is fenced by the
transactional id, so that two drivers of one pipeline cannot both settle.
"""

import logging
from collections.abc import Mapping
from datetime import timedelta

from pyspark.sql import SparkSession

from headwater.app import Pipeline
from headwater.log.connection import Connection
from headwater.log.member import Partition
from headwater.log.positions import Positions
from headwater.log.transfer import Transfer
from headwater.run.divert import NO_WATERMARK, Diversion, Diverted
from headwater.run.history import History
from headwater.run.late import Stretch
from headwater.run.letters import Ranges
from headwater.run.progress import Offsets, Progress
from headwater.run.standing import Places, Standing
from headwater.run.witness import Told
from headwater.settings import Settings

AT_ONCE = 500_000
"""Offsets that one transaction covers at most, so that no number of letters outlasts it."""

SETTLE_WITHIN = timedelta(minutes=2)
"""How long a broker may be away before settling gives up (the next run catches up)."""

_LOGGER = logging.getLogger("headwater.dead")


class Settlement:
    """The settling of one pipeline; `label` is its name with its app's."""

    def __init__(
        self,
        label: str,
        pipeline: Pipeline,
        spark: SparkSession,
        settings: Settings,
        history: History,
        *,
        within: timedelta = SETTLE_WITHIN,
        has_letters: bool = True,
    ) -> None:
        self.lost = 0
        """Records that retention removed before they could be looked at again."""
        self._label, self._sources, self._within = label, pipeline.sources, within
        self._diverts_late = pipeline.late_topic is not None
        self._has_letters = has_letters
        self._history = history
        self._connection = Connection(settings)
        self._diversion = Diversion(label, pipeline, spark, settings)
        late_topic, has_run = pipeline.late_topic, history.exists
        self._standing = Standing(
            label, self._sources, self._connection, late_topic=late_topic, has_run=has_run
        )

    def starts(self) -> dict[str, dict[int, int]]:
        """Where the pipeline begins when it has no checkpoint: its group's place, kept from now on."""
        self._open()
        return {one.topic.name: self._kept(one.topic.name) for one in self._sources}

    @property
    def has_begun(self) -> bool:
        """Whether the pipeline has ever read, so that it must have a checkpoint."""
        self._open()
        return self._standing.has_moved

    def resume(self) -> Diverted:
        """Settle what an earlier run has finished and could not settle any more.

        Where the broker has forgotten the group's place, the last batch is taken for settled: it forgets
        after days, and a run dies between a batch and its settling in a moment.
        """
        self._open()
        newest = self._history.newest
        last = None if newest is None else self._history.batch(newest)
        if newest is None or last is None:
            return Diverted()
        ends = _flat(last.ends)
        self._move({one: at for one, at in ends.items() if one in self._standing.forgotten})
        if not self._has_letters:
            self._move(self._standing.behind(ends))
            return Diverted()
        return self._bury_all(newest, last.ends, {}, has_dead=True)  # as far as anybody knows

    def settle(self, progress: Progress, told: Mapping[str, Told] | None = None) -> Diverted:
        """Move the group to a batch's end, and write the letters of what was bad or late in it.

        Spark may lose its word on a batch; the next one then begins behind the group's place, and nobody
        knows whether what lies between was good.
        """
        self._open()
        told = told if told and progress.read <= told.keys() else {}
        is_good = not self._has_letters or (
            progress.is_clean and not self._standing.behind(_flat(progress.starts))
        )
        if is_good and not (self._diverts_late and progress.late):
            self._move(self._standing.behind(_flat(progress.ends)))
            return self._dropped(progress, told)
        found = self._bury_all(progress.batch, progress.ends, told, has_dead=not is_good)
        return found if self._diverts_late else found.plus(self._dropped(progress, told))

    def _dropped(self, progress: Progress, told: Mapping[str, Told]) -> Diverted:
        """The late rows of a batch, counted: nobody wants them."""
        if not progress.late:
            return Diverted()
        before = self._history.batch(progress.batch - 1)
        ranges = {
            topic: {one: (progress.starts.get(topic, {}).get(one, 0), end) for one, end in ends.items()}
            for topic, ends in progress.ends.items()
        }
        watermark = before.watermark if before else NO_WATERMARK
        return self._diversion.count(Stretch(ranges, watermark, told), progress.late)

    def close(self) -> None:
        """Let go of the broker."""
        self._standing.close()

    def _open(self) -> None:
        self._standing.patiently(lambda _: None, self._within)

    def _batches(self, number: int, ends: Offsets) -> list[tuple[Offsets, int]]:
        """The batches that are not settled: where each ends, and what its late rows were behind.

        A batch drops what is behind the watermark of the batch before it. Without a late topic, one stretch
        is as good as several.
        """
        if not self._diverts_late:
            return [(ends, NO_WATERMARK)]
        found: list[tuple[Offsets, int]] = []
        while True:
            before = self._history.batch(number - 1)
            found.append((ends, before.watermark if before else NO_WATERMARK))
            if before is None or not self._standing.behind(_flat(before.ends)):
                return found[::-1]
            number, ends = number - 1, before.ends

    def _move(self, places: Places) -> None:
        def move(transfer: Transfer) -> None:
            with transfer.transaction(places):
                pass
            self._standing.moved(places)

        if places:
            self._standing.patiently(move, self._within)

    def _bury_all(self, number: int, ends: Offsets, told: Mapping[str, Told], *, has_dead: bool) -> Diverted:
        """Letters and places up to a batch's end, in as many transactions as it takes.

        What the workers told is of that batch, and of none before it.
        """
        found = Diverted()
        for limit, watermark in self._batches(number, ends):
            known = told if limit is ends else {}
            while ahead := self._standing.behind(_flat(limit)):
                found = found.plus(self._bury(self._chunk(ahead), watermark, known, has_dead=has_dead))
        return found

    def _chunk(self, ahead: Places) -> Places:
        """As much of the way as one transaction covers."""
        share = max(1, AT_ONCE // len(ahead))
        return {where: min(end, self._standing.at(where) + share) for where, end in ahead.items()}

    def _bury(self, chunk: Places, watermark: int, told: Mapping[str, Told], *, has_dead: bool) -> Diverted:
        found = Diverted()

        def bury(transfer: Transfer) -> None:
            nonlocal found
            if not self._standing.behind(chunk):  # the commit before went through, only its answer was lost
                return
            ranges = {one.topic.name: self._ranges(one.topic.name, chunk) for one in self._sources}
            with transfer.transaction(chunk):
                found = self._diversion.write(transfer, Stretch(ranges, watermark, told), has_dead=has_dead)
            self._standing.moved(chunk)

        self._standing.patiently(bury, self._within)
        return found

    def _ranges(self, topic: str, chunk: Places) -> Ranges:
        """What of a topic is to be read again; what retention has taken is counted and told."""
        ends = {where.partition: end for where, end in chunk.items() if where.topic == topic}
        starts = {one: self._standing.at(Partition(topic, one)) for one in ends}
        first = Positions(self._connection).first(topic, ends)
        gone = sum(max(0, min(first[one], end) - starts[one]) for one, end in ends.items())
        if gone:
            self.lost += gone
            said = "%s: %d records of %s were removed before they could be looked at again"
            _LOGGER.warning(said, self._label, gone, topic)
        found = {one: (max(starts[one], first[one]), end) for one, end in ends.items()}
        return {one: (start, end) for one, (start, end) in found.items() if start < end}

    def _kept(self, topic: str) -> dict[int, int]:
        """The group's places in a topic, or what retention has left behind them."""
        places = self._standing.of(topic)
        first = Positions(self._connection).first(topic, places)
        return {one: max(at, first[one]) for one, at in places.items()}


def _flat(offsets: Offsets) -> Places:
    return {Partition(topic, one): at for topic, places in offsets.items() for one, at in places.items()}
