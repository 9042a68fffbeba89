"""One value of a variant as a value of Spark, by the rules of the topic's codec.

The result is null when there is no value, and when what is there is not of the type: a number in quotes is
no number, 1.0 is no whole number, an instant needs its zone. The rules are those that msgspec has for the
codec's rows; a test holds both against the same nasty values.

A value is looked at once (what it is, and its text) and made from that. No expression here may throw, not
even in a branch that is not taken: Spark computes what two branches share ahead of both. Hence `try_cast`
everywhere.
"""

from collections.abc import Callable
from functools import reduce
from operator import and_
from typing import Any, NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from headwater.run.realtime_instants import DAY, instant, local

_LARGEST = {"float": 3.4028234663852886e38, "double": 1.7976931348623157e308}
_BASE64 = r"^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
_NESTED = (spark.StructType, spark.ArrayType, spark.MapType)


class Looked(NamedTuple):
    """A scalar as it stands in the record: what it is ("STRING", "BIGINT", …), and its text."""

    kind: Column
    text: Column

    @property
    def string(self) -> Column:
        """The text of what stands in quotes."""
        return F.when(self.kind == "STRING", self.text)


def look(found: Column) -> Looked:
    """What a variant is."""
    return Looked(F.schema_of_variant(found), _get(found, "string"))


def is_nested(kind: spark.DataType) -> bool:
    """Whether values of a type have values inside."""
    return isinstance(kind, _NESTED)


def scalar(kind: spark.DataType, found: Looked) -> Column:
    """The value of what was looked at."""
    return _SCALARS[type(kind)](kind, found)


def nested(kind: spark.DataType, found: Column) -> Column:
    """The value of a variant that holds others."""
    return _NESTS[type(kind)](kind, found)


def member(found: Column | str, name: str) -> Column:
    """A member of an object, as a variant; null when it is absent."""
    return F.try_variant_get(found, f"$['{name}']", "variant")


def objects(found: Column) -> Column:
    """The members of an object by name; null for anything else."""
    return _get(found, "map<string,variant>")


def is_fine(found: Column, made: Column) -> Column:
    """Whether a value could be made, or there was none to make."""
    return made.isNotNull() | found.isNull() | F.is_variant_null(found)


def _get(found: Column, kind: str) -> Column:
    return F.try_variant_get(found, "$", kind)


def _value(kind: spark.DataType, found: Column) -> Column:
    if is_nested(kind):
        return nested(kind, found)
    seen = F.struct(*(one.alias(name) for name, one in zip(Looked._fields, look(found), strict=True)))
    return _once(seen, lambda one: scalar(kind, Looked(one["kind"], one["text"])))


def _once(made: Column, then: Callable[[Column], Column]) -> Column:
    """An expression computed once and used often: nested ones would double with every level."""
    return F.transform(F.array(made), then)[0]


def _struct(kind: Any, found: Column) -> Column:
    inside = [(one, member(found, one.name)) for one in kind.fields]

    def checked(made: Column) -> Column:
        fine = (
            is_fine(raw, made[one.name]) if one.nullable else made[one.name].isNotNull()
            for one, raw in inside
        )
        return F.when(reduce(and_, fine, objects(found).isNotNull()), made)

    return _once(F.struct(*(_value(one.dataType, raw).alias(one.name) for one, raw in inside)), checked)


def _array(kind: Any, found: Column) -> Column:
    elements = _get(found, "array<variant>")
    made = F.transform(elements, lambda one: _value(kind.elementType, one))
    return _once(made, lambda done: F.when(_are_fine(elements, done), done))


def _map(kind: Any, found: Column) -> Column:
    members = objects(found)
    made = F.transform_values(members, lambda _, one: _value(kind.valueType, one))
    inside = F.map_values(members)
    return _once(made, lambda done: F.when(_are_fine(inside, F.map_values(done)), done))


def _are_fine(found: Column, made: Column) -> Column:
    return F.forall(F.zip_with(found, made, is_fine), lambda one: one)


def _boolean(_: Any, found: Looked) -> Column:
    return F.when(found.kind == "BOOLEAN", found.text == "true")


def _integer(kind: Any, found: Looked) -> Column:
    return F.when(found.kind == "BIGINT", found.text.try_cast(kind))


def _float(kind: Any, found: Looked) -> Column:
    number, largest = found.text.try_cast("double"), _LARGEST[kind.simpleString()]
    is_number = found.kind.isin("BIGINT", "DOUBLE") | found.kind.startswith("DECIMAL")
    return F.when(is_number & number.between(-largest, largest), number.cast(kind))


def _decimal(kind: Any, found: Looked) -> Column:
    """Exactly the digits that stand there, or null: a value that would have to be rounded does not fit."""
    text = F.trim(found.text)
    is_plain = found.kind.isin("BIGINT", "STRING") | found.kind.startswith("DECIMAL")
    fits = rf"^[+-]?(?=\.?\d)0*\d{{0,{kind.precision - kind.scale}}}(\.\d{{0,{kind.scale}}})?$"
    return F.when(is_plain & text.rlike(fits), text.try_cast(kind))


def _date(_: Any, found: Looked) -> Column:
    return F.when((found.kind == "STRING") & found.text.rlike(f"^{DAY}$"), found.text.try_cast("date"))


def _binary(_: Any, found: Looked) -> Column:
    data = F.try_to_binary(found.text, F.lit("base64"))
    return F.when((found.kind == "STRING") & found.text.rlike(_BASE64), data)


def _instant(_: Any, found: Looked) -> Column:
    return F.when(found.kind == "STRING", instant(found.text))


def _local(_: Any, found: Looked) -> Column:
    return F.when(found.kind == "STRING", local(found.text))


_SCALARS: dict[type[spark.DataType], Callable[[Any, Looked], Column]] = {
    spark.StringType: lambda _, found: found.string,
    spark.BinaryType: _binary,
    spark.BooleanType: _boolean,
    spark.ByteType: _integer,
    spark.ShortType: _integer,
    spark.IntegerType: _integer,
    spark.LongType: _integer,
    spark.FloatType: _float,
    spark.DoubleType: _float,
    spark.DecimalType: _decimal,
    spark.DateType: _date,
    spark.TimestampType: _instant,
    spark.TimestampNTZType: _local,
}
_NESTS: dict[type[spark.DataType], Callable[[Any, Column], Column]] = {
    spark.StructType: _struct,
    spark.ArrayType: _array,
    spark.MapType: _map,
}
