"""Carried: a record beside the row that was decoded from it, so that the row can be traced back to it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import types as spark

from headwater.log.letter import instant
from headwater.log.topic import Topic

CARRIED = "_headwater_record"
PLACE = ("partition", "offset")
WHOLE = (*PLACE, "millis", "key", "value", "headers")
"""A record as it stands in the log: what a decoder may be given of it."""

_HEADER = spark.StructType(
    [spark.StructField("key", spark.StringType()), spark.StructField("value", spark.BinaryType())]
)
RECORD_TYPE = spark.StructType(
    [
        spark.StructField("topic", spark.StringType()),
        spark.StructField("partition", spark.IntegerType()),
        spark.StructField("offset", spark.LongType()),
        spark.StructField("millis", spark.LongType()),
        spark.StructField("key", spark.BinaryType()),
        spark.StructField("value", spark.BinaryType()),
        spark.StructField("headers", spark.ArrayType(_HEADER)),
        spark.StructField("event_at", spark.LongType()),
        spark.StructField("is_whole", spark.BooleanType()),
    ]
)
_ABSENT = {
    "millis": pa.int64(),
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
}


def schema_with_record(topic: Topic) -> spark.StructType:
    """The topic's columns, and the record."""
    fields = [spark.StructField(one.name, one.dataType) for one in topic.spark_schema.fields]
    return spark.StructType([*fields, spark.StructField(CARRIED, RECORD_TYPE)])


def carried(topic: Topic, block: pa.RecordBatch, columns: list[pa.Array]) -> pa.RecordBatch:
    """Decoded columns, and beside them what the block has of WHOLE, and whether that is all."""
    names = topic.spark_schema.names
    events = columns[names.index(topic.event_time or "")].view(pa.int64())
    parts = [block[one] if one in block.schema.names else pa.nulls(len(block), _ABSENT[one]) for one in WHOLE]
    is_whole = pa.array([set(WHOLE) <= {*block.schema.names}] * len(block), pa.bool_())
    arrays = [pa.array([topic.name] * len(block), pa.string()), *parts, events, is_whole]
    record = pa.StructArray.from_arrays(arrays, RECORD_TYPE.names)
    return pa.RecordBatch.from_arrays([*columns, record], [*names, CARRIED])


def within(rows: pa.Table | None, ranges: Mapping[int, tuple[int, int]]) -> pa.Table | None:
    """Those of the rows whose records lie in these ranges of their topic."""
    if rows is None:
        return None
    record = rows[CARRIED].combine_chunks()
    partition, offset = (record.field(one).to_numpy() for one in PLACE)
    mask = np.zeros(len(rows), bool)
    for one, (start, end) in ranges.items():
        mask |= (partition == one) & (offset >= start) & (offset < end)
    return rows.filter(pa.array(mask))


def of_record(row: Any, topic: str) -> dict[str, Any]:
    """What a letter says of the record itself, from a row with the columns of WHOLE."""
    return {
        "topic": topic,
        "partition": row["partition"],
        "offset": row["offset"],
        "timestamp": instant(row["millis"]),
        "key": _bytes(row["key"]),
        "value": _bytes(row["value"]),
        "headers": [(one["key"], _bytes(one["value"])) for one in row["headers"] or ()],
    }


def _bytes(data: bytearray | bytes | None) -> bytes | None:
    return None if data is None else bytes(data)
