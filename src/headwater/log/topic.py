"""Topic: a named, partitioned, ordered log of records, as a frozen spec.

A Topic says what stands in the log (schema, key, event time, format) and how the log keeps it
(partitions, retention, compaction). It is checked when it is made and needs no broker and no Spark.
"""

import re
from dataclasses import dataclass, field, fields
from datetime import timedelta
from functools import cached_property
from typing import Literal

import msgspec
from pyspark.sql import types as spark

from headwater.errors import SpecError
from headwater.log.schema import parse_schema, row_type

Format = Literal["json", "json-schema", "avro", "protobuf", "changes"]
"""json is plain text, changes what captured tables are written in; the others carry a schema's id."""

FORMATS: tuple[Format, ...] = ("json", "json-schema", "avro", "protobuf", "changes")
PLAIN: tuple[Format, ...] = ("json", "changes")
"""Formats that need no registry."""

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_KEYS = (
    spark.StringType,
    spark.BinaryType,
    spark.ByteType,
    spark.ShortType,
    spark.IntegerType,
    spark.LongType,
)
WEEK = timedelta(days=7)
LARGEST_CHANGE = 8_000_000
"""Bytes of one change of a captured table: a database takes larger rows than Kafka does by default."""


@dataclass(frozen=True, kw_only=True)
class Retention:
    """How long records stay: by age since they were appended, and by bytes in each partition."""

    age: timedelta | None = WEEK
    bytes: int | None = None

    def __post_init__(self) -> None:
        if self.age is not None and self.age <= timedelta(0):
            raise SpecError("retention's age must be positive", hint="age=None keeps records for ever")
        if self.bytes is not None and self.bytes <= 0:
            raise SpecError("retention's bytes must be positive", hint="bytes=None sets no limit by size")


FOREVER = Retention(age=None)


@dataclass(frozen=True)
class Topic:
    """A topic as its users agree on it.

    Records with the same key stand in the same partition, in the order in which they were
    appended; without a key they go round the partitions. `event_time` names the column that says
    when a thing happened; the log's own timestamps say when it was appended.
    """

    name: str
    schema: str = field(kw_only=True)
    key: str | None = field(default=None, kw_only=True)
    event_time: str | None = field(default=None, kw_only=True)
    partitions: int = field(default=1, kw_only=True)
    retention: Retention | None = field(default=None, kw_only=True)
    compacted: bool = field(default=False, kw_only=True)
    format: Format = field(default="json", kw_only=True)

    def __post_init__(self) -> None:
        check_name(self.name)
        _ = self.spark_schema  # a schema that cannot be read is refused here
        self._check_key()
        self._check_event_time()
        if self.partitions < 1:
            raise SpecError(f"topic {self.name!r} needs at least one partition, not {self.partitions}")
        if self.format not in FORMATS:
            raise SpecError(f"{self.format!r} is not a format", hint=f"known: {', '.join(FORMATS)}")

    def __getstate__(self) -> dict[str, object]:
        """Its fields alone: what is derived from them is made anew where it arrives."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @cached_property
    def spark_schema(self) -> spark.StructType:
        """The columns as Spark sees them."""
        return parse_schema(self.schema)

    @cached_property
    def row(self) -> type[msgspec.Struct]:
        """The frozen class of this topic's rows: `PAYMENTS.row(card="42", amount=9.5)`."""
        return row_type(self.spark_schema, "".join(re.findall(r"\w+", self.name.title())) or "Row")

    @property
    def config(self) -> dict[str, str]:
        """The topic's settings as Kafka names them."""
        kept = self.retention or (FOREVER if self.compacted else Retention())
        delete = not self.compacted or self.retention is not None
        policies = ["compact"] * self.compacted + ["delete"] * delete
        return {
            "cleanup.policy": ",".join(policies),
            "retention.ms": "-1" if kept.age is None else str(kept.age // timedelta(milliseconds=1)),
            "retention.bytes": "-1" if kept.bytes is None else str(kept.bytes),
            "message.timestamp.type": "LogAppendTime",
            **({"max.message.bytes": str(LARGEST_CHANGE)} if self.format == "changes" else {}),
        }

    def _check_key(self) -> None:
        if self.key is None:
            if self.compacted and self.format != "changes":  # whose records come with their keys
                raise SpecError(
                    f"topic {self.name!r} is compacted but has no key",
                    hint="compaction keeps the last record of each key: name the key's column",
                )
            return
        kind = self._column(self.key, "key")
        if not isinstance(kind, _KEYS):
            raise SpecError(
                f"column {self.key!r} of topic {self.name!r} cannot be a key: it is {kind.simpleString()}",
                hint="a key is a string, a whole number or binary, so that equal keys have equal bytes",
            )

    def _check_event_time(self) -> None:
        if self.event_time is None:
            return
        kind = self._column(self.event_time, "event_time")
        if not isinstance(kind, spark.TimestampType):
            raise SpecError(
                f"event time {self.event_time!r} of topic {self.name!r} is {kind.simpleString()}",
                hint="event time is an instant: make the column a timestamp",
            )

    def _column(self, name: str, role: str) -> spark.DataType:
        if name not in self.spark_schema.names:
            raise SpecError(
                f"{role} {name!r} is not a column of topic {self.name!r}",
                hint=f"its columns: {', '.join(self.spark_schema.names)}",
            )
        return self.spark_schema[name].dataType


def check_name(name: str) -> str:
    """A name that Kafka takes, or SpecError."""
    if not _NAME.fullmatch(name) or name in (".", ".."):
        raise SpecError(
            f"{name!r} cannot be a topic's name",
            hint="use 1 to 249 of: letters, digits, dot, underscore, dash",
        )
    return name
