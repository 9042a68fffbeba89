"""Divert: a stretch of a pipeline's topics looked through, for the records that left its way.

The bad ones go to `<topic>.dead`, the late ones to the pipeline's late topic, all in one transaction that
somebody else begins and ends.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

from pyspark.sql import SparkSession

from headwater.app import Pipeline, Source
from headwater.errors import BadPipeline
from headwater.log.connection import Connection
from headwater.log.late_letter import LateLetter
from headwater.log.letter import Letter, dead_topic
from headwater.log.topics import Topics
from headwater.log.transfer import Transfer
from headwater.run.late import LateRows, Stretch, Window
from headwater.run.letters import BadRecords, Ranges
from headwater.settings import Settings

NO_WATERMARK = 0
"""Nothing can be late yet."""


@dataclass(frozen=True)
class Diverted:
    """How many records went to which side, and how many of the late ones each window missed."""

    dead: int = 0
    late: int = 0
    windows: Counter[Window] = field(default_factory=Counter)

    def plus(self, other: "Diverted") -> "Diverted":
        """Both."""
        return Diverted(self.dead + other.dead, self.late + other.late, self.windows + other.windows)


class Diversion:
    """The dead and late records of one pipeline; `label` is its name with its app's."""

    def __init__(self, label: str, pipeline: Pipeline, spark: SparkSession, settings: Settings) -> None:
        self._sources = pipeline.sources
        self._topics = Topics(Connection(settings))
        self._bad = BadRecords(label, pipeline, spark, settings)
        self._open = partial(LateRows, label, pipeline, spark, settings)
        self._late_topic = pipeline.late_topic
        self._late = self._open() if self._late_topic else None
        self._can_count = True

    def write(self, transfer: Transfer, batch: Stretch, *, has_dead: bool) -> Diverted:
        """Write the letters of a stretch."""
        sources = self._sources if has_dead else ()
        dead = sum(self._dead(transfer, one, batch.ranges[one.topic.name]) for one in sources)
        if self._late is None or self._late_topic is None or batch.watermark == NO_WATERMARK:
            return Diverted(dead)
        windows = Counter[Window]()
        letters = (_counted(one, windows) for one in self._late.find(batch))
        return Diverted(dead, self._written(transfer, self._late_topic, letters), windows)

    def count(self, batch: Stretch, dropped: int) -> Diverted:
        """How many rows were late, when nobody wants them; Spark's own figure if they cannot be told."""
        if not self._can_count or not batch.is_told:
            return Diverted(0, dropped)
        try:
            self._late = self._late or self._open()
            return Diverted(0, *self._late.count(batch))
        except BadPipeline:  # a step hides where rows come from
            self._can_count = False
            return Diverted(0, dropped)

    def _dead(self, transfer: Transfer, source: Source, ranges: Ranges) -> int:
        if not ranges:
            return 0
        return self._written(transfer, dead_topic(source.topic.name), self._bad.find(source, ranges))

    def _written(self, transfer: Transfer, topic: str, letters: Iterable[Letter]) -> int:
        count, partitions = 0, self._topics.partitions(topic)
        for count, letter in enumerate(letters, start=1):  # noqa: B007 - it is returned
            transfer.append(
                topic,
                key=letter.key,
                value=letter.value,
                headers=letter.written_headers(),
                partition=letter.partition % partitions,  # so that they stand in their old order
            )
        return count


def _counted(letter: LateLetter, windows: Counter[Window]) -> LateLetter:
    windows.update(letter.missed)
    return letter
