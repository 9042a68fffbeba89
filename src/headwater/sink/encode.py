"""From rows to records: the key's bytes and the value's, as the topic's own codec would write them.

JSON is written by Spark itself (`to_json`), in such a form that the topic's codec reads back the same
row: every column named, null or not, instants in UTC with all their microseconds. What has no such form
(NaN, an infinite number, a year beyond 9999, a null where the topic allows none) fails the batch and
names the column. Other formats are written by the topic's codec, in blocks.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from headwater.errors import HeadwaterError, KeyMissing, ValueMismatch
from headwater.log.channel import key_bytes
from headwater.log.formats import codec_for
from headwater.log.schemas import open_schemas
from headwater.log.topic import Topic
from headwater.settings import Settings
from headwater.sink.failures import spoken
from headwater.sink.plain import plain

Blocks = Iterator[pa.RecordBatch]
ENCODED = "key binary, value binary"
_JSON = {
    "ignoreNullFields": "false",
    "timeZone": "UTC",
    "dateFormat": "yyyy-MM-dd",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
_YEARS: dict[type[spark.DataType], tuple[str, str]] = {
    spark.DateType: ("DATE'0001-01-01'", "DATE'9999-12-31'"),
    spark.TimestampType: ("TIMESTAMP'0001-01-01 00:00:00Z'", "TIMESTAMP'9999-12-31 23:59:59.999999Z'"),
    spark.TimestampNTZType: (
        "TIMESTAMP_NTZ'0001-01-01 00:00:00'",
        "TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'",
    ),
}


def is_encoded_by_spark(topic: Topic) -> bool:
    """Whether Spark can write this topic's values: JSON, with maps whose keys JSON can name."""
    return topic.format == "json" and _has_plain_keys(topic.spark_schema)


def prepared(rows: DataFrame, topic: Topic) -> DataFrame:
    """The rows as the writer's blocks need them: key and value, or the topic's columns for its codec."""
    fields = topic.spark_schema.fields
    fitting = rows.select(*(_fitting(one, rows.schema[one.name]) for one in fields))
    if not is_encoded_by_spark(topic):
        return fitting
    return fitting.select(_key(topic).alias("key"), _value(topic).alias("value"))


def encoder(topic: Topic | None, settings: Settings) -> "Encode":
    """What makes key and value of prepared blocks; without a topic they have them already."""
    return Encode(None if topic is None or is_encoded_by_spark(topic) else topic, settings)


def encoded(rows: DataFrame, topic: Topic, settings: Settings) -> DataFrame:
    """The rows as the columns `key` and `value`."""
    found = prepared(rows, topic)
    return found if is_encoded_by_spark(topic) else found.mapInArrow(encoder(topic, settings), ENCODED)


@dataclass(frozen=True)
class Encode:
    """Blocks of a topic's columns to blocks of key and value; without a topic they are that already."""

    topic: Topic | None
    settings: Settings = field(repr=False)

    def __call__(self, blocks: Blocks) -> Blocks:
        """Encode block by block."""
        if self.topic is None:
            return blocks
        return map(_block_encoder(self.topic, self.settings), blocks)


def _block_encoder(topic: Topic, settings: Settings) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    encode = codec_for(topic, lambda: open_schemas(settings)).encode
    turn = plain(topic.spark_schema)

    def to_records(block: pa.RecordBatch) -> pa.RecordBatch:
        rows = [turn(one) for one in block.to_pylist()]
        values = pa.array([encode(one) for one in rows], pa.binary())
        keys = [None if topic.key is None else key_bytes(one[topic.key], topic) for one in rows]
        return pa.RecordBatch.from_arrays([pa.array(keys, pa.binary()), values], ["key", "value"])

    return to_records


def _fitting(wanted: spark.StructField, found: spark.StructField) -> Column:
    kind, column = _loose(wanted.dataType), F.col(wanted.name)
    return column if found.dataType == kind else column.cast(kind).alias(wanted.name)


