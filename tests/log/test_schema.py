"""The DDL reader against Spark's own, and the row types that come of it."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import types

from headwater.errors import SpecError
from headwater.log.schema import parse_schema, row_type

SIMPLE = ["string", "boolean", "tinyint", "SMALLINT", "int", "bigint", "float", "double", "date", "binary"]
SIMPLE += ["timestamp", "timestamp_ntz", "decimal(12,3)", "decimal", "long", "short", "byte", "integer"]

kinds = st.recursive(
    st.sampled_from(SIMPLE),
    lambda inner: st.one_of(
        inner.map("array<{}>".format),
        inner.map("map<string, {}>".format),
        st.tuples(inner, inner).map(lambda two: f"struct<x: {two[0]}, y: {two[1]} NOT NULL>"),
    ),
    max_leaves=4,
)
columns = st.tuples(kinds, st.sampled_from(["", " NOT NULL", " COMMENT 'why, though'"])).map("".join)


def of_spark(spark, ddl):
    said = spark._jvm.org.apache.spark.sql.types.StructType.fromDDL(ddl).json()
    return types.StructType.fromJson(json.loads(said))


def test_a_schema_means_what_spark_takes_it_to_mean(spark):
    @settings(max_examples=150, deadline=None)
    @given(st.lists(columns, min_size=1, max_size=4))
    def law(kinds):
        ddl = ", ".join(f"c{number} {kind}" for number, kind in enumerate(kinds))
        assert parse_schema(ddl) == of_spark(spark, ddl)

    law()


@pytest.mark.parametrize("ddl", ["`from` int, b string", "a struct<`x`: int>", "  a   INT  ,  b STRING  "])
def test_names_may_be_quoted_and_space_is_free(spark, ddl):
    assert parse_schema(ddl) == of_spark(spark, ddl)


@pytest.mark.parametrize(
    ("ddl", "why"),
    [
        ("", "at least one column"),
        ("card strin", "'strin' is not a type"),
        ("card", "'the end' is not a type"),
        ("card string,", "expected a column's name, found 'the end'"),
        ("card string amount double", "expected ',', found 'amount'"),
        ("a int, a int", "'a' stands twice"),
        ("a decimal(50,2)", r"decimal\(50,2\) is not a type"),
        ("a decimal(x)", r"decimal\(x,0\) is not a type"),
        ("a array<int", "expected '>', found 'the end'"),
        ("a: int", "':' is not a type"),
        ("a int; b int", "';.*' is not part of the language"),
        ("`a b` int", "'a b' cannot be the name of a Python attribute"),
    ],
)
def test_a_schema_that_cannot_be_read_says_why(ddl, why):
    with pytest.raises(SpecError, match=why):
        parse_schema(ddl)


def test_a_row_has_a_field_for_each_column_and_null_where_it_may():
    row = row_type(parse_schema("card string NOT NULL, amount double, at struct<x int NOT NULL>"))
    made = row(card="42")
    assert (made.card, made.amount, made.at) == ("42", None, None)
    with pytest.raises(TypeError, match="card"):
        row(amount=1.0)


def test_a_row_cannot_be_changed():
    made = row_type(parse_schema("card string"))(card="42")
    with pytest.raises(AttributeError):
        made.card = "43"
