"""Which rows can be kept by key, and how they become changes; judged without Spark."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as spark

from headwater import RedisSink
from headwater.errors import ColumnsMismatch, KeyMissing, SinkUnreachable, SpecError, ValueMismatch
from headwater.log.schema import parse_schema
from headwater.sink import by_key
from headwater.sink.by_key import Change, Task, newest, tried
from headwater.sink.keyed import DELETED, KEPT_POSITION, Keyed
from headwater.sink.plain import in_json, text

ROWS = "id long, name string, operation string, position long"


def refusal(columns: str, key="id", version="position") -> ColumnsMismatch:
    with pytest.raises(ColumnsMismatch) as caught:
        RedisSink("orders", key=key, version=version).check(parse_schema(columns))
    return caught.value


def test_a_tables_changes_can_be_kept():
    RedisSink("orders", key="id").check(parse_schema(ROWS))
    columns = Keyed.of("id", "position", "orders").columns(parse_schema(ROWS))
    assert columns.names == ["id", "name"]


def test_rows_with_a_version_of_their_own_keep_it_as_a_column():
    columns = parse_schema("card string, at timestamp")
    RedisSink("seen", key="card", version="at").check(columns)
    assert Keyed.of("card", "at", "seen").columns(columns).names == ["card", "at"]


def test_a_key_that_is_no_column_is_refused():
    assert "'orders' is keyed by 'order', which is no column" in refusal(ROWS, key="order").message
    assert "which is no column" in refusal(ROWS, key="operation").message


def test_a_key_that_is_no_plain_value_is_refused():
    told = refusal("id array<long>, position long")
    assert "is keyed by 'id', a array<bigint>" in told.message


def test_rows_that_do_not_tell_which_is_newer_are_refused_with_the_way_out():
    told = refusal("id long, name string")
    assert "has no 'position', a number or an instant that tells which row of a key is newer" in told.message
    assert 'version="…"' in told.hint
    assert "has no 'name', a number" in refusal(ROWS, version="name").message


def test_the_copys_own_column_cannot_be_one_of_the_rows():
    assert "has a _position of its own" in refusal(f"{ROWS}, _position long").message


@pytest.mark.parametrize(
    ("key", "version"), [((), "position"), (("id", "id"), "position"), ("position", "position")]
)
def test_a_key_that_names_no_column_or_one_twice_or_the_version_is_refused(key, version):
    with pytest.raises(SpecError, match="the copy 'orders' cannot be keyed by"):
        RedisSink("orders", key=key, version=version)


def task(keep, at_once=500) -> Task:
    return Task(Keyed(("id",)), parse_schema("id long, name string"), "orders", keep, at_once)


def block(*rows: tuple[int | None, str | None, int | None, bool]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [{"id": id_, "name": name, KEPT_POSITION: at, DELETED: gone} for id_, name, at, gone in rows],
        schema=pa.schema(
            [("id", pa.int64()), ("name", pa.string()), (KEPT_POSITION, pa.int64()), (DELETED, pa.bool_())]
        ),
    )


def kept(*blocks: pa.RecordBatch, at_once=500) -> list[list[Change]]:
    chunks: list[list[Change]] = []
    list(task(lambda found: chunks.extend(map(list, found)), at_once)(iter(blocks)))
    return chunks


def test_a_task_hands_over_the_newest_change_of_each_key_in_chunks():
    rows = block((1, "a", 5, False), (2, "b", 6, False), (1, "c", 7, False), (3, None, 8, True))
    assert kept(rows, at_once=2) == [
        [Change((1,), 7, {"id": 1, "name": "c"}), Change((2,), 6, {"id": 2, "name": "b"})],
        [Change((3,), 8, None)],
    ]


def test_a_row_without_a_key_fails_its_batch():
    with pytest.raises(KeyMissing, match="a row for the copy 'orders' has no 'id', its key"):
        kept(block((None, "a", 1, False)))


@pytest.mark.parametrize(("position", "why"), [(None, "null"), (-1, "negative")])
def test_a_row_without_a_position_fails_its_batch(position, why):
    with pytest.raises(ValueMismatch, match=f"'position' of a row for the copy 'orders' is {why}"):
        kept(block((1, "a", position, False)))


def test_what_a_store_passes_over_is_read_to_its_end():
    read = []

    def blocks():
        for number in range(3):
            read.append(number)
            yield block((number, "a", 1, False))

    list(task(lambda _: None)(blocks()))
    assert read == [0, 1, 2]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5))))
def test_the_newest_of_each_key_is_found_in_any_order(pairs):
    found = newest(Change((key,), at, {"at": at}) for key, at in pairs)
    assert {one.key[0]: one.position for one in found} == {
        key: max(at for other, at in pairs if other == key) for key, _ in pairs
    }


def test_what_cannot_be_reached_is_tried_four_times_and_then_fails(monkeypatch):
    pauses: list[float] = []
    monkeypatch.setattr(by_key.time, "sleep", pauses.append)
    answers = iter([SinkUnreachable("away"), SinkUnreachable("away"), "here"])

    def asked():
        answer = next(answers, SinkUnreachable("away for good"))
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert tried(asked) == "here"
    with pytest.raises(SinkUnreachable, match="for good"):
        tried(asked)
    assert pauses == [0.1, 0.4, 0.1, 0.4, 1.6]


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        ("decimal(30,2)", Decimal("12345678901234567890123456.70"), "12345678901234567890123456.70"),
        ("decimal(10,2)", Decimal("0E-2"), "0.00"),
        ("timestamp", datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC), "2026-01-02T03:04:05.000006Z"),
        ("timestamp_ntz", datetime(2026, 1, 2, 3, 4, 5), "2026-01-02T03:04:05"),
        ("date", date(1, 1, 1), "0001-01-01"),
        ("binary", b"\x00\xff", "AP8="),
        ("double", float("nan"), "NaN"),
        ("float", float("-inf"), "-Infinity"),
        ("double", 0.1, 0.1),
        ("long", 2**63 - 1, 2**63 - 1),
        ("array<decimal(3,1)>", [Decimal("1.5"), None], ["1.5", None]),
        ("struct<a: date, b: boolean>", {"a": None, "b": True}, {"a": None, "b": True}),
        ("map<string, date>", {"a": date(2026, 1, 1)}, {"a": "2026-01-01"}),
        ("map<date, long>", {date(2026, 1, 1): 1}, [["2026-01-01", 1]]),
        ("string", None, None),
    ],
)
def test_a_value_in_json_loses_nothing(kind, value, wanted):
    turn = in_json(parse_schema(f"it {kind}").fields[0].dataType)
    assert turn(value) == wanted


def test_an_interval_in_json_is_a_duration():
    assert in_json(spark.DayTimeIntervalType())(timedelta(days=1, microseconds=5)) == "P1DT0.000005S"


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        ("string", 'a "b"', b'a "b"'),
        ("binary", b"\x00", b"\x00"),
        ("boolean", True, b"true"),
        ("long", 5, b"5"),
        ("decimal(4,2)", Decimal("1.50"), b"1.50"),
        ("array<string>", ["a"], b'["a"]'),
    ],
)
def test_a_value_as_text_is_what_people_read(kind, value, wanted):
    assert text(parse_schema(f"it {kind}").fields[0].dataType)(value) == wanted
