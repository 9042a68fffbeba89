"""Divert: a stretch of a pipeline's topics looked through again, for the records that left its way.

The bad ones go to `<topic>.dead`, the late ones to the pipeline's late topic, all in one transaction that
somebody else begins and ends.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pyspark.sql import SparkSession

from headwater.app import Pipeline, Source
from headwater.log.connection import Connection
from headwater.log.letter import Letter, dead_topic
from headwater.log.topics import Topics
from headwater.log.transfer import Transfer
from headwater.run.late import LateRows
from headwater.run.letters import BadRecords, Ranges
from headwater.settings import Settings

NO_WATERMARK = 0
"""Nothing can be late yet."""


class Diverted(NamedTuple):
    """How many records went to which side."""

    dead: int = 0
    late: int = 0


class Diversion:
    """The dead and late letters of one pipeline; `label` is its name with its app's."""

    def __init__(self, label: str, pipeline: Pipeline, spark: SparkSession, settings: Settings) -> None:
        self._sources = pipeline.sources
        self._topics = Topics(Connection(settings))
        self._bad = BadRecords(label, pipeline, spark, settings)
        self._late = LateRows(label, pipeline, spark, settings) if pipeline.late_topic else None

    def write(
        self, transfer: Transfer, ranges: Mapping[str, Ranges], watermark: int, *, has_dead: bool
    ) -> Diverted:
        """Write the letters of these ranges; what is behind the watermark was late."""
        sources = self._sources if has_dead else ()
        dead = [self._dead(transfer, one, ranges[one.topic.name]) for one in sources]
        late = 0
        if self._late is not None and watermark != NO_WATERMARK:
            late = self._written(transfer, self._late.topic, self._late.find(ranges, watermark))
        return Diverted(sum(dead), late)

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
