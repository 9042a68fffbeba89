"""Every type of the reference, through a real PostgreSQL, Debezium and Kafka, to Python and to Spark."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from headwater import Database, Settings, Table
from headwater.capture.capturing import ensure
from headwater.capture.checks import check
from headwater.capture.checks.fits import IN_ARRAYS, POSTGRES
from headwater.errors import Undecodable
from tests.capture.captured import own_database
from tests.capture.kinds import Kind, Reference, in_spark, is_same, records_of

pytestmark = [pytest.mark.system, pytest.mark.usefixtures("connect")]
KINDS = Reference("PostgreSQL")
_OURS = {"an enum": "mood", "an enum's array": "mood[]", "a domain": "few"}
_MADE = "CREATE TYPE mood AS ENUM ('ok'); CREATE DOMAIN few AS int CHECK (VALUE < 9)"


def column(kind: Kind) -> str:
    return _OURS.get(kind.column, kind.column)


def declared(kind: Kind) -> str:
    return "int" if kind.column == "a domain" else kind.declared


@pytest.fixture(scope="module")
def shop(postgres: str, system: Settings) -> Iterator[Database]:
    with own_database(postgres, "kinds", system) as database:
        yield database


@pytest.fixture(scope="module")
def table(shop: Database) -> Table:
    columns = ", ".join(f"c{n} {declared(one)}" for n, one in enumerate(KINDS.all))
    return Table(shop, "public.kinds", schema=f"id long NOT NULL, {columns}", key="id")


@pytest.fixture(scope="module")
def records(shop: Database, system: Settings, table: Table) -> list[Any]:
    """One row in the snapshot, one inserted and updated, one of nulls, and one for each bad value."""
    names = ", ".join(f"c{n} {column(one)}" for n, one in enumerate(KINDS.all))
    good = list(enumerate(KINDS.whole))
    values = ", ".join(f"CAST({one.inserted} AS {column(one)})" for _, one in good)
    insert = f"INSERT INTO kinds (id, {', '.join(f'c{n}' for n, _ in good)}) VALUES (%s, {values})"
    with psycopg.connect(shop.url or "", autocommit=True) as sql:
        sql.execute(f"{_MADE}; CREATE TABLE kinds (id bigint PRIMARY KEY, note text, {names})")
        sql.execute("ALTER TABLE kinds REPLICA IDENTITY FULL")
        sql.execute(insert.replace("%s", "1"))
        for n, one in KINDS.numbered(KINDS.changed):
            sql.execute(f"INSERT INTO kinds (id, c{n}) VALUES (4, {one.inserted})")
        ensure("kinds", [table], system)
        reads = records_of(table, system, 1 + len(KINDS.changed))
        sql.execute(insert.replace("%s", "2"))
        sql.execute("UPDATE kinds SET note = 'changed' WHERE id = 2")
        sql.execute("INSERT INTO kinds (id) VALUES (3)")
        for n, one in KINDS.numbered(KINDS.dead):
            sql.execute(f"INSERT INTO kinds (id, c{n}) VALUES ({n}, {one.inserted})")
    return records_of(table, system, len(reads) + 3 + len(KINDS.dead))


def test_every_type_comes_to_python_as_the_reference_says(records):
    read, inserted, updated = (records[n].value for n in (0, 2, 3))
    assert (read.operation, inserted.operation, updated.operation) == ("read", "insert", "update")
    for row in (read.after, inserted.after, updated.before, updated.after):
        assert KINDS.wrong(row) == []


def test_every_type_comes_to_spark_as_the_reference_says(records, table, system):
    rows = in_spark(table, system, records)
    assert [one["_dead"] for one in rows] == [False] * 5 + [True] * len(KINDS.dead)
    for row in (rows[0]["after"], rows[2]["after"], rows[3]["before"], rows[3]["after"]):
        assert KINDS.wrong(row) == []


def test_null_is_null_in_every_type(records, table, system):
    row, spark = records[4].value.after, in_spark(table, system, records)[4]["after"]
    assert {getattr(row, f"c{n}") for n in range(len(KINDS.all))} == {None}
    assert {value for name, value in spark.items() if name != "id"} == {None}


def test_a_value_that_its_type_cannot_hold_is_no_other_value_in_python(records):
    for (n, kind), record in zip(KINDS.numbered(KINDS.dead), records[5:], strict=True):
        if kind.declared.startswith("decimal") and "Inf" not in kind.inserted:
            assert str(getattr(record.value.after, f"c{n}")) in ("NaN", "1" + "0" * 40)
        else:
            with pytest.raises(Undecodable):
                _ = record.value


def test_what_a_snapshot_changes_is_in_the_reference(records):
    (n, kind), *more = KINDS.numbered(KINDS.changed)
    assert (records[1].value.after.id, more) == (4, [])
    assert is_same(getattr(records[1].value.after, f"c{n}"), kind.read)


def test_the_check_agrees_with_the_reference(records, table, system):
    assert records
    assert not [one for one in check([table], system) if one.severity == "error"]


def test_the_reference_has_every_type_that_the_check_lets_pass(shop, records):
    assert records
    with psycopg.connect(shop.url or "") as sql:
        rows = sql.execute(
            "SELECT coalesce(e.typname, t.typname), e.oid IS NOT NULL FROM pg_attribute a JOIN pg_type t "
            "ON t.oid = a.atttypid LEFT JOIN pg_type e ON e.oid = t.typelem AND e.typarray = t.oid WHERE "
            "a.attrelid = 'kinds'::regclass AND a.attnum > 0"
        ).fetchall()
    shown = {"enum" if name == "mood" else name for name, is_array in rows if not is_array}
    arrays = {"enum" if name == "mood" else name for name, is_array in rows if is_array}
    assert shown - {"few"} == set(POSTGRES)
    assert arrays == set(IN_ARRAYS)
