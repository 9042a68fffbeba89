"""Decoding in the JVM against the topic's codec: the same records are bad, and the good ones are equal."""

import random
import struct
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import msgspec
import pytest

from headwater import Topic
from headwater.app import Source
from headwater.errors import BadPipeline, Undecodable
from headwater.log.formats.codec import JsonCodec
from headwater.log.schema import fits_decimal
from headwater.run.realtime import parsed_in_jvm
from headwater.run.realtime_json import marked_in_jvm

KINDS = (
    "string",
    "boolean",
    "byte",
    "short",
    "int",
    "long",
    "float",
    "double",
    "decimal(10,2)",
    "decimal(38,0)",
    "date",
    "timestamp",
    "timestamp_ntz",
    "binary",
    "array<long>",
    "array<string>",
    "map<string,string>",
    "map<string,array<long>>",
    "struct<n:long NOT NULL,s:string>",
    "array<struct<n:long NOT NULL,s:string>>",
    "map<string,struct<n:long>>",
)
COLUMNS = {f"c{number}": kind for number, kind in enumerate(KINDS)}
TOPIC = Topic("nasty", schema=", ".join(f"{name} {kind}" for name, kind in COLUMNS.items()))
CODEC, COMPLAINT = JsonCodec(TOPIC), fits_decimal(TOPIC.spark_schema)
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
RAW = "key binary, value binary, partition int, offset bigint, timestamp timestamp"
MOMENTS = [
    *("2020-01-01T00:00:00Z", "2020-01-01T00:00:00", "2020-01-01 00:00:00Z", "2020-01-01t00:00:00z"),
    *("2020-01-01_00:00:00Z", "2020-01-01T00:00Z", "2020-01-01T24:00:00Z", "2020-01-01T23:59:60Z"),
    *("2020-01-01T00:00:00+02:00", "2020-01-01T00:00:00+0200", "2020-01-01T00:00:00+02"),
    *("2020-01-01T12:00:00-11:30", "2020-01-01T00:00:00+23:59", "2020-01-01T00:00:00+24:00"),
    *("2020-01-01T00:00:00-00:00", "2020-01-01T00:00:00 Z", "2020-01-01T00:00:00.Z", "+2020-01-01T00:00:00Z"),
    *("2020-01-01T00:00:00.1Z", "2020-01-01T00:00:00.1234567Z", "2020-01-01T00:00:00.1234564999Z"),
    *("2020-01-01T00:00:00.1234565", "2020-01-01T00:00:00.9999999Z", "2020-01-01T00:00:00.9999999"),
    *("0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.9999999Z"),
    *("2020-01-01", "2020-1-1", "2020", "0000-01-01", "2020-02-29", "2021-02-29", "2020-01-01T00:00:00٣Z"),
]
TEXTS = [
    *(
        "",
        "1",
        "-1",
        " 1",
        "1.50",
        "1.5 ",
        "5.",
        ".5",
        "--1",
        "1.001",
        "99999999.99",
        "100000000",
        "a",
        "NaN",
    ),
    *("Infinity", "true", "null", "YQ==", "YQ", "YQ==\n", "Y Q==", "YR==", "Y===", "a\0b", "é", "😀", "007"),
]
NUMBERS = """1 1.0 1.5 -0 -0.0 01 +1 .5 1. 1e3 1e400 1e39 1e-400 5e-324 3.5e38 3.4028234663852886e38
3.4028235e38 127 128 -128 -129 32767 32768 2147483647 2147483648 9223372036854775807 9223372036854775808
99999999.99 100000000 -99999999.99 1.001 1.50 0.1 1.7976931348623157e308 1.7976931348623159e308 NaN Infinity -
12345678901234567890123456789012345678 123456789012345678901234567890123456789""".split()  # noqa: SIM905
OTHERS = r"""null true false tru [] {} [1] [null] [1,null] ["a"] [[]] ["1"] {"a":null} {"a":"b"} {"a":1}
{"a":[1]} {"n":1} {"n":1,"s":"x"} {"n":null} {"n":"1"} {"n":1,"s":2} {"n":1,"n":2} [{"n":1}] [{"n":null}]
[{"s":"x"}] {"a":{"n":1}} {"a":{"n":1.0}} "\ud800" "\udc00\ud800" "\ud83d\ude00" "\u0000" "\x" [1,] {"a":1,}
[1}""".split()  # noqa: SIM905
VALUES = [
    *(msgspec.json.encode(one) for one in (*MOMENTS, *TEXTS)),
    *(one.encode() for one in (*NUMBERS, *OTHERS)),
    *(b'"\x01"', b'"\n"', b'"\xff"', b"1 ", b"1 2"),
]
WHOLE = [
    *(
        b"",
        b" ",
        b"null",
        b"[]",
        b"{}",
        b"{}\n",
        b"{} x",
        b"{}{}",
        b"{},{}",
        b"{}]",
        b"{}}",
        b"{}\0",
        b'"a"',
        b"1",
    ),
    *(
        b"\xef\xbb\xbf{}",
        b"\xff\xfe{}",
        b"\x0b{}",
        b'{"c0":"a"',
        b"{'c0':'a'}",
        b"{c0:1}",
        b'{"C0":"a"}',
        None,
    ),
    *(b'{"c0":"a","c0":"b"}', b'{"c0":"a","c0":1}', b'{"\\u0063\\u0030":"a"}', b'{"":1}', b'{"z":"\x01"}'),
    *(
        b'{"z":1e999}',
        b'{"z":NaN}',
        b'{"z":{"a":1,"a":2}}',
        b"/**/{}",
        b'{"z":' + b"[" * 1100 + b"]" * 1100 + b"}",
    ),
]
KNOWN = {
    b'{"c8":1e3}': "a decimal with an exponent is bad here",
    b'{"c9":1e3}': "a decimal with an exponent is bad here",
    b'{"c9":-0.0}': "zeros behind a decimal's last digit do not count here",
    b'{"c9":1.0}': "zeros behind a decimal's last digit do not count here",
    b'{"c8":"\xd9\xa1"}': "digits of other scripts are none here",
    b'{"z":"\xff"}': "no record is good that is not UTF-8, not even where the schema does not look",
    b'{"z":' + b"1" * 1001 + b"}": "numbers end at a thousand digits",
}
"""Every difference that is known, and goes unmended."""


