"""Memory: a topic whose records stand in memory, handed to Spark as its Kafka source would hand them over.

Spark's own tests feed their queries in this way (MemoryStream). A record travels as a line of JSON, because
a text is what Python and Java agree on without ceremony. Everything behind it, the decoding, the judging and
the pipeline's own steps, is what runs in production.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater.app import Source
from headwater.errors import BadRehearsal
from headwater.log.topic import Topic

Fed = Mapping[str, Any] | str | bytes | None
"""A row, or what stands in the log as it is: text, bytes, or nothing at all."""

_KAFKA = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "headers array<struct<key: string, value: binary>>"
)


@dataclass(frozen=True)
class MemoryRecord:
    """One record, and where it stands."""

    topic: str
    partition: int
    offset: int
    appended_at: datetime
    key: bytes | None
    value: bytes | None

    @property
    def line(self) -> str:
        """As JSON."""
        return msgspec.json.encode(
            {
                "key": _text(self.key),
                "value": _text(self.value),
                "topic": self.topic,
                "partition": self.partition,
                "offset": self.offset,
                "timestamp": self.appended_at.isoformat(),
            }
        ).decode()


class MemoryTopic:
    """A topic in memory."""

    def __init__(self, source: Source, spark: SparkSession) -> None:
        self.topic = source.topic
        self.ends = dict.fromkeys(range(self.topic.partitions), 0)
        jvm: Any = spark._jvm  # noqa: SLF001 - Spark's sources for tests have no Python side
        self._spark, self._sequence = spark, jvm.PythonUtils.toSeq
        of_text = jvm.org.apache.spark.sql.Encoders.STRING()
        streams = jvm.org.apache.spark.sql.execution.streaming.runtime.MemoryStream
        self._stream = streams.apply(of_text, spark._jsparkSession)  # noqa: SLF001

    @property
    def raw(self) -> DataFrame:
        """The records as a stream, with the columns of Spark's Kafka source."""
        lines = DataFrame(self._stream.toDF(), self._spark)
        return lines.select(F.from_json("value", _KAFKA).alias("record")).select("record.*")

    def records(self, rows: Sequence[Fed], partition: int, at: datetime) -> list[MemoryRecord]:
        """The rows as records of a partition, appended at that moment."""
        if partition not in self.ends:
            raise BadRehearsal(
                f"topic {self.topic.name!r} has no partition {partition}",
                hint=f"it has {self.topic.partitions}, counted from 0",
            )
        first = self.ends[partition]
        self.ends[partition] += len(rows)
        return [
            MemoryRecord(self.topic.name, partition, offset, at, _key(self.topic, row), _value(row))
            for offset, row in enumerate(rows, start=first)
        ]

    def append(self, records: Sequence[MemoryRecord]) -> None:
        """Hand records over, all in one batch; none at all make an empty batch."""
        self._stream.addData(self._sequence([one.line for one in records]))


def _key(topic: Topic, row: Fed) -> bytes | None:
    found = row.get(topic.key) if isinstance(row, Mapping) and topic.key else None
    return found if isinstance(found, bytes | None) else str(found).encode()


def _value(row: Fed) -> bytes | None:
    match row:
        case bytes() | None:
            return row
        case str():
            return row.encode()
    return msgspec.json.encode(row)


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()
