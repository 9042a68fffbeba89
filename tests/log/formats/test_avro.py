import io
import json
import struct
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import fastavro
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import RegistryUnreachable, SpecError, Undecodable, ValueMismatch
from headwater.log.formats.avro import AvroCodec, avro_schema
from headwater.log.formats.framing import SchemaText
from headwater.log.topic import Topic
from tests.log.formats.fake_schemas import FakeSchemas
from tests.log.formats.rows import Case, cases

PAYMENTS = Topic("payments", schema="card string NOT NULL, amount double", format="avro")


def topic(schema: str, name: str = "payments") -> Topic:
    return Topic(name, schema=schema, format="avro")


@given(cases("avro"))
def test_what_decodes_equals_what_was_encoded(case: Case) -> None:
    codec = AvroCodec(case.topic, FakeSchemas())
    assert codec.decode(codec.encode(case.value)) == msgspec.convert(case.value, case.topic.row)


def test_a_record_begins_with_a_zero_byte_and_the_schemas_id() -> None:
    data = AvroCodec(PAYMENTS, FakeSchemas()).encode({"card": "42", "amount": None})
    assert data == b"\0" + struct.pack(">I", 1) + b"\x0442" + b"\0"


def test_the_schema_is_registered_once_and_not_before_the_first_record() -> None:
    schemas = FakeSchemas()
    codec = AvroCodec(PAYMENTS, schemas)
    assert schemas.known == []
    codec.encode({"card": "42"})
    codec.encode({"card": "43"})
    assert len(schemas.known) == 1


def test_a_nullable_column_is_a_union_with_null_as_default() -> None:
    assert json.loads(avro_schema(PAYMENTS)) == {
        "type": "record",
        "name": "Payments",
        "fields": [
            {"name": "card", "type": "string"},
            {"name": "amount", "type": ["null", "double"], "default": None},
        ],
    }


def test_structs_of_the_same_name_become_records_of_different_names() -> None:
    both = topic("a struct<x struct<n int>>, b struct<x struct<s string>>")
    codec = AvroCodec(both, FakeSchemas())
    row = codec.decode(codec.encode({"a": {"x": {"n": 1}}, "b": {"x": {"s": "one"}}}))
    assert msgspec.to_builtins(row) == {"a": {"x": {"n": 1}}, "b": {"x": {"s": "one"}}}


def test_a_topic_whose_name_begins_with_a_digit_has_a_name_in_avro() -> None:
    assert json.loads(avro_schema(topic("n int", "2024-payments")))["name"] == "T2024Payments"


def test_a_new_reader_reads_old_records() -> None:
    schemas = FakeSchemas()
    old = AvroCodec(PAYMENTS, schemas).encode({"card": "42", "amount": 1.5})
    new = topic("card string NOT NULL, country string, amount double")
    assert AvroCodec(new, schemas).decode(old) == new.row(card="42", amount=1.5, country=None)


def test_an_old_reader_reads_new_records() -> None:
    schemas = FakeSchemas()
    new = topic("card string NOT NULL, country string, amount double")
    data = AvroCodec(new, schemas).encode({"card": "42", "amount": 1.5, "country": "SE"})
    assert AvroCodec(PAYMENTS, schemas).decode(data) == PAYMENTS.row(card="42", amount=1.5)


def test_an_int_is_read_as_a_long() -> None:
    schemas = FakeSchemas()
    data = AvroCodec(topic("n int, d struct<n int>"), schemas).encode({"n": 7, "d": {"n": 8}})
    wide = topic("n long, d struct<n long>")
    assert msgspec.to_builtins(AvroCodec(wide, schemas).decode(data)) == {"n": 7, "d": {"n": 8}}


def test_a_record_without_a_column_that_the_reader_needs_is_undecodable() -> None:
    schemas = FakeSchemas()
    data = AvroCodec(topic("amount double"), schemas).encode({"amount": 1.5})
    with pytest.raises(Undecodable, match="card"):
        AvroCodec(PAYMENTS, schemas).decode(data)