def by_codec(record: bytes | None) -> object:
    """The row as the codec has it, or that it is bad."""
    try:
        row = CODEC.decode(record or b"")
    except Undecodable:
        return "bad"
    return "bad" if COMPLAINT(row) else {name: plain(getattr(row, name), name) for name in COLUMNS}


def plain(value, name=""):
    if isinstance(value, msgspec.Struct):
        return {one: plain(getattr(value, one)) for one in value.__struct_fields__}
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, datetime) and value.tzinfo:
        return value.astimezone(UTC)
    return struct.unpack("f", struct.pack("f", value))[0] if value and COLUMNS.get(name) == "float" else value


def by_jvm(spark, records: list[bytes | None], topic: Topic = TOPIC) -> list[object]:
    raw = spark.createDataFrame([(None, one, 0, at, None) for at, one in enumerate(records)], RAW)
    found = marked_in_jvm(raw, Source(topic), keep=["offset"]).toArrow().to_pylist(maps_as_pydicts="strict")
    found.sort(key=lambda row: row["_kept"]["offset"])
    return [
        "bad" if row["_dead"] else {name: row[name] for name in topic.spark_schema.names} for row in found
    ]


def test_the_jvm_and_the_codec_agree_on_every_nasty_value_of_every_type(spark):
    records = [b'{"%s":%s}' % (name.encode(), value) for name in COLUMNS for value in VALUES] + WHOLE
    different = {
        record: (ours, theirs)
        for record, ours in zip(records, by_jvm(spark, records), strict=True)
        if ours != (theirs := by_codec(record)) and record not in KNOWN
    }
    assert different == {}


def test_the_differences_that_are_known_are_all_there_are_and_are_there(spark):
    records = list(KNOWN)
    found = by_jvm(spark, records)
    assert [one for one, ours in zip(records, found, strict=True) if ours == by_codec(one)] == []


