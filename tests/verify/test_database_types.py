"""Every type of the reference, asked of the database itself: the same as what capture tells of it."""

import psycopg
import pytest
from tests.capture.kinds import Reference

from headwater import Database, Settings, Table
from headwater.verify.canonical import canonical
from headwater.verify.database_source import DatabaseSource

pytestmark = pytest.mark.system
OURS = {"an enum": "verified_mood", "an enum's array": "verified_mood[]", "a domain": "verified_few"}
MADE = "CREATE TYPE verified_mood AS ENUM ('ok'); CREATE DOMAIN verified_few AS int CHECK (VALUE < 9)"
KINDS = Reference("PostgreSQL")


def declared(kind):
    return "int" if kind.column == "a domain" else kind.declared.split(" (")[0]


def test_a_row_reads_as_capture_has_it_and_what_capture_has_not_is_null(postgres):
    columns = dict(enumerate([*KINDS.whole, *KINDS.dead]))
    shape = ", ".join(f"c{n} {OURS.get(one.column, one.column)}" for n, one in columns.items())
    values = ", ".join(
        f"CAST({one.inserted} AS {OURS.get(one.column, one.column)})" for one in columns.values()
    )
    with psycopg.connect(postgres) as connection:
        connection.execute(f"{MADE}; CREATE TABLE verified_kinds (id bigint PRIMARY KEY, {shape})")
        connection.execute(f"INSERT INTO verified_kinds VALUES (1, {values})")
        connection.execute("INSERT INTO verified_kinds (id) VALUES (2)")
    schema = ", ".join(f"c{n} {declared(one)}" for n, one in columns.items() if "numeric" not in dead(n, one))
    table = Table(Database("shop", postgres), "public.verified_kinds", schema=f"id long, {schema}", key="id")
    source = DatabaseSource(table, Settings())
    rows = source.rows([(1,), (2,)])
    assert len(source.digests(lambda *_: None)) == 2
    assert set(rows[2,].values()) == {2, None}
    wrong = {}
    for n, one in columns.items():
        if f"c{n}" in table.columns.names:
            same = canonical(table.columns[f"c{n}"].dataType)
            found, wanted = rows[1,][f"c{n}"], None if one in KINDS.dead else one.read
            if same(found) != same(wanted):
                wrong[one.column] = found, wanted
    assert wrong == {}


def dead(number, kind):
    """The type of a column whose value no declared type has."""
    return kind.column if number >= len(KINDS.whole) else ""
