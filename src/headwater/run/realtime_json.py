"""JSON decoded inside the JVM, as strictly as the topic's codec: real time has no place for Python.

A record is parsed to a `variant`, Spark's own form of JSON, which keeps what each value was: 1 and "1"
stay two things, as they do for the codec. A column's value is then an expression that is null exactly when
the value is absent or bad; so a bad one is there, and its expression null. Nothing is coerced.

Spark's parser stops at the end of the first value and looks no further. So the record is parsed as the
first of two elements of an array: what stands behind it in the record destroys the second.
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from functools import reduce
from operator import and_, or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from headwater.app import Source
from headwater.run.decode import DEAD, RECORD
from headwater.run.realtime_values import Looked, is_fine, is_nested, look, member, nested, objects, scalar

KEPT = "_kept"
LAST_COUNTS = ("spark.sql.variant.allowDuplicateKeys", "true")
"""The last of several equal names counts, as it does for the codec."""

_APPENDED = "_appended"
_END = "headwater-end-of-record"


def marked_in_jvm(
    raw: DataFrame, source: Source, keep: Sequence[str] = (), future: timedelta | None = None
) -> DataFrame:
    """The topic's columns and `_dead`, true where a record is bad; `raw` is Kafka's source, or a batch of it.

    The same expressions mark the records of a stream and of a range that is read again: what the stream
    left out is what a scan finds. The columns of `raw` in `keep` are carried along as the struct `_kept`.
    """
    raw.sparkSession.conf.set(*LAST_COUNTS)
    if source.topic.compacted:  # a record without a value is a deletion there, and passed over
        raw = raw.where(F.col("value").isNotNull())
    fields, around = source.topic.spark_schema.fields, _around(source, keep, future)
    found = (
        raw.select(_parsed().alias("_json"), *(F.struct(*one).alias(name) for name, one in around.items()))
        .select("_json", *around, *(member("_json", one.name).alias(_raw(one)) for one in fields))
        .select("*", *(column for one in fields for column in _looks(one)))
        .select("*", *(_value(one).alias(_made(one)) for one in fields))
    )
    made = [F.col(_made(one)).alias(one.name) for one in fields]
    is_good = F.coalesce(_is_good(source) & _is_of_today(source, future), F.lit(False))
    return found.select(*made, *around, (~is_good).alias(DEAD)).drop(_APPENDED)


def undecodable_in_jvm(source: Source) -> str:
    """Why a topic cannot be decoded in the JVM; empty when it can."""
    if source.topic.format != "json":
        return f"topic {source.topic.name!r} is {source.topic.format}"
    keys = (one.keyType for one in _maps(source.topic.spark_schema))
    if all(isinstance(one, spark.StringType) for one in keys):
        return ""
    return f"topic {source.topic.name!r} has a map whose keys are not strings"


def _raw(field: spark.StructField) -> str:
    return f"_raw_{field.name}"


def _made(field: spark.StructField) -> str:
    return f"_made_{field.name}"


def _looks(field: spark.StructField) -> list[Column]:
    """The columns with what was seen of a scalar: computed once, because each is used often."""
    if is_nested(field.dataType):
        return []
    seen = look(F.col(_raw(field)))
    return [column.alias(_seen(field, part)) for part, column in zip(Looked._fields, seen, strict=True)]


def _value(field: spark.StructField) -> Column:
    if is_nested(field.dataType):
        return nested(field.dataType, F.col(_raw(field)))
    return scalar(field.dataType, Looked(*(F.col(_seen(field, part)) for part in Looked._fields)))


def _seen(field: spark.StructField, part: str) -> str:
    return f"_{part}_{field.name}"


def _parsed() -> Column:
    """The record as a variant; null when its bytes are not one JSON value and nothing else."""
    text = F.col("value").cast("string")
    pair = F.try_parse_json(F.concat(F.lit("["), text, F.lit(f',"{_END}"]')))
    ends = F.try_variant_get(pair, "$[1]", "string") == _END
    alone = F.try_variant_get(pair, "$[2]", "variant").isNull()
    return F.when(F.is_valid_utf8(text) & ends & alone, F.try_variant_get(pair, "$[0]", "variant"))


def _around(source: Source, keep: Sequence[str], future: timedelta | None) -> dict[str, Sequence[str]]:
    around: dict[str, Sequence[str]] = {
        "_record": RECORD.names if source.record else (),
        _APPENDED: () if future is None else ("timestamp",),
        KEPT: keep,
    }
    return {name: columns for name, columns in around.items() if columns}


def _is_good(source: Source) -> Column:
    fields = source.topic.spark_schema.fields
    needed = {source.topic.key, source.topic.event_time} | {one.name for one in fields if not one.nullable}
    return reduce(and_, (_is_right(one, one.name in needed) for one in fields), _is_object(fields))


def _is_of_today(source: Source, future: timedelta | None) -> Column:
    """Whether the event is not further ahead of the log's own clock than that."""
    if future is None or source.topic.event_time is None:
        return F.lit(True)
    field = source.topic.spark_schema[source.topic.event_time]
    ahead = F.unix_micros(F.col(_made(field)).cast("timestamp")) - F.unix_micros(f"{_APPENDED}.timestamp")
    return ahead <= future // timedelta(microseconds=1)


def _is_object(fields: Iterable[spark.StructField]) -> Column:
    """Whether the record is a JSON object: it is when it has a column of ours, which is seen at once."""
    return reduce(or_, (F.col(_raw(one)).isNotNull() for one in fields)) | objects(F.col("_json")).isNotNull()


def _is_right(field: spark.StructField, is_needed: bool) -> Column:
    made, raw = F.col(_made(field)), F.col(_raw(field))
    return made.isNotNull() if is_needed else is_fine(raw, made)


def _maps(kind: spark.DataType) -> list[spark.MapType]:
    match kind:
        case spark.StructType():
            return [one for field in kind.fields for one in _maps(field.dataType)]
        case spark.ArrayType():
            return _maps(kind.elementType)
        case spark.MapType():
            return [kind, *_maps(kind.valueType)]
    return []
