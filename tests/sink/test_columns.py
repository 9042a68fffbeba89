"""What a sink's columns must be, judged without Spark."""

import pytest

from headwater import Topic
from headwater.errors import ColumnsMismatch
from headwater.log.schema import parse_schema
from headwater.sink.columns import fits
from headwater.sink.kafka import KafkaSink

ACTIVITY = Topic("activity", schema="card string NOT NULL, opened_at timestamp, total double", key="card")


def check(columns):
    KafkaSink(ACTIVITY).check(parse_schema(columns))


def test_columns_in_any_order_with_others_beside_them_are_taken():
    check("extra int, total double, card string, opened_at timestamp")


def test_a_missing_column_is_named_with_both_sides():
    with pytest.raises(ColumnsMismatch, match="'activity': column 'opened_at' is missing") as caught:
        check("card string, total double")
    assert "rows:  struct<card:string,total:double>" in caught.value.detail
    assert "topic: struct<card:string,opened_at:timestamp,total:double>" in caught.value.detail
    assert caught.value.hint == 'F.lit(None).cast("timestamp").alias("opened_at")'


def test_a_wrong_type_is_named_with_both_types():
    with pytest.raises(ColumnsMismatch, match="'total' is string, and the topic's is double") as caught:
        check("card string, opened_at timestamp, total string")
    assert caught.value.hint == 'F.col("total").cast("double") if that is what is meant'


def test_a_column_that_stands_twice_is_refused():
    columns = parse_schema("card string, opened_at timestamp, total double")
    twice = type(columns)([*columns.fields, columns.fields[0]])
    with pytest.raises(ColumnsMismatch, match="'card' stands 2 times"):
        KafkaSink(ACTIVITY).check(twice)


@pytest.mark.parametrize(
    ("given", "wanted", "is_fitting"),
    [
        ("int", "long", True),
        ("long", "int", False),
        ("float", "double", True),
        ("double", "float", False),
        ("int", "double", False),
        ("decimal(10,2)", "decimal(12,3)", True),
        ("decimal(12,2)", "decimal(12,3)", False),
        ("timestamp_ntz", "timestamp", False),
        ("array<int>", "array<long>", True),
        ("map<string,int>", "map<string,string>", False),
        ("struct<a:int,b:string>", "struct<a:long,b:string>", True),
        ("struct<b:string,a:int>", "struct<a:int,b:string>", False),
    ],
)
def test_a_type_fits_where_nothing_can_be_lost(given, wanted, is_fitting):
    one, two = (parse_schema(f"c {kind}")["c"].dataType for kind in (given, wanted))
    assert fits(one, two) is is_fitting
