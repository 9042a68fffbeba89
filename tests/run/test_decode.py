"""Decoding in blocks: the same rows as the topic's codec gives one by one, and the bad ones marked."""

import gc
import json
import random
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark import cloudpickle
from pyspark.sql import types as spark
from tests.log.formats.fake_schemas import FakeSchemas
from tests.log.formats.rows import Case, cases

from headwater import Settings, Topic
from headwater.app import Source
from headwater.errors import BadPipeline, RegistryMissing, RegistryUnreachable, Undecodable, UnknownSchema
from headwater.log.formats import codec_for
from headwater.log.formats.codec import Codec
from headwater.log.formats.numbers import exact_decimal
from headwater.run.decode import Decoder, decoder, parsed
from headwater.run.judge import Judge, KnownSchemas, RegistryAddress, judge_of

PAID = Topic(
    "payments",
    schema="card string, amount decimal(5,2), paid_at timestamp, n int NOT NULL, note binary",
    key="card",
    event_time="paid_at",
)
AVRO = Topic("readings", schema="n int", format="avro")
GOOD = {"card": "42", "amount": 9.5, "paid_at": "2026-01-01T00:00:00Z", "n": 1, "note": None}


class FakeRegistry:
    """A registry in this process, in the place of an address."""

    def __init__(self, schemas: Any) -> None:
        self.schemas = schemas

    def open(self) -> Any:
        return KnownSchemas(self.schemas)


def block(values: list[bytes | None], **more: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"value": pa.array(values, pa.binary()), **more})


def decoded(topic: Topic, values: list[bytes | None]) -> tuple[list[dict[str, Any]], list[bool]]:
    """The rows and which of them are dead."""
    (made,) = Decoder(topic, RegistryAddress(), record=False)(iter([block(values)]))
    rows = made.to_pylist()
    return rows, [row.pop("_dead") for row in rows]


def row(**changed: Any) -> bytes:
    return json.dumps(GOOD | changed).encode()


def plain(value: Any) -> Any:
    """A value of a row as pyarrow tells it."""
    if isinstance(value, msgspec.Struct):
        return {name: plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return [(key, plain(one)) for key, one in value.items()]
    return [plain(one) for one in value] if isinstance(value, list) else value


def spoilt(data: bytes, how: st.DataObject) -> bytes | None:
    """The bytes of a good record, cut off, changed in one place, replaced, or none at all."""
    at = how.draw(st.integers(0, len(data)))
    shapes = [data[:at], data[:at] + how.draw(st.binary(max_size=3)) + data[at + 1 :], None]
    return how.draw(st.sampled_from([*shapes, how.draw(st.binary(max_size=20)), b"null", b"[]", b"{}"]))


@pytest.mark.parametrize("form", ["json", "json-schema", "avro", "protobuf"])
@given(how=st.data())
@settings(max_examples=60, deadline=None)
def test_a_block_gives_the_rows_that_the_codec_gives_one_by_one(form: Any, how: st.DataObject) -> None:
    case: Case = how.draw(cases(form))
    schemas = FakeSchemas()
    codec = codec_for(case.topic, lambda: schemas)
    good = codec.encode(case.value)
    are_good = how.draw(st.lists(st.booleans(), max_size=6))
    values = [good if is_good else spoilt(good, how) for is_good in are_good]
    made, reasons = judge(case.topic, schemas).columns(pa.array(values, pa.binary()))
    block = pa.RecordBatch.from_arrays(made, case.topic.spark_schema.names)
    for value, row, why in zip(values, block.to_pylist(), reasons or [""] * len(values), strict=True):
        expected = one_by_one(codec, value, case.topic)
        assert bool(why) == (expected is None)
        assert row == (dict.fromkeys(row) if expected is None else expected)


def judge(topic: Topic, schemas: Any) -> Judge:
    return Judge(topic, FakeRegistry(schemas))  # type: ignore[arg-type]


def one_by_one(codec: Codec, value: bytes | None, topic: Topic) -> Any:
    """The row that the codec gives, None for a record that is bad."""
    try:
        row = None if value is None else codec.decode(value)
    except Undecodable:
        return None
    return plain(row) if row is not None and holds(row, topic.spark_schema) else None


def holds(value: Any, kind: spark.DataType) -> bool:
    """Whether every decimal in a value keeps all its digits in Spark's type."""
    match kind if value is not None else None:
        case spark.DecimalType() as decimal:
            return fits(value, decimal)
        case spark.StructType(fields=fields):
            return all(holds(getattr(value, one.name), one.dataType) for one in fields)
        case spark.ArrayType(elementType=inside):
            return all(holds(one, inside) for one in value)
        case spark.MapType(valueType=inside):
            return all(holds(one, inside) for one in value.values())
    return True


decimals = st.decimals(allow_nan=False, allow_infinity=False) | st.decimals(-999, 999, places=2)


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "card": st.none() | st.text(),
                "amount": st.none() | decimals,
                "paid_at": st.none() | st.datetimes(timezones=st.just(UTC)),
                "n": st.none() | st.integers(-5, 5),
            }
        )
    )
)
@settings(max_examples=200, deadline=None)
def test_bad_is_what_lacks_key_or_event_time_or_does_not_fit(rows: list[dict[str, Any]]) -> None:
    encode = msgspec.json.Encoder(decimal_format="number").encode
    found, dead = decoded(PAID, [encode(one) for one in rows])
    for one, told, is_dead in zip(rows, found, dead, strict=True):
        assert is_dead == (None in (one["card"], one["paid_at"], one["n"]) or not fits(one["amount"]))
        assert told == (dict.fromkeys(told) if is_dead else {**one, "note": None})


