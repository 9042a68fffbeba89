"""Every type of the reference, through a real MariaDB, Debezium and Kafka, to Python and to Spark."""

from collections.abc import Iterator
from typing import Any

import pytest

from headwater import Database, Log, Settings, Table
from headwater.capture.capturing import ensure
from headwater.capture.checks import check
from headwater.capture.checks.fits import MARIADB
from headwater.clock import wait_until
from headwater.errors import Undecodable
from headwater.verify.canonical import canonical
from headwater.verify.database_source import DatabaseSource
from tests.capture.captured import SOON, Sql, own_mariadb
from tests.capture.kinds import Reference, in_spark, records_of

pytestmark = [pytest.mark.system, pytest.mark.usefixtures("connect")]
KINDS = Reference("MariaDB")
WHERE_IT_IS = "SET time_zone = '+00:00'"
ELSEWHERE = "SET GLOBAL time_zone = '{}'"


@pytest.fixture(scope="module")
def store(mariadb: str, system: Settings) -> Iterator[Database]:
    with own_mariadb(mariadb, "kinds", system) as database:
        yield database


@pytest.fixture(scope="module")
def table(store: Database) -> Table:
    columns = ", ".join(f"c{n} {one.declared}" for n, one in enumerate(KINDS.all))
    return Table(store, "kinds.kinds", schema=f"id long NOT NULL, {columns}", key="id")


@pytest.fixture(scope="module")
def sql(store: Database) -> Iterator[Sql]:
    run = Sql(store.url or "")
    run(WHERE_IT_IS, "SET sql_mode = ''")
    yield run
    run.close()


@pytest.fixture(scope="module")
def records(sql: Sql, system: Settings, table: Table) -> list[Any]:
    """One row in the snapshot, one inserted and updated, one of nulls, and one for each bad value.

    The connector sees a server whose clocks are set by another place on earth.
    """
    names = ", ".join(f"c{n} {one.column} NULL" for n, one in enumerate(KINDS.all))
    good = ", ".join(f"c{n}" for n, _ in enumerate(KINDS.whole))
    insert = f"INSERT INTO kinds (id, {good}) VALUES (:id, {', '.join(one.inserted for one in KINDS.whole)})"
    bad, odd = (
        [f"INSERT INTO kinds (id, c{n}) VALUES ({n}, {one.inserted})" for n, one in KINDS.numbered(some)]
        for some in (KINDS.dead, KINDS.changed)
    )
    sql(f"CREATE TABLE kinds (id bigint PRIMARY KEY, note text, {names})", insert.replace(":id", "1"))
    sql(ELSEWHERE.format("+05:00"))
    try:
        ensure("kinds", [table], system)
        assert wait_until(lambda: any(Log.open(system).read(table.changes)), SOON, pause=0.1)
    finally:
        sql(ELSEWHERE.format("+00:00"))
    sql(insert.replace(":id", "2"), "UPDATE kinds SET note = 'changed' WHERE id = 2")
    sql("INSERT INTO kinds (id) VALUES (3)", *bad, *odd)
    return records_of(table, system, 4 + len(bad) + len(odd))


def test_every_type_comes_to_python_as_the_reference_says(records):
    read, inserted, updated = (records[n].value for n in (0, 1, 2))
    assert (read.operation, inserted.operation, updated.operation) == ("read", "insert", "update")
    for row in (read.after, inserted.after, updated.before, updated.after):
        assert KINDS.wrong(row) == []


def test_every_type_comes_to_spark_as_the_reference_says(records, table, system):
    rows = in_spark(table, system, records)
    assert [one["_dead"] for one in rows] == [False] * 4 + [True] * len(KINDS.dead) + [False] * len(
        KINDS.changed
    )
    for row in (rows[0]["after"], rows[1]["after"], rows[2]["before"], rows[2]["after"]):
        assert KINDS.wrong(row) == []


def test_null_is_null_in_every_type(records, table, system):
    row, spark = records[3].value.after, in_spark(table, system, records)[3]["after"]
    assert {getattr(row, f"c{n}") for n in range(len(KINDS.all))} == {None}
    assert {value for name, value in spark.items() if name != "id"} == {None}


def test_a_value_that_its_type_cannot_hold_is_no_other_value(records):
    for record in records[4 : 4 + len(KINDS.dead)]:
        with pytest.raises(Undecodable):
            _ = record.value


def test_what_is_changed_on_the_way_is_in_the_reference(records):
    for (n, kind), record in zip(KINDS.numbered(KINDS.changed), records[4 + len(KINDS.dead) :], strict=True):
        assert getattr(record.value.after, f"c{n}") == kind.read


def test_the_check_agrees_with_the_reference(records, table, system):
    assert records
    assert not [one for one in check([table], system) if one.severity == "error"]


def test_the_reference_has_every_type_that_the_check_lets_pass(records, sql):
    assert records
    rows = sql(
        "SELECT data_type, column_type LIKE '%unsigned%' FROM information_schema.columns "
        "WHERE table_schema = 'kinds' AND table_name = 'kinds'"
    )
    assert {f"{base} unsigned" if unsigned else base for base, unsigned in rows} == set(MARIADB)


def test_the_database_itself_is_read_as_capture_tells_it(records, table, system):
    assert records
    rows = DatabaseSource(table, system).rows([(1,), (3,)])
    assert set(rows[3,].values()) == {3, None}
    found = {f"c{n}": (rows[1,][f"c{n}"], one.read) for n, one in enumerate(KINDS.whole)}
    same = {name: canonical(table.columns[name].dataType) for name in found}
    assert {name: one for name, one in found.items() if same[name](one[0]) != same[name](one[1])} == {}