def _key(topic: Topic) -> Column:
    if topic.key is None:
        return F.lit(None).cast("binary")
    missing = KeyMissing(f"a record of topic {topic.name!r} has no {topic.key!r}, its key")
    key, kind = F.col(topic.key), topic.spark_schema[topic.key].dataType
    data = key if isinstance(kind, spark.BinaryType) else key.cast("string").cast("binary")
    return F.coalesce(data, _raised(missing))


def _value(topic: Topic) -> Column:
    """The JSON text, unless one of the checks finds what it could not say."""
    whole = F.struct(*topic.spark_schema.names)
    text = F.to_json(whole, _JSON).cast("binary")
    for wrong, why in _checks(topic.spark_schema, whole, ""):
        error = ValueMismatch(f"a value does not fit topic {topic.name!r}: {why}")
        text = F.when(wrong, _raised(error)).otherwise(text)
    return text


def _raised(error: HeadwaterError) -> Column:
    """An expression that fails with one of our errors; `failures` reads it back."""
    return F.raise_error(F.lit(spoken(error))).cast("binary")


def _checks(kind: spark.DataType, value: Column, path: str) -> list[tuple[Column, str]]:
    """What a value of this type must not be, each with its words."""
    match kind:
        case spark.FloatType() | spark.DoubleType():
            infinite = F.abs(value) == F.lit(float("inf"))
            return [(F.isnan(value) | infinite, f"{path} is not a finite number")]
        case spark.DateType() | spark.TimestampType() | spark.TimestampNTZType():
            first, last = (F.expr(one) for one in _YEARS[type(kind)])
            return [((value < first) | (value > last), f"{path} is not in the years 1 to 9999")]
        case spark.StructType():
            return [one for each in kind.fields for one in _field_checks(each, value, path)]
        case spark.ArrayType():
            return _inside(kind.elementType, value, f"{path}[]")
        case spark.MapType():
            return _inside(kind.valueType, F.map_values(value), f"{path}{{}}")
    return []


def _field_checks(column: spark.StructField, struct: Column, path: str) -> list[tuple[Column, str]]:
    """The checks of one field, which may also have to be there."""
    value, name = struct.getField(column.name), f"{path}.{column.name}".lstrip(".")
    checks = _checks(column.dataType, value, name)
    if not column.nullable:
        checks.insert(0, (struct.isNotNull() & value.isNull(), f"{name} is null"))
    return checks


def _inside(kind: spark.DataType, values: Column, path: str) -> list[tuple[Column, str]]:
    """The checks of every element, by position: a lambda's columns exist only inside it."""
    words = [why for _, why in _checks(kind, F.lit(None).cast(kind), path)]

    def nth(at: int) -> Callable[[Column], Column]:
        return lambda one: _checks(kind, one, path)[at][0]

    return [(F.exists(values, nth(at)), why) for at, why in enumerate(words)]


def _loose(kind: spark.DataType) -> spark.DataType:
    """The type as it is written: nulls allowed, which the checks judge, and floats with all their digits.

    Spark casts to no type that forbids nulls. It writes the largest float as 3.4028235E38, which is above it.
    """
    match kind:
        case spark.FloatType():
            return spark.DoubleType()
        case spark.StructType():
            return spark.StructType(
                [spark.StructField(one.name, _loose(one.dataType)) for one in kind.fields]
            )
        case spark.ArrayType():
            return spark.ArrayType(_loose(kind.elementType))
        case spark.MapType():
            return spark.MapType(_loose(kind.keyType), _loose(kind.valueType))
    return kind


def _has_plain_keys(kind: spark.DataType) -> bool:
    """Whether every map in a type has keys that Spark writes as the codec reads them."""
    match kind:
        case spark.StructType():
            return all(_has_plain_keys(one.dataType) for one in kind.fields)
        case spark.ArrayType():
            return _has_plain_keys(kind.elementType)
        case spark.MapType():
            plain = isinstance(kind.keyType, spark.StringType | spark.IntegralType)
            return plain and _has_plain_keys(kind.valueType)
    return True
