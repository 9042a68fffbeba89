"""Late rows: the records that Spark dropped from a batch, found again, with the windows that they missed.

Spark tells that rows were late, not which. So the batch's range is read once more, the part of the
pipeline's own plan in front of its state runs over it, and the rows behind the watermark are kept, each with
the record that it was made of. No late rows, no second reading.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce
from itertools import groupby
from operator import itemgetter

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from headwater.app import Pipeline, Source
from headwater.clock import EPOCH
from headwater.log.late_letter import LateLetter
from headwater.log.letter import instant
from headwater.log.topic import Topic
from headwater.run.decode import RECORD, Blocks, without_deletions
from headwater.run.judge import RegistryAddress, judge_of
from headwater.run.letters import WHOLE, Ranges, of_record, read_again
from headwater.run.lineage import CARRIED, Carrier, Gate, gates, marked
from headwater.run.plan import applied, blamed
from headwater.settings import Settings

_PLACE = ("topic", "partition", "offset")
_WINDOW = ("opens_at", "closes_at")
_HEADER = spark.StructType(
    [spark.StructField("key", spark.StringType()), spark.StructField("value", spark.BinaryType())]
)
_CARRIED = spark.StructType(
    [
        spark.StructField("topic", spark.StringType()),
        spark.StructField("partition", spark.IntegerType()),
        spark.StructField("offset", spark.LongType()),
        spark.StructField("millis", spark.LongType()),
        spark.StructField("key", spark.BinaryType()),
        spark.StructField("value", spark.BinaryType()),
        spark.StructField("headers", spark.ArrayType(_HEADER)),
        spark.StructField("event_at", spark.LongType()),
    ]
)


class LateRows:
    """The late records of one pipeline (`app.pipeline`); BadPipeline if they could not be told."""

    def __init__(self, label: str, pipeline: Pipeline, spark: SparkSession, settings: Settings) -> None:
        self.topic = pipeline.late_topic or ""
        self._label, self._pipeline, self._settings = label, pipeline, settings
        self._spark = spark.newSession()  # its SQL has the topics as tables, and they are others here
        self._carrier = Carrier(self._spark)
        for gate in self._gates({}):
            self._carrier.at(gate)

    def find(self, ranges: Mapping[str, Ranges], watermark: int) -> Iterator[LateLetter]:
        """The records of these ranges that were behind the watermark (milliseconds since 1970)."""
        late = [self._behind(gate, watermark) for gate in self._gates(ranges, watermark)]
        if not late:
            return
        together = reduce(DataFrame.unionAll, late).repartition(*_PLACE[:2]).sortWithinPartitions(*_PLACE)
        rows = together.toLocalIterator(prefetchPartitions=True)
        for _, some in groupby(rows, key=itemgetter(*_PLACE)):
            yield self._letter(list(some), watermark)

    def _gates(self, ranges: Mapping[str, Ranges], watermark: int = 0) -> list[Gate]:
        sources = self._pipeline.sources
        tables = [self._table(one, ranges.get(one.topic.name, {}), watermark) for one in sources]
        with blamed(self._pipeline):
            return gates(applied(self._pipeline, self._spark, tables))

    def _table(self, source: Source, ranges: Ranges, watermark: int) -> DataFrame:
        topic, registry = source.topic, RegistryAddress.of(source.topic, self._settings)
        decode = LateCandidates(topic, registry, self._pipeline.future, watermark)
        if ranges:
            raw = read_again(self._spark, topic.name, ranges, self._settings)
            rows = raw.select(*WHOLE).mapInArrow(decode, decode.schema)
        else:
            rows = self._spark.createDataFrame([], decode.schema)
        if source.record:
            rows = rows.withColumn("_record", _record())
        return marked(rows.drop(CARRIED), topic.event_time or "")

    def _behind(self, gate: Gate, watermark: int) -> DataFrame:
        rows = self._carrier.at(gate)
        is_window = isinstance(rows.schema["closes"].dataType, spark.StructType)
        closes = F.col("closes.end" if is_window else "closes").cast("timestamp")
        window = [_micros("closes.start"), _micros("closes.end")] if is_window else [F.lit(None)] * 2
        ends = [one.cast("bigint").alias(name) for one, name in zip(window, _WINDOW, strict=True)]
        return rows.where(closes <= F.timestamp_millis(F.lit(watermark))).select("record.*", *ends)

    def _letter(self, rows: list[Row], watermark: int) -> LateLetter:
        first, windows = rows[0], {tuple(row[one] for one in _WINDOW) for row in rows}
        return LateLetter(
            **of_record(first, first["topic"]),
            pipeline=self._label,
            event_at=_moment(first["event_at"]),
            watermark=instant(watermark),
            missed=tuple((_moment(start), _moment(end)) for start, end in sorted(windows) if end is not None),
        )


@dataclass(frozen=True)
class LateCandidates:
    """The function that decodes the good records of a topic that can be late, and keeps each beside its row.

    What happened after the watermark is in no window that ended before it.
    """

    topic: Topic
    registry: RegistryAddress
    future: timedelta | None
    watermark: int

    @property
    def schema(self) -> spark.StructType:
        """The topic's columns, and the record."""
        fields = [spark.StructField(one.name, one.dataType) for one in self.topic.spark_schema.fields]
        return spark.StructType([*fields, spark.StructField(CARRIED, _CARRIED)])

    def __call__(self, blocks: Blocks) -> Blocks:
        """Decode, block by block."""
        judge = judge_of(self.topic, self.registry, self.future)
        judge.forget()
        for whole in blocks:
            block = without_deletions(whole, self.topic)
            columns, reasons = judge.columns(block["value"], block["millis"])
            events = columns[self._event_column].view(pa.int64())
            arrays = [*columns, self._record(block, events)]
            made = pa.RecordBatch.from_arrays(arrays, self.schema.names)
            if reasons is not None:
                is_good = pa.array([not one for one in reasons])
                made, events = made.filter(is_good), events.filter(is_good)
            yield made.filter(pa.array(events.to_numpy() <= self.watermark * 1000))

    @property
    def _event_column(self) -> int:
        return self.topic.spark_schema.names.index(self.topic.event_time or "")

    def _record(self, block: pa.RecordBatch, events: pa.Array) -> pa.Array:
        topics = pa.array([self.topic.name] * len(block), pa.string())
        arrays = [topics, *(block[one] for one in WHOLE), events]
        return pa.StructArray.from_arrays(arrays, _CARRIED.names)


def _record() -> Column:
    """The column `_record`, as pipelines have it, from the record that is carried along."""
    columns = {"timestamp": F.timestamp_millis(f"{CARRIED}.millis")}
    return F.struct(*(columns.get(one, F.col(f"{CARRIED}.{one}")).alias(one) for one in RECORD.names))


def _micros(column: str) -> Column:
    return F.unix_micros(F.col(column).cast("timestamp"))


def _moment(micros: int) -> datetime:
    return EPOCH + timedelta(microseconds=micros)
