"""Whether the columns of a function's answer are those of a topic, judged before anything runs."""

from pyspark.sql import types as spark

from headwater.errors import ColumnsMismatch
from headwater.log.topic import Topic

_WHOLE = (spark.ByteType, spark.ShortType, spark.IntegerType, spark.LongType)


def check_columns(columns: spark.StructType, topic: Topic) -> None:
    """ColumnsMismatch unless every column of the topic is there, in its type or one that fits into it."""
    for wanted in topic.spark_schema.fields:
        found = [one for one in columns.fields if one.name == wanted.name]
        if len(found) > 1:
            raise _mismatch(topic, columns, f"column {wanted.name!r} stands {len(found)} times")
        if not found:
            hint = f'F.lit(None).cast("{_name(wanted)}").alias("{wanted.name}")' if wanted.nullable else ""
            raise _mismatch(topic, columns, f"column {wanted.name!r} is missing", hint)
        if not fits(found[0].dataType, wanted.dataType):
            given = found[0].dataType.simpleString()
            raise _mismatch(
                topic,
                columns,
                f"column {wanted.name!r} is {given}, and the topic's is {_name(wanted)}",
                f'F.col("{wanted.name}").cast("{_name(wanted)}") if that is what is meant',
            )


def fits(given: spark.DataType, wanted: spark.DataType) -> bool:
    """Whether every value of a type can be told in another: the same, or a wider number."""
    match given, wanted:
        case (spark.ArrayType(), spark.ArrayType()):
            return fits(given.elementType, wanted.elementType)
        case (spark.MapType(), spark.MapType()):
            return fits(given.keyType, wanted.keyType) and fits(given.valueType, wanted.valueType)
        case (spark.StructType(), spark.StructType()):
            pairs = zip(given.fields, wanted.fields, strict=False)
            return given.names == wanted.names and all(fits(a.dataType, b.dataType) for a, b in pairs)
        case (spark.DecimalType(), spark.DecimalType()):
            digits = given.precision - given.scale <= wanted.precision - wanted.scale
            return digits and given.scale <= wanted.scale
    return given == wanted or isinstance(given, spark.NullType) or _is_wider(wanted, given)


def _is_wider(wanted: spark.DataType, given: spark.DataType) -> bool:
    if isinstance(given, _WHOLE) and isinstance(wanted, _WHOLE):
        return _WHOLE.index(type(given)) <= _WHOLE.index(type(wanted))
    return isinstance(given, spark.FloatType) and isinstance(wanted, spark.DoubleType)


def _name(column: spark.StructField) -> str:
    return column.dataType.simpleString()


def _mismatch(topic: Topic, columns: spark.StructType, why: str, hint: str = "") -> ColumnsMismatch:
    return ColumnsMismatch(
        f"the rows do not fit topic {topic.name!r}: {why}",
        detail=f"rows:  {columns.simpleString()}\ntopic: {topic.spark_schema.simpleString()}",
        hint=hint,
    )