def fits(amount: Decimal | None, kind: Any = PAID.spark_schema["amount"].dataType) -> bool:
    try:
        return amount is None or exact_decimal(amount, kind) == amount
    except ValueError:
        return False


def test_ten_thousand_random_byte_strings_among_good_records_are_all_accounted_for() -> None:
    chance = random.Random(7)
    noise = [(True, chance.randbytes(chance.randrange(40))) for _ in range(10_000)]
    mixed = noise + [(False, row(n=number)) for number in range(10_000)]
    chance.shuffle(mixed)
    found, dead = decoded(PAID, [data for _, data in mixed])
    assert dead == [is_noise for is_noise, _ in mixed]
    good = [json.loads(data)["n"] for is_noise, data in mixed if not is_noise]
    assert [one["n"] for one, is_dead in zip(found, dead, strict=True) if not is_dead] == good


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (None, "it has no value"),
        (b"", "is not json"),
        (b"x", "malformed"),
        (b"[" * 100_000, "is not json"),
        (b"\xff\xfe", "is not json"),
        (row(card=None), "its key 'card' is null"),
        (row(paid_at=None), "its event time 'paid_at' is null"),
        (row(n=None), "Expected `int`, got `null`"),
        (row(n=2**31), "`int` <= 2147483647"),
        (row(amount=12345), "12345 does not fit decimal(5,2) - at `$.amount`"),
        (row(paid_at="2026-01-01T00:00:00"), "timezone"),
    ],
)
def test_the_reason_says_what_is_wrong(data: bytes | None, why: str) -> None:
    _, reasons = judge_of(PAID, RegistryAddress()).columns(pa.array([row(), data, row()], pa.binary()))
    assert reasons is not None
    assert (reasons[0], reasons[2]) == ("", "")
    assert why in reasons[1]


def test_instants_are_exact_from_the_first_year_to_the_last() -> None:
    moments = [
        "0001-01-01T00:00:00.000001Z",
        "9999-12-31T23:59:59.999999Z",
        "2026-02-03T04:05:06.000007+05:30",
    ]
    found, _ = decoded(PAID, [row(paid_at=one) for one in moments])
    assert [one["paid_at"] for one in found] == [datetime.fromisoformat(one) for one in moments]


