"""Changes: what a connector writes is read into the general form, or called undecodable with the reason."""

import contextlib
import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater import Database, Table
from headwater.errors import Undecodable
from headwater.log.formats.change_values import NOT_SENT
from headwater.log.formats.changes import ChangesCodec

KINDS = Table(
    Database("shop"),
    "public.kinds",
    schema="id long NOT NULL, amount decimal(20,4), day date, at timestamp, local timestamp_ntz, "
    "name string, raw binary, days array<date>, amounts array<decimal(10,2)>, x double, y float, ok boolean, "
    "xs array<double>, numbers array<int>, ids array<string>",
    key="id",
)
CODEC = ChangesCodec(KINDS.changes)
ROW = {
    "id": 1,
    "amount": "12345.6700",
    "day": 19782,
    "at": "2024-02-29T10:34:56.123456Z",
    "local": 1709210096123456,
    "name": "hi",
    "raw": "3q2+7w==",
    "days": [19782, None],
    "amounts": ["1.10", "2.25"],
    "x": 2.25,
    "y": 1.5,
    "ok": True,
    "xs": [2.25, None],
    "numbers": [1, 2],
    "ids": [],
    "added_since": [1, 2],
}
SOURCE = {"connector": "postgresql", "ts_ms": 1795053648258, "ts_us": 1795053648258947, "lsn": 25411528}


def envelope(op="c", before=None, after=None, **more) -> bytes:
    return json.dumps({"before": before, "after": after, "source": SOURCE, "op": op, **more}).encode()


def compact(data: bytes) -> bytes:
    """As a connector writes it: without spaces."""
    return data.replace(b" ", b"")


def test_a_change_is_read_with_every_value_as_the_database_had_it():
    said = {"id": "763:25411528", "total_order": 2, "data_collection_order": 1}
    found = CODEC.decode(envelope(after=ROW, transaction=said))
    after = found.after
    assert found.key.id == 1
    assert after.amount == Decimal("12345.6700")
    assert (after.day, after.days) == (date(2024, 2, 29), [date(2024, 2, 29), None])
    assert after.at == datetime(2024, 2, 29, 10, 34, 56, 123456, tzinfo=UTC)
    assert after.local == datetime(2024, 2, 29, 12, 34, 56, 123456)
    assert (after.raw, after.amounts) == (bytes.fromhex("deadbeef"), [Decimal("1.10"), Decimal("2.25")])
    assert found.source_position == "0/183BFC8"
    assert found.committed_at == datetime(2026, 11, 19, 2, 0, 48, 258947, tzinfo=UTC)
    assert (found.transaction.id, found.transaction.place) == ("763", 2)


@pytest.mark.parametrize(("op", "name"), [("r", "read"), ("c", "insert"), ("u", "update")])
def test_an_operation_is_told_in_a_word(op, name):
    assert CODEC.decode(envelope(op, after=ROW)).operation == name


def test_a_delete_may_tell_the_key_alone():
    found = CODEC.decode(envelope("d", before={"id": 7, "name": None}))
    assert (found.operation, found.key.id, found.after, found.before.name) == ("delete", 7, None, None)


def test_what_a_double_can_be_and_json_cannot_comes_as_text():
    told = {**ROW, "x": "-Infinity", "y": "Infinity", "xs": ["NaN", None, 2.5]}
    found = CODEC.decode(envelope(after=told)).after
    assert (found.x, found.y, found.xs[1:]) == (-math.inf, math.inf, [None, 2.5])
    assert math.isnan(found.xs[0])
    assert found.amount == Decimal("12345.6700")


def test_the_largest_float_is_a_float():
    assert CODEC.decode(envelope(after={**ROW, "y": 3.4028235e38})).after.y == 3.4028235e38


