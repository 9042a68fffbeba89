"""Plain JSON: what decodes equals what was encoded, what does not fit is refused, garbage is named."""

import contextlib
import json
from datetime import UTC, datetime
from decimal import Decimal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater import Topic
from headwater.errors import Undecodable, ValueMismatch
from headwater.log.formats.codec import JsonCodec
from tests.log.formats.rows import Case, cases

PAYMENTS = Topic(
    "payments", schema="card string NOT NULL, n int, amount decimal(5,2), at timestamp, x double"
)
CODEC = JsonCodec(PAYMENTS)


@settings(max_examples=200, deadline=None)
@given(cases("json"))
def test_what_decodes_equals_what_was_encoded(case: Case):
    codec = JsonCodec(case.topic)
    assert codec.decode(codec.encode(case.value)) == msgspec.convert(case.value, case.topic.row)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60))
def test_whatever_bytes_come_they_decode_or_are_called_undecodable(data):
    with contextlib.suppress(Undecodable):
        CODEC.decode(data)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({}, "missing required field `card`"),
        ({"card": 1}, "Expected `str`, got `int` - at `$.card`"),
        ({"card": "1", "n": 2**31}, "`$.n`"),
        ({"card": "1", "n": "7"}, "`$.n`"),
        ({"card": "1", "x": float("nan")}, "`$.x`"),
        ({"card": "1", "x": float("inf")}, "`$.x`"),
        ({"card": "1", "at": datetime(2026, 1, 1)}, "timezone"),
        ({"card": "1", "amount": Decimal("1000.00")}, "does not fit decimal(5,2)"),
        ({"card": "1", "amount": Decimal("1.005")}, "does not fit decimal(5,2)"),
        ({"card": "1", "amount": Decimal("NaN")}, "`$.amount`"),
        ({"card": "1", "typo": 1}, "unknown field `typo`"),
        ({"card": "\ud800"}, "surrogates not allowed"),
        ("not a row", "Expected `object`"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_its_place(value, why):
    with pytest.raises(ValueMismatch) as caught:
        CODEC.encode(value)
    assert why in str(caught.value)


@pytest.mark.parametrize(
    "schema", ["d array<decimal(3,1)>", "d map<string,decimal(3,1)>", "d struct<e decimal(3,1)>"]
)
def test_a_decimal_inside_another_type_is_checked_too(schema):
    long = Decimal("123.45")
    value = {"array": [long], "map": {"e": long}, "struct": {"e": long}}[schema[2:].partition("<")[0]]
    with pytest.raises(ValueMismatch, match="does not fit"):
        JsonCodec(Topic("t", schema=schema)).encode({"d": value})


def test_the_text_is_what_spark_and_people_read():
    row = {"card": "42", "amount": Decimal("1.50"), "at": datetime(2026, 1, 1, tzinfo=UTC)}
    said = json.loads(CODEC.encode(row))
    assert said == {"card": "42", "n": None, "amount": 1.5, "at": "2026-01-01T00:00:00Z", "x": None}


def test_columns_that_the_reader_does_not_know_are_passed_over():
    assert CODEC.decode(b'{"card": "42", "new": [1, 2]}') == PAYMENTS.row(card="42")