def test_a_deletion_is_passed_over_on_a_compacted_topic_and_bad_on_another() -> None:
    compacted = Topic("cards", schema="card string, n int", key="card", compacted=True)
    found, dead = decoded(compacted, [b'{"card":"1","n":1}', None, b'{"card":"2","n":2}'])
    assert ([one["n"] for one in found], dead) == ([1, 2], [False, False])
    assert decoded(PAID, [row(), None])[1] == [False, True]


def test_the_record_around_a_row_comes_along_when_it_is_wanted() -> None:
    at = pa.array([datetime(2026, 1, 1, tzinfo=UTC)] * 2, pa.timestamp("ms", "UTC")).view(pa.int64())
    place = {"key": pa.array([b"k", None], pa.binary()), "partition": pa.array([0, 1], pa.int32())}
    given = block([row(), b"x"], **place, offset=pa.array([5, 6], pa.int64()), millis=at)
    (made,) = decoder(PAID, Settings(), record=True)(iter([given]))
    first, second = made.to_pylist()
    expected = {"key": b"k", "partition": 0, "offset": 5, "timestamp": datetime(2026, 1, 1, tzinfo=UTC)}
    assert (first["_record"], first["_dead"]) == (expected, False)
    assert (second["card"], second["_dead"]) == (None, True)


def test_a_decoder_travels_light_and_says_no_secret() -> None:
    options = {"basic.auth.user.info": "me:secret"}
    made = decoder(AVRO, Settings(registry="http://me:secret@here", registry_options=options), record=False)
    assert len(cloudpickle.dumps(made)) < 1000
    assert "secret" not in repr(made)
    assert cloudpickle.loads(cloudpickle.dumps(made)) == made


def test_the_garbage_collector_is_on_again_after_a_block() -> None:
    decoded(PAID, [row()])
    assert gc.isenabled()


class Away:
    """A registry that answers for one id only."""

    register = None
    asked = 0

    def schema(self, schema_id: int) -> Any:
        self.asked += 1
        if schema_id == 7:
            raise UnknownSchema("no such schema")
        raise RegistryUnreachable("the registry does not answer")


def test_a_registry_that_is_away_makes_no_record_bad() -> None:
    with pytest.raises(RegistryUnreachable):
        judge(AVRO, Away()).columns(pa.array([b"\0\0\0\0\1x", b"junk"], pa.binary()))


def test_an_id_that_the_registry_does_not_hold_is_bad_and_asked_for_once_a_task() -> None:
    away = Away()
    ours = judge(AVRO, away)
    values = pa.array([b"\0\0\0\0\7x"] * 100 + [b"\0\xff\xff\xff\xffx"], pa.binary())
    for task in (1, 2):
        ours.forget()
        _, reasons = ours.columns(values)
        assert all("is unknown to the registry" in one for one in reasons or [""])
        assert away.asked == task


def test_a_format_with_a_schema_needs_a_registry() -> None:
    made = decoder(AVRO, Settings(), record=False)
    with pytest.raises(RegistryMissing):
        list(made(iter([block([b"x"])])))


def test_a_real_registry_calls_the_largest_id_unknown_or_is_not_asked(registry: Settings) -> None:
    judge = Judge(AVRO, RegistryAddress.of(AVRO, registry))
    for schema_id in (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\0\0\0\0"):
        _, reasons = judge.columns(pa.array([b"\0" + schema_id + b"x"], pa.binary()))
        assert reasons is not None
        assert "is unknown to the registry" in reasons[0]


def test_a_column_with_our_own_name_is_refused() -> None:
    topic = Topic("t", schema="_dead boolean")
    with pytest.raises(BadPipeline, match="a column _dead, a name that is taken"):
        parsed(None, Source(topic), Settings())  # type: ignore[arg-type]