def test_a_null_array_of_a_row_whose_all_columns_are_sent_is_null():
    assert CODEC.decode(envelope("u", before=ROW, after={**ROW, "xs": None})).after.xs is None


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (envelope(after={**ROW, "name": NOT_SENT}), "REPLICA IDENTITY FULL"),
        (envelope(after={**ROW, "raw": "aGVhZHdhdGVyOm5vdC1zZW50"}), "REPLICA IDENTITY FULL"),
        (envelope("t"), "was truncated"),
        (envelope("m"), "no change of a row"),
        (envelope("x"), "no operation"),
        (envelope("u"), "it has no row"),
        (envelope(after={**ROW, "id": None}), "Expected `int`, got `null`"),
        (envelope(after={**ROW, "ids": ["4364e40f-03bc-316f-8cb3-164467f133c7"]}), "REPLICA IDENTITY FULL"),
        (compact(envelope(after={**ROW, "numbers": [*NOT_SENT.encode()]})), "REPLICA IDENTITY FULL"),
        (envelope("u", after={**ROW, "xs": None}), "an array is null, or did not change"),
        (envelope(after={**ROW, "day": -625821272}), "'day' is outside the years 1 to 9999"),
        (envelope(after={**ROW, "local": 9223372036825200000}), "'local' is outside the years"),
        (envelope(after={**ROW, "at": "-infinity"}), "Invalid RFC3339"),
        (envelope(after={**ROW, "amount": "POSITIVE_INFINITY"}), "Invalid decimal"),
        (envelope(after={**ROW, "x": "much"}), "Expected `float"),
        (envelope(after={**ROW, "y": 1e39}), "Expected `float"),
        (b'{"id": 1}', "missing required field `op`"),
        (b"\xff", "changes"),
    ],
)
def test_what_cannot_be_told_without_loss_is_undecodable_and_says_why(data, why):
    with pytest.raises(Undecodable, match=why):
        CODEC.decode(data)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60))
def test_whatever_bytes_come_they_decode_or_are_called_undecodable(data):
    with contextlib.suppress(Undecodable):
        CODEC.decode(data)


DAYS = st.dates(min_value=date(1000, 1, 1))
CENTS = st.decimals(-99999999, 99999999, places=2, allow_nan=False)
ROWS = st.fixed_dictionaries(
    {"id": st.integers(-(2**63), 2**63 - 1)},
    optional={
        "amount": CENTS | st.none(),
        "day": DAYS | st.none(),
        "at": st.datetimes(min_value=datetime(1000, 1, 1), timezones=st.just(UTC)),
        "local": st.datetimes(min_value=datetime(1000, 1, 1)),
        "name": st.text(st.characters(codec="utf-8")).filter(lambda text: NOT_SENT not in text),
        "raw": st.binary(max_size=20),
        "days": st.lists(DAYS | st.none(), max_size=3),
        "amounts": st.lists(CENTS | st.none(), max_size=3),
        "x": st.floats(allow_nan=False, allow_infinity=False),
        "ok": st.booleans(),
    },
)
CHANGES = st.fixed_dictionaries(
    {
        "before": ROWS | st.none(),
        "after": ROWS,
        "operation": st.sampled_from(["read", "insert", "update"]),
        "source_position": st.sampled_from(["0/183BFC8", "FF/0", "bin.000003:1234", None]),
        "committed_at": st.datetimes(min_value=datetime(1971, 1, 1), timezones=st.just(UTC)),
        "transaction": st.none() | st.fixed_dictionaries({"id": st.just("9"), "place": st.integers(1, 99)}),
    }
)


@settings(max_examples=200, deadline=None)
@given(CHANGES)
def test_what_decodes_equals_what_was_encoded(change):
    change = {**change, "before": change["before"] or change["after"], "key": {"id": change["after"]["id"]}}
    found = CODEC.decode(CODEC.encode(change))
    assert CODEC.decode(CODEC.encode(found)) == found
    assert found.after.id == change["after"]["id"]
    for name, value in change["after"].items():
        assert getattr(found.after, name) == value
    assert (found.operation, found.committed_at) == (change["operation"], change["committed_at"])
    assert found.source_position == change["source_position"]


@pytest.mark.parametrize(("told", "read"), [(True, True), (1, True), (0, False)])
def test_a_boolean_of_mariadb_is_a_number_or_a_boolean_by_how_its_table_was_learned(told, read):
    assert CODEC.decode(envelope(after=ROW | {"ok": told, "x": "NaN"})).after.ok is read


def test_a_number_that_is_no_boolean_is_undecodable():
    with pytest.raises(Undecodable):
        CODEC.decode(envelope(after=ROW | {"ok": 2}))
