"""Letters: a range of a topic read once more, as a batch job, for the records that were bad.

The executors judge as they did when the range was first read, and send only the bad ones to the driver,
one piece of the range at a time.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headwater.app import Pipeline, Source
from headwater.log.connection import Connection
from headwater.log.letter import Letter
from headwater.log.topic import Topic
from headwater.run.carried import WHOLE, of_record
from headwater.run.decode import DEAD, Blocks, with_millis, without_deletions
from headwater.run.judge import RegistryAddress, judge_of
from headwater.run.realtime_json import KEPT, marked_in_jvm
from headwater.settings import Settings

Ranges = Mapping[int, tuple[int, int]]
"""From where to where in each partition."""

PIECE = 100_000
"""Records that one task looks at: bounds what the driver holds when all of them are bad."""

ONLY_IN_REAL_TIME = "real time cannot read it, though micro-batches can"
_SCHEMA = (
    "partition int, offset bigint, millis bigint, key binary, value binary, "
    "headers array<struct<key: string, value: binary>>, reason string"
)


class BadRecords:
    """The bad records of one pipeline (`app.pipeline`)."""

    def __init__(self, label: str, pipeline: Pipeline, spark: SparkSession, settings: Settings) -> None:
        self._label, self._pipeline, self._spark, self._settings = label, pipeline, spark, settings

    def find(self, source: Source, ranges: Ranges) -> Iterator[Letter]:
        """Those of these ranges of a topic as letters, each partition's in their order."""
        topic, future = source.topic, self._pipeline.future
        given = topic, RegistryAddress.of(topic, self._settings), future
        raw = read_again(self._spark, topic.name, ranges, self._settings)
        if self._pipeline.latency == "real-time":  # bad is what the JVM left out, and the codec says why
            bad = marked_in_jvm(raw, source, keep=WHOLE, future=future).where(DEAD).select(f"{KEPT}.*")
            found = bad.mapInArrow(Reasons(*given), _SCHEMA)
        else:
            found = raw.select(*WHOLE).mapInArrow(BadOnes(*given), _SCHEMA)
        for row in found.toLocalIterator():
            yield Letter(**of_record(row, topic.name), reason=row["reason"], pipeline=self._label)


@dataclass(frozen=True)
class BadOnes:
    """The function that keeps the bad records of a topic and says why, for DataFrame.mapInArrow."""

    topic: Topic
    registry: RegistryAddress
    future: timedelta | None = None

    def __call__(self, blocks: Blocks) -> Blocks:
        """Judge, block by block."""
        judge = judge_of(self.topic, self.registry, self.future)
        judge.forget()
        for whole in blocks:
            block = without_deletions(whole, self.topic)
            reasons = judge.columns(block["value"], block["millis"]).reasons
            if reasons is not None:
                told = block.append_column("reason", pa.array(reasons, pa.string()))
                yield told.filter(pa.array([bool(one) for one in reasons]))


@dataclass(frozen=True)
class Reasons:
    """The function that says of bad records why they are bad, for DataFrame.mapInArrow."""

    topic: Topic
    registry: RegistryAddress
    future: timedelta | None = None

    def __call__(self, blocks: Blocks) -> Blocks:
        """Ask the codec, block by block; it may find nothing wrong with what real time cannot read."""
        judge = judge_of(self.topic, self.registry, self.future)
        judge.forget()
        for block in blocks:
            reasons = judge.columns(block["value"], block["millis"]).reasons or [""] * len(block)
            told = [one or ONLY_IN_REAL_TIME for one in reasons]
            yield block.append_column("reason", pa.array(told, pa.string()))


def read_again(spark: SparkSession, topic: str, ranges: Ranges, settings: Settings) -> DataFrame:
    """The records of these ranges, as a batch; WHOLE names their columns."""
    starts = {str(one): start for one, (start, _) in ranges.items()}
    ends = {str(one): end for one, (_, end) in ranges.items()}
    pieces = sum(-(-(end - start) // PIECE) for start, end in ranges.values())
    options = {
        "assign": json.dumps({topic: list(ranges)}),
        "startingOffsets": json.dumps({topic: starts}),
        "endingOffsets": json.dumps({topic: ends}),
        "minPartitions": str(pieces),
        "includeHeaders": "true",
        "failOnDataLoss": "false",  # what retention took by now was counted as lost, and is no reason to stop
        "kafka.isolation.level": "read_committed",
    }
    raw = spark.read.format("kafka").options(**options, **Connection(settings).for_spark()).load()
    return with_millis(raw)
