"""Decode: a topic's records into Spark's columns, on the executors, with the bad ones marked and counted.

Spark hands over blocks of records as Arrow and gets blocks of columns back; who is bad is the judge's
word. The bad ones are counted with `observe`, which costs nothing, and filtered away: what becomes of
them is settled after the batch, and only when there were any.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from headwater.app import Source
from headwater.errors import BadPipeline
from headwater.log.formats.changes import POSITION
from headwater.log.topic import Topic
from headwater.run.carried import CARRIED, WHOLE
from headwater.run.columns import INSTANT
from headwater.run.judge import RegistryAddress, judge_of
from headwater.run.witness import Watch
from headwater.settings import Settings

DEAD = "_dead"
_MILLIS = pa.timestamp("ms", "UTC")
RECORD = spark.StructType(
    [
        spark.StructField("key", spark.BinaryType()),
        spark.StructField("partition", spark.IntegerType()),
        spark.StructField("offset", spark.LongType()),
        spark.StructField("timestamp", spark.TimestampType()),
    ]
)
"""The column `_record`: where a row stood in the log."""

Blocks = Iterator[pa.RecordBatch]


def parsed(
    raw: DataFrame,
    source: Source,
    settings: Settings,
    future: timedelta | None = None,
    watch: Watch | None = None,
) -> DataFrame:
    """The rows of a topic, from Spark's Kafka source; the bad ones are counted and left out.

    The observed metric is called `dead.<topic>` and has two figures: `dead`, and `seen`, which is how
    many records were judged. A batch whose rows nobody read (a sink that knew it already) has seen none,
    and so its `dead` says nothing.
    """
    if DEAD in source.topic.spark_schema.names:
        raise BadPipeline(f"topic {source.topic.name!r} has a column {DEAD}, a name that is taken")
    decode = decoder(source.topic, settings, record=source.record, future=future, watch=watch)
    found = with_millis(raw).select(*decode.needs).mapInArrow(decode, decode.schema)
    counts = F.count_if(DEAD).alias("dead"), F.count(F.lit(1)).alias("seen")
    return found.observe(f"dead.{source.topic.name}", *counts).where(~F.col(DEAD)).drop(DEAD)


def with_millis(raw: DataFrame) -> DataFrame:
    """Kafka's records with when each was appended, in milliseconds since 1970."""
    return raw.withColumn("millis", F.unix_millis("timestamp"))


def decoder(
    topic: Topic,
    settings: Settings,
    *,
    record: bool,
    future: timedelta | None = None,
    watch: Watch | None = None,
) -> "Decoder":
    """The function that decodes a topic's records, for DataFrame.mapInArrow."""
    return Decoder(topic, RegistryAddress.of(topic, settings), record, future, watch)


@dataclass(frozen=True)
class Decoder:
    """Blocks of the columns that it `needs` in, blocks of the topic's columns out."""

    topic: Topic
    registry: RegistryAddress
    record: bool
    future: timedelta | None = None
    watch: Watch | None = None

    @property
    def needs(self) -> list[str]:
        """The columns of the record that go in."""
        wanted = {"value", *(self.watch.needs if self.watch else ())}
        wanted |= {"key", "partition", "offset", "millis"} if self.record else set()
        wanted |= {"millis"} if self.future is not None else set()
        wanted |= {"offset"} if self._tells_position else set()
        return [one for one in WHOLE if one in wanted]

    @property
    def _tells_position(self) -> bool:
        """Whether the records' places in the log are a column of the topic."""
        return self.topic.format == "changes"

    @property
    def schema(self) -> spark.StructType:
        """The columns that come out: the topic's, `_record` if it is wanted, and whether it is dead."""
        fields = [spark.StructField(one.name, one.dataType) for one in self.topic.spark_schema.fields]
        fields += [spark.StructField("_record", RECORD)] * self.record
        return spark.StructType([*fields, spark.StructField(DEAD, spark.BooleanType(), nullable=False)])

    def __call__(self, blocks: Blocks) -> Blocks:
        """Decode, block by block."""
        judge_of(self.topic, self.registry, self.future).forget()
        for block in blocks:
            with _no_collector():
                made = self._decoded(block)
            yield made

    def _decoded(self, block: pa.RecordBatch) -> pa.RecordBatch:
        block = without_deletions(block, self.topic)
        appended = None if self.future is None else block["millis"]
        columns, reasons = judge_of(self.topic, self.registry, self.future).columns(block["value"], appended)
        if self._tells_position:
            columns[self.topic.spark_schema.names.index(POSITION)] = block["offset"]
        if self.watch is not None:
            self.watch.saw(block, columns, reasons)
        dead = [False] * len(block) if reasons is None else [bool(one) for one in reasons]
        around = [_record(block)] if self.record else []
        return pa.RecordBatch.from_arrays([*columns, *around, pa.array(dead)], self.schema.names)


def without_deletions(block: pa.RecordBatch, topic: Topic) -> pa.RecordBatch:
    """The block without records that delete a key of a compacted topic: no rows, and nothing bad."""
    if topic.compacted and block["value"].null_count:
        return block.filter(block["value"].is_valid())
    return block


def _record(block: pa.RecordBatch) -> pa.Array:
    arrays = [block["key"], block["partition"], block["offset"], block["millis"].cast(_MILLIS).cast(INSTANT)]
    return pa.StructArray.from_arrays(arrays, RECORD.names)


def record_column() -> Column:
    """The column `_record`, as pipelines have it, from the record that is carried along."""
    columns = {"timestamp": F.timestamp_millis(f"{CARRIED}.millis")}
    return F.struct(*(columns.get(one, F.col(f"{CARRIED}.{one}")).alias(one) for one in RECORD.names))


@contextmanager
def _no_collector() -> Iterator[None]:
    """A block's rows live together and die together: looking for garbage among them is lost time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