def any_json(chance: random.Random, depth: int = 0) -> object:
    """A value of the kinds that columns have, more often than not in the wrong place."""
    moment = BEGIN + timedelta(microseconds=chance.randrange(-(10**16), 10**16))
    plain = [
        *(
            None,
            True,
            chance.randrange(-300, 300),
            chance.randrange(-(2**64), 2**64),
            round(chance.uniform(-9, 9), 3),
        ),
        *(
            "",
            "".join(chance.choices('aé"\\\n😀7', k=4)),
            str(chance.randrange(10**6)),
            moment,
            moment.date(),
        ),
        *(moment.replace(tzinfo=None), moment.isoformat(" "), chance.randbytes(chance.randrange(4))),
    ]
    if depth < 2 and chance.random() < 0.3:
        inside = [any_json(chance, depth + 1) for _ in range(chance.randrange(3))]
        return chance.choice([inside, dict(zip("nsa", inside, strict=False))])
    return chance.choice(plain)


def test_the_jvm_and_the_codec_agree_on_any_json_cut_anywhere(spark):
    chance = random.Random(4)
    records = []
    for _ in range(3000):
        row = {chance.choice([*COLUMNS, "z"]): any_json(chance) for _ in range(chance.randrange(3))}
        whole = msgspec.json.encode(row)
        records.append(whole if chance.random() < 0.8 else whole[: chance.randrange(len(whole))])
    found = by_jvm(spark, records)
    assert found == [by_codec(one) for one in records]
    assert 500 < found.count("bad") < 2500


PAID = Topic("paid", schema="card string, n long NOT NULL, at timestamp", key="card", event_time="at")


def test_a_record_is_bad_without_its_key_its_event_time_or_a_column_that_must_be(spark):
    whole = {"card": "a", "n": 1, "at": "2026-01-01T00:00:00Z"}
    lacking = [{key: whole[key] for key in whole if key != one} for one in whole]
    null = [whole | {one: None} for one in whole]
    found = by_jvm(spark, [msgspec.json.encode(one) for one in [whole, *lacking, *null]] + [None], PAID)
    assert found == [{"card": "a", "n": 1, "at": datetime(2026, 1, 1, tzinfo=UTC)}] + ["bad"] * 7


def test_a_deletion_on_a_compacted_topic_is_passed_over_and_not_bad(spark):
    topic = Topic("cards", schema="card string", key="card", compacted=True)
    assert by_jvm(spark, [b'{"card":"a"}', None, b"x"], topic) == [{"card": "a"}, "bad"]


def test_the_record_around_a_row_stands_beside_it(spark):
    at = datetime(2026, 1, 1, tzinfo=UTC)
    raw = spark.createDataFrame([(b"k", b'{"a":"b"}', 3, 7, at)], RAW)
    (row,) = parsed_in_jvm(raw, Source(Topic("t", schema="a string"), record=True)).toArrow().to_pylist()
    assert row == {"a": "b", "_record": {"key": b"k", "partition": 3, "offset": 7, "timestamp": at}}


@pytest.mark.parametrize(
    ("topic", "said"),
    [
        (Topic("t", schema="a long", format="avro"), "topic 't' is avro: that cannot be read in real time"),
        (Topic("t", schema="a map<long,long>"), "topic 't' has a map whose keys are not strings"),
    ],
)
def test_what_the_jvm_cannot_decode_is_refused(spark, topic, said):
    with pytest.raises(BadPipeline, match=said):
        parsed_in_jvm(spark.createDataFrame([], RAW), Source(topic))


def test_the_oracle_itself_tells_good_from_bad():
    assert by_codec(b'{"c5":1.0}') == "bad"
    assert by_codec(b'{"c8":1.23}')["c8"] == Decimal("1.23")
    late = by_codec(b'{"c11":"2020-01-01T00:00:00+02:00"}')["c11"]
    assert late == datetime(2020, 1, 1, tzinfo=UTC) - timedelta(hours=2)
