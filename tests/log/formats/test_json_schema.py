import json
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import Undecodable, ValueMismatch
from headwater.log.formats.codec import JsonCodec
from headwater.log.formats.framing import SchemaText
from headwater.log.formats.json_schema import JsonSchemaCodec, json_schema_text
from headwater.log.topic import Topic
from tests.log.formats.fake_schemas import FakeSchemas
from tests.log.formats.rows import Case, cases

PAYMENTS = Topic("payments", schema="card string NOT NULL, amount double", format="json-schema")


def schema_of(topic: Topic) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json_schema_text(topic))
    return found


@given(cases("json-schema"))
def test_what_decodes_equals_what_was_encoded(case: Case) -> None:
    codec = JsonSchemaCodec(case.topic, FakeSchemas())
    assert codec.decode(codec.encode(case.value)) == msgspec.convert(case.value, case.topic.row)


@given(cases("json-schema"))
def test_every_record_is_valid_under_its_schema(case: Case) -> None:
    data = JsonSchemaCodec(case.topic, FakeSchemas()).encode(case.value)
    schema = schema_of(case.topic)
    jsonschema.Draft7Validator.check_schema(schema)
    jsonschema.Draft7Validator(schema).validate(json.loads(data[5:]))


def test_a_record_is_the_plain_json_behind_a_zero_byte_and_the_schemas_id() -> None:
    value = {"card": "42", "amount": None}
    data = JsonSchemaCodec(PAYMENTS, FakeSchemas()).encode(value)
    assert data == b"\0\0\0\0\1" + JsonCodec(PAYMENTS).encode(value)


def test_the_content_model_is_closed_and_only_columns_that_are_not_null_are_required() -> None:
    assert schema_of(PAYMENTS) == {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Payments",
        "type": "object",
        "properties": {"card": {"type": "string"}, "amount": {"type": ["number", "null"]}},
        "required": ["card"],
        "additionalProperties": False,
    }


def test_whole_numbers_have_the_bounds_of_their_type() -> None:
    schema = schema_of(Topic("t", schema="n byte NOT NULL", format="json-schema"))
    assert schema["properties"]["n"] == {"type": "integer", "minimum": -128, "maximum": 127}


def test_a_new_reader_reads_old_records_and_an_old_one_new_records() -> None:
    schemas = FakeSchemas()
    wider = Topic("payments", schema="card string NOT NULL, country string", format="json-schema")
    old, new = JsonSchemaCodec(PAYMENTS, schemas), JsonSchemaCodec(wider, schemas)
    assert new.decode(old.encode({"card": "42", "amount": 1.5})) == wider.row(card="42", country=None)
    assert old.decode(new.encode({"card": "42", "country": "SE"})) == PAYMENTS.row(card="42", amount=None)


def test_a_value_that_does_not_fit_is_refused_before_its_schema_is_registered() -> None:
    schemas = FakeSchemas()
    with pytest.raises(ValueMismatch, match="Expected `str`"):
        JsonSchemaCodec(PAYMENTS, schemas).encode({"card": 42})
    assert schemas.known == []


@given(st.binary(max_size=40))
def test_garbage_is_undecodable_or_a_row_but_never_another_error(data: bytes) -> None:
    codec = JsonSchemaCodec(PAYMENTS, FakeSchemas())
    codec.encode({"card": "42"})
    for one in (data, b"\0\0\0\0\1" + data):
        with pytest.raises(Undecodable, match="is not json-schema"):
            codec.decode(one)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\0\0\0\0", "4 bytes are too few"),
        (b'{"card": "42"}', "its first byte is 123, not 0"),
        (b'\0\0\0\0\x63{"card": "42"}', "its schema 99 is unknown to the registry"),
        (b'\0\0\0\0\1{"card": "42"', "truncated"),
        (b'\0\0\0\0\1{"amount": 1}', "missing required field `card`"),
        (b'\0\0\0\0\2{"card": "42"}', "its schema 2 is avro"),
        (b'\0\0\0\0\3{"card": "42"}', "its schema 3 cannot be used"),
    ],
)
def test_what_is_not_a_record_is_undecodable(data: bytes, why: str) -> None:
    schemas = FakeSchemas()
    codec = JsonSchemaCodec(PAYMENTS, schemas)
    codec.encode({"card": "42"})
    schemas.add(SchemaText("avro", '"string"'))
    schemas.add(SchemaText("json-schema", "no schema"))
    with pytest.raises(Undecodable, match=why):
        codec.decode(data)