def test_records_of_another_peoples_schema_are_read() -> None:
    schemas = FakeSchemas()
    theirs: dict[str, Any] = {
        "type": "record",
        "name": "Payment",
        "namespace": "com.acme",
        "fields": [
            {"name": "card", "type": "string"},
            {"name": "amount", "type": "float"},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        ],
    }
    schema_id = schemas.add(SchemaText("avro", json.dumps(theirs)))
    ours = topic("card string NOT NULL, amount double, at timestamp")
    at = datetime(2024, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
    data = frame(schema_id, theirs, {"card": "42", "amount": 1.5, "at": at})
    assert AvroCodec(ours, schemas).decode(data) == ours.row(card="42", amount=1.5, at=at)


def frame(schema_id: int, schema: dict[str, Any], value: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return b"\0" + struct.pack(">I", schema_id) + stream.getvalue()


def test_a_map_with_keys_that_are_not_text_is_refused() -> None:
    with pytest.raises(SpecError, match="Avro wants text as key") as refused:
        AvroCodec(topic("m map<int, string>"), FakeSchemas())
    assert "map<string, ...>" in refused.value.hint


def test_a_column_that_avro_cannot_name_is_refused() -> None:
    with pytest.raises(SpecError, match="'größe' of topic 'payments' cannot be named in avro"):
        avro_schema(topic("`größe` int"))


@pytest.mark.parametrize(
    ("schema", "value", "why"),
    [
        ("n int", {"n": "seven"}, "Expected `int"),
        ("n byte", {"n": 128}, "127"),
        ("s struct<d decimal(4,2)>", {"s": {"d": Decimal("1.234")}}, "1.234 does not fit"),
        ("s struct<d decimal(4,2)>", {"s": {"d": Decimal(100)}}, "100 does not fit"),
        ("s struct<d decimal(4,2)>", {"s": {"d": Decimal("NaN")}}, "NaN does not fit"),
        ("f float", {"f": 1e39}, "Expected `float` <="),
        ("t string", {"t": "\ud800"}, "surrogates"),
        ("n int", {"m": 1}, "unknown field"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(schema: str, value: object, why: str) -> None:
    schemas = FakeSchemas()
    with pytest.raises(ValueMismatch, match=why):
        AvroCodec(topic(schema), schemas).encode(value)
    assert schemas.known == []


@given(st.binary(max_size=40))
def test_garbage_is_undecodable_or_a_row_but_never_another_error(data: bytes) -> None:
    busy = topic(
        "s string, n long, d decimal(9,2), at timestamp, l array<date>, m map<string, timestamp_ntz>"
    )
    schemas = FakeSchemas()
    codec = AvroCodec(busy, schemas)
    codec.encode({})
    for one in (data, b"\0\0\0\0\1" + data):
        with suppress(Undecodable):
            assert isinstance(codec.decode(one), busy.row)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "0 bytes are too few"),
        (b"\0\0\0\0", "4 bytes are too few"),
        (b"{\0\0\0\1", "its first byte is 123, not 0"),
        (b"\0\0\0\0\x63", "its schema 99 is unknown to the registry"),
        (b"\0\0\0\0\1\x0442", "."),
        (b"\0\0\0\0\1\x0442\0more", "4 bytes are left over"),
        (b"\0\0\0\0\2\x0442\0", "its schema 2 is json-schema"),
        (b"\0\0\0\0\3\x0442\0", "its schema 3 cannot be used"),
    ],
)
def test_what_is_not_a_record_is_undecodable(data: bytes, why: str) -> None:
    schemas = FakeSchemas()
    codec = AvroCodec(PAYMENTS, schemas)
    codec.encode({"card": "42"})
    schemas.add(SchemaText("json-schema", "{}"))
    schemas.add(SchemaText("avro", "no schema"))
    with pytest.raises(Undecodable, match=why):
        codec.decode(data)


def test_a_registry_that_is_down_is_not_the_records_fault() -> None:
    class Down(FakeSchemas):
        def schema(self, schema_id: int) -> SchemaText:
            raise RegistryUnreachable(f"no answer for {schema_id}")

    with pytest.raises(RegistryUnreachable):
        AvroCodec(PAYMENTS, Down()).decode(b"\0\0\0\0\1\x0442\0")
