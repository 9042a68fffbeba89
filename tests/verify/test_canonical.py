"""One form for what is the same, and another for what is not."""

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.log.schema import parse_schema
from headwater.sink.plain import in_json, text
from headwater.sink.restored import from_json, from_text
from headwater.verify.canonical import canonical, digest_of

MOMENT = datetime(2026, 1, 2, 3, 4, 5, 6, UTC)
VALUES = {
    "string": st.text(),
    "boolean": st.booleans(),
    "long": st.integers(-(2**63), 2**63 - 1),
    "double": st.floats(),
    "float": st.floats(width=32),
    "decimal(38,9)": st.decimals(allow_nan=False, allow_infinity=False, places=9, max_value=10**20),
    "date": st.dates(),
    "timestamp": st.datetimes(timezones=st.just(UTC)),
    "timestamp_ntz": st.datetimes(),
    "binary": st.binary(),
    "array<double>": st.lists(st.none() | st.floats()),
    "map<string,int>": st.dictionaries(st.text(), st.integers(0, 9)),
    "map<int,string>": st.dictionaries(st.integers(0, 9), st.text()),
    "struct<a: date, b: array<binary>>": st.fixed_dictionaries(
        {"a": st.none() | st.dates(), "b": st.none() | st.lists(st.binary())}
    ),
}


def kind(name):
    return parse_schema(f"v {name}")["v"].dataType


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        ("decimal(9,2)", Decimal("1.50"), Decimal("1.5")),
        ("decimal(9,2)", Decimal("-0.00"), Decimal(0)),
        ("decimal(38,9)", Decimal(10) ** 28, Decimal("10000000000000000000000000000.0")),
        ("timestamp", MOMENT, MOMENT.astimezone(timezone(timedelta(hours=2)))),
        ("timestamp", MOMENT, MOMENT.replace(tzinfo=None)),
        ("boolean", True, 1),
        ("boolean", False, b"\0"),
        ("double", float("nan"), float("nan")),
        ("double", 0.0, -0.0),
        ("float", 0.1, 0.10000000149011612),
        ("binary", b"a", memoryview(b"a")),
        ("string", "a", b"a"),
        ("string", str(UUID(int=1)), UUID(int=1)),
        ("date", date(2026, 1, 2), datetime(2026, 1, 2)),
        ("map<string,int>", {"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ],
)
def test_the_same_value_told_by_two_systems_has_one_form(name, one, other):
    assert canonical(kind(name))(one) == canonical(kind(name))(other)


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        ("decimal(38,9)", Decimal("12345678901234567890.1"), Decimal("12345678901234567890.2")),
        ("timestamp", MOMENT, MOMENT + timedelta(microseconds=1)),
        ("string", None, ""),
        ("string", "a", "a "),
        ("array<string>", [], None),
        ("array<string>", ["a", None], ["a"]),
        ("double", 0.1, 0.1 + 2**-55),
        ("long", 2**53, 2**53 + 1),
    ],
)
def test_what_differs_a_little_differs(name, one, other):
    digest = digest_of(parse_schema(f"v {name}"))
    assert digest({"v": one}) != digest({"v": other})


@given(st.data())
@pytest.mark.parametrize("name", VALUES)
def test_what_a_copy_keeps_as_text_or_json_is_read_back_the_same(name, data):
    value, of = data.draw(VALUES[name]), kind(name)
    same = canonical(of)
    assert same(from_json(of)(in_json(of)(value))) == same(value)
    assert same(from_text(of)(text(of)(value))) == same(value)
