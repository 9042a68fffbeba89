"""What Spark writes is what the topic's codec reads: the same row, or a clear refusal."""

import struct
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F

from headwater import Topic
from headwater.errors import KeyMissing, ValueMismatch
from headwater.log.channel import Channel
from headwater.log.formats.codec import JsonCodec
from headwater.settings import Settings
from headwater.sink.encode import encoded, is_encoded_by_spark, prepared
from headwater.sink.failures import as_raised_in_tasks
from tests.log.formats.rows import SCALARS

NOWHERE = Settings()
NESTED = [
    ("array<long>", st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=3)),
    (
        "map<string,double>",
        st.dictionaries(st.text(max_size=3), st.none() | st.floats(-1e9, 1e9), max_size=3),
    ),
    ("map<int,string>", st.dictionaries(st.integers(0, 99), st.none() | st.text(max_size=3), max_size=3)),
    (
        "array<map<string,date>>",
        st.lists(st.dictionaries(st.text(max_size=3), st.dates(), max_size=2), max_size=2),
    ),
]
TYPES = [*SCALARS, *NESTED]
EVERYTHING = Topic(
    "everything",
    schema=", ".join(f"c{at} {kind}" for at, (kind, _) in enumerate(TYPES))
    + ", s struct<a: int, b: array<timestamp>, c: struct<d: decimal(12,3) NOT NULL>>, k string NOT NULL",
    key="k",
)
INNER = st.fixed_dictionaries({"d": st.decimals(-999, 999, places=3)})
ROWS = st.fixed_dictionaries(
    {f"c{at}": st.none() | value for at, (_, value) in enumerate(TYPES)}
    | {
        "s": st.none()
        | st.fixed_dictionaries(
            {
                "a": st.none() | st.integers(-9, 9),
                "b": st.none() | st.lists(st.none() | st.datetimes(timezones=st.just(UTC)), max_size=2),
                "c": st.none() | INNER,
            }
        ),
        "k": st.text(max_size=5),
    }
)


def in_spark(spark, topic, rows):
    return spark.createDataFrame(rows, topic.spark_schema, verifySchema=False)


def single(value):
    """A float as four bytes can say it."""
    return None if value is None else struct.unpack("f", struct.pack("f", value))[0]


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(rows=st.lists(ROWS, min_size=30, max_size=60))
def test_the_topics_codec_reads_back_the_row_that_spark_wrote(spark, rows):
    found = encoded(in_spark(spark, EVERYTHING, rows), EVERYTHING, NOWHERE).collect()
    codec, channel = JsonCodec(EVERYTHING), Channel(EVERYTHING, None, lambda: 0)
    float_at = [f"c{at}" for at, (kind, _) in enumerate(TYPES) if kind == "float"]
    for given_row, record in zip(rows, found, strict=True):
        read, wanted = codec.decode(bytes(record.value)), codec.decode(codec.encode(given_row))
        for name in EVERYTHING.spark_schema.names:
            one, two = getattr(read, name), getattr(wanted, name)
            if name in float_at:
                one, two = single(one), single(two)
            assert one == two, name
        assert bytes(record.key) == channel.key_of(given_row)


def test_every_column_is_named_null_or_not_in_the_topics_order(spark):
    topic = Topic("t", schema="b int, a string, at timestamp")
    rows = spark.createDataFrame(
        [(None, 1, 0, datetime(2026, 1, 1, tzinfo=UTC))], "a string, b int, x int, at timestamp"
    )
    (record,) = encoded(rows, topic, NOWHERE).collect()
    assert bytes(record.value) == b'{"b":1,"a":null,"at":"2026-01-01T00:00:00.000000Z"}'
    assert record.key is None


@pytest.mark.parametrize(
    ("kind", "literal", "key"),
    [("string", "'ä'", "ä".encode()), ("long", "-5L", b"-5"), ("binary", "X'00ff'", b"\x00\xff")],
)
def test_a_keys_bytes_are_those_of_the_log(spark, kind, literal, key):
    topic = Topic("t", schema=f"k {kind}", key="k")
    (record,) = encoded(spark.range(1).selectExpr(f"{literal} AS k"), topic, NOWHERE).collect()
    assert bytes(record.key) == key


@pytest.mark.parametrize(
    ("schema", "expression", "why"),
    [
        ("x double", "double('NaN')", "x is not a finite number"),
        ("x double", "double('-Infinity')", "x is not a finite number"),
        ("x float", "float('Infinity')", "x is not a finite number"),
        ("x array<double>", "array(1D, double('NaN'))", r"x\[\] is not a finite number"),
        (
            "x map<string, array<double>>",
            "map('a', array(double('NaN')))",
            r"x\{\}\[\] is not a finite number",
        ),
        ("x struct<y: double>", "named_struct('y', double('NaN'))", "x.y is not a finite number"),
        ("x timestamp", "timestamp_seconds(300000000000L)", "x is not in the years 1 to 9999"),
        ("x date", "date_from_unix_date(-800000)", "x is not in the years 1 to 9999"),
        ("x int NOT NULL", "CAST(NULL AS int)", "x is null"),
        ("x struct<y: int NOT NULL>", "named_struct('y', CAST(NULL AS int))", "x.y is null"),
    ],
)
def test_what_the_topic_cannot_say_is_refused_by_name(spark, schema, expression, why):
    topic = Topic("t", schema=schema)
    rows = spark.range(1).selectExpr(f"{expression} AS x")
    with pytest.raises(ValueMismatch, match=f"does not fit topic 't': {why}"), as_raised_in_tasks():
        encoded(rows, topic, NOWHERE).collect()


def test_a_null_struct_has_no_missing_fields(spark):
    topic = Topic("t", schema="x struct<y: int NOT NULL>")
    rows = spark.range(1).selectExpr("CAST(NULL AS struct<y: int>) AS x")
    assert bytes(encoded(rows, topic, NOWHERE).first().value) == b'{"x":null}'


def test_a_row_without_its_key_is_refused(spark):
    topic = Topic("t", schema="k string, n long", key="k")
    with pytest.raises(KeyMissing, match="'t' has no 'k'"), as_raised_in_tasks():
        encoded(spark.range(1).selectExpr("CAST(NULL AS string) AS k", "id AS n"), topic, NOWHERE).collect()


def test_narrower_numbers_are_widened_and_columns_without_a_type_are_null(spark):
    topic = Topic("t", schema="a long, b double, c string")
    rows = spark.range(1).select(
        F.lit(1).alias("a"), F.lit(1.5).cast("float").alias("b"), F.lit(None).alias("c")
    )
    assert bytes(encoded(rows, topic, NOWHERE).first().value) == b'{"a":1,"b":1.5,"c":null}'


def test_a_map_that_spark_would_misspell_is_written_by_the_codec(spark):
    topic = Topic("t", schema="x map<date, decimal(5,2)>, y array<struct<m: map<string,int>>>")
    assert not is_encoded_by_spark(topic)
    value = {"x": {date(2026, 1, 2): Decimal("1.50")}, "y": [{"m": {"a": 1}}, None]}
    rows = in_spark(spark, topic, [value])
    (record,) = encoded(rows, topic, NOWHERE).collect()
    codec = JsonCodec(topic)
    assert codec.decode(bytes(record.value)) == codec.decode(codec.encode(value))
    assert prepared(rows, topic).columns == ["x", "y"]
