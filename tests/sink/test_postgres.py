"""A copy in a real PostgreSQL: the newest row of every key, whatever comes twice, late or out of order."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, date, datetime
from decimal import Decimal

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater import Database, PostgresSink, Settings
from headwater.capture.database import parsed
from headwater.embedded.ports import a_free_port
from headwater.errors import CopyMismatch, SinkRefused, SinkUnreachable, SpecError
from headwater.log.schema import parse_schema
from headwater.sink import by_key, postgres_edge
from headwater.sink.by_key import Change
from headwater.sink.contract import Batch, Sink
from headwater.sink.postgres_marks import Marks
from headwater.sink.postgres_store import PostgresStore
from headwater.sink.postgres_table import CopyTable, fits, type_of
from headwater.sink.slices import Slice

pytestmark = pytest.mark.system
COLUMNS = "id long, name string"
CHANGED = "id long, name string, operation string, position long"


@pytest.fixture
def copy(postgres, name) -> CopyTable:
    """A copy's table, made."""
    made = CopyTable(f"public.{name.replace('-', '_')[-38:]}", parse_schema(COLUMNS), ("id",))
    with psycopg.connect(postgres, autocommit=True) as connection:
        for statement in (made.ddl, *made.deleted_ddl, marks(made).ddl):
            connection.execute(statement)
    return made


@pytest.fixture
def in_task(monkeypatch):
    """The test as the first task of a batch."""
    context = type("Context", (), {"partitionId": lambda _: 0})
    monkeypatch.setattr("headwater.sink.postgres_store.TaskContext.get", context)


def marks(table: CopyTable, *slices: Slice, batch=0, query="q") -> Marks:
    return Marks(table.name, "test.p", query, batch, slices)


def store(url: str, table: CopyTable, *slices: Slice, batch=0) -> PostgresStore:
    with psycopg.connect(url) as connection:
        identity = table.identity(connection)
    found = marks(table, *slices, batch=batch)
    return PostgresStore(address=parsed("test", url), table=table, identity=identity, marks=found)


def change(key: int, position: int, name: str | None = "x") -> Change:
    return Change((key,), position, None if name is None else {"id": key, "name": name})


def rows(url, table, columns="id, name, _position"):
    """What a reader finds."""
    with psycopg.connect(url) as connection:
        return connection.execute(f"SELECT {columns} FROM {table} ORDER BY 1").fetchall()


CHANGES = st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=12)


@pytest.mark.usefixtures("in_task")
def test_any_order_any_repetition_and_any_split_of_changes_end_in_the_newest_rows(postgres, copy):
    @settings(max_examples=100, deadline=None)
    @given(CHANGES, st.randoms(use_true_random=False), st.integers(1, 4))
    def law(told, chance, size):
        changes = [change(key, at, None if gone else f"n{at}") for at, (key, gone) in enumerate(told)]
        wanted = {one.key: one for one in changes}
        played = changes + chance.choices(changes, k=5) if changes else []
        chance.shuffle(played)
        for start in range(0, len(played), size):
            store(postgres, copy)(iter([[one] for one in played[start : start + size]]))
        found = [(*key, one.row["name"], one.position) for key, one in sorted(wanted.items()) if one.row]
        assert rows(postgres, copy.name) == found
        with psycopg.connect(postgres) as connection:
            connection.execute(f"TRUNCATE {copy.sql}, {copy.deleted_sql}")

    law()


@pytest.mark.usefixtures("in_task")
def test_a_delete_that_meets_an_older_row_under_way_takes_it_with_it(postgres, copy):
    """The one case in which two writers of a key would not see each other."""
    store(postgres, copy)(iter([[change(9, 1)]]))
    with psycopg.connect(postgres) as slow:
        shared = "SELECT pg_advisory_xact_lock_shared(hashtextextended(%s, 0))"
        slow.execute(shared, [f"headwater/{copy.name}"])
        slow.execute(f"INSERT INTO {copy.sql} VALUES (1, 'old', 5)")
        later = threading.Thread(target=store(postgres, copy), args=(iter([[change(1, 6, None)]]),))
        later.start()
        later.join(0.3)
        assert later.is_alive()  # it waits for the older row
        slow.commit()
        later.join(30)
    assert rows(postgres, copy.name) == [(9, "x", 1)]
    assert rows(postgres, f"{copy.name}_deleted", "id, _position") == [(1, 6)]


@pytest.mark.usefixtures("in_task")
def test_a_slice_that_is_marked_is_not_written_again_and_its_mark_says_how_far_it_is(postgres, copy):
    place = Slice("shop.public.orders", 0, 42)
    store(postgres, copy, place, batch=7)(iter([[change(1, 5, "first")]]))
    store(postgres, copy, place, batch=7)(iter([[change(1, 6, "again")]]))
    assert rows(postgres, copy.name) == [(1, "first", 5)]
    where = f"public.headwater_slices WHERE copy = '{copy.name}'"
    assert rows(postgres, where, "topic, part, ends, batch") == [("shop.public.orders", 0, 42, 7)]
    store(postgres, copy, place, batch=8)(iter([[change(1, 6, "again")]]))
    assert rows(postgres, copy.name) == [(1, "again", 6)]


@pytest.mark.usefixtures("in_task")
def test_a_slice_that_fails_leaves_neither_rows_nor_mark(postgres, copy):
    def broken():
        yield [change(1, 5)]
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store(postgres, copy, Slice("t", 0, 1))(broken())
    assert rows(postgres, copy.name) == []
    assert rows(postgres, f"public.headwater_slices WHERE copy = '{copy.name}'", "*") == []
    store(postgres, copy, Slice("t", 0, 1))(iter([[change(2, 5)]]))
    assert rows(postgres, copy.name) == [(2, "x", 5)]


@pytest.mark.usefixtures("in_task")
def test_a_connection_that_broke_between_two_batches_is_replaced(postgres, copy):
    store(postgres, copy)(iter([[change(1, 1)]]))
    with psycopg.connect(postgres, autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'headwater'"
        )
    store(postgres, copy)(iter([[change(1, 2, "after")]]))
    assert rows(postgres, copy.name) == [(1, "after", 2)]


@pytest.mark.usefixtures("in_task")
def test_a_batch_that_was_begun_for_an_older_table_is_not_written_into_the_new_one(
    postgres, copy, monkeypatch
):
    monkeypatch.setattr(by_key.time, "sleep", lambda _: None)
    late = store(postgres, copy)
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"DROP TABLE {copy.sql}")
        connection.execute(copy.ddl)
    with pytest.raises(SinkUnreachable, match="was switched"):
        late(iter([[change(1, 1)]]))
    assert rows(postgres, copy.name) == []


TYPES = (
    "id long, a boolean, b byte, c short, d int, e float, f double, g decimal(30,5), h string, i binary, "
    "j date, k timestamp, l timestamp_ntz, m array<string>, n array<decimal(5,2)>, "
    "o struct<x: decimal(4,2), y: date>, p map<string, long>, q array<array<int>>, r array<binary>, "
    "s array<timestamp>, position long"
)
MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678901)


def test_every_type_arrives_without_loss(spark, postgres, name):
    table = f"public.{name.replace('-', '_')}"
    utc = MOMENT.replace(tzinfo=UTC)
    own = (
        *(7, True, 127, -32768, 2**31 - 1, 0.1, float("nan"), Decimal("12345678901234567890.12345")),
        *('a\tb\n\\N "é"', b"\x00\\\xff", date(1, 1, 1), utc, MOMENT),
        *(["a,b", None, "", 'x"y'], [Decimal("1.50")], {"x": Decimal("1.50"), "y": date(2026, 1, 1)}),
        *({"k": 2**60}, [[1], [2, 3]], [b"\x00"], [utc]),
    )
    nothing = (8, *(None for _ in own[1:]))
    found = spark.createDataFrame([(*own, 1), (*nothing, 1)], TYPES)
    sink = PostgresSink(table, database=Database("test", postgres), key="id")
    sink.check(found.schema)
    sink.write(found, Batch("test.p", 0, "q", Settings()))
    first, second = rows(postgres, table, "*")
    assert first[5] == pytest.approx(0.1, rel=1e-7)
    assert first[6] != first[6]
    assert first[1:5] + first[7:15] == own[1:5] + own[7:15]
    assert first[15:20] == ({"x": "1.50", "y": "2026-01-01"}, {"k": 2**60}, [[1], [2, 3]], [b"\x00"], [utc])
    assert second == (*nothing, 1)


def test_a_batch_is_written_from_the_executors_and_a_replay_in_other_partitions_changes_nothing(
    spark, postgres, name
):
    table = f"public.{name.replace('-', '_')[-30:]}"
    sink = PostgresSink(table, database=Database("test", postgres), key="id")
    told = [(n % 50, f"n{n}", "update", n) for n in range(2000)] + [(3, None, "delete", 5000)]
    found = spark.createDataFrame(told, CHANGED)
    for number, partitions in enumerate((4, 3)):
        sink.write(found.repartition(partitions), Batch("test.p", number, "q", Settings()))
        kept = rows(postgres, table)
        assert len(kept) == 49
        assert kept[6] == (7, "n1957", 1957)


def test_a_key_may_have_several_columns_and_names_that_sql_would_not_take(spark, postgres, name):
    table = f"public.{name.replace('-', '_')[-30:]}"
    sink = PostgresSink(table, database=Database("test", postgres), key=["order", 'the "line"'])
    schema = '`order` long, `the "line"` string, `100%` int, position long, operation string'
    found = spark.createDataFrame(
        [(1, "a", 1, 1, "insert"), (1, "b", 2, 2, "insert"), (1, "a", None, 3, "delete")], schema
    )
    sink.write(found, Batch("test.p", 0, "q", Settings()))
    assert rows(postgres, table, "*") == [(1, "b", 2, 2)]


def test_a_table_of_your_own_takes_texts_in_the_words_of_its_types(spark, postgres, name):
    table = f"public.{name.replace('-', '_')[-30:]}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE TYPE mood_{name[-1]} AS ENUM ('glad', 'sad')")
        connection.execute(
            f"CREATE TABLE {table} (id uuid PRIMARY KEY, mood mood_{name[-1]}, address inet, data json, "
            "paid numeric, made_at timestamptz DEFAULT now(), _position bigint NOT NULL DEFAULT -1)"
        )
    schema = "id string, mood string, address string, data string, paid decimal(10,2), position long"
    row = ("6f1c0d52-5b1e-4b5c-9a39-0a6c2d3f4e5b", "glad", "10.0.0.1", '{"a": 1}', Decimal("1.50"), 4)
    sink = PostgresSink(table, database=Database("test", postgres), key="id")
    sink.write(spark.createDataFrame([row], schema), Batch("test.p", 0, "q", Settings()))
    assert rows(postgres, table, "id::text, mood::text, host(address), data, paid, _position") == [
        (*row[:3], {"a": 1}, *row[4:])
    ]


def test_a_table_that_cannot_take_the_rows_is_refused_with_the_sql_that_mends_it(postgres, name):
    table = CopyTable(f"public.{name.replace('-', '_')[-30:]}", parse_schema("id long, name string"), ("id",))
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {table.sql} (id integer, other text NOT NULL)")
        with pytest.raises(CopyMismatch, match="is there, and rows of the copy do not fit into it") as caught:
            table.check(connection)
        assert caught.value.detail.splitlines() == [
            "column 'id' is integer, and not bigint",
            "it has no column 'name'",
            "it has no column '_position'",
            "column 'other' must have a value, and the rows have none",
            "nothing makes id unique",
        ]
        connection.execute(caught.value.hint)
        table.check(connection)


@pytest.mark.parametrize(
    ("wanted", "found", "is_taken"),
    [
        ("integer", "bigint", True),
        ("bigint", "integer", False),
        ("numeric(10,2)", "numeric", True),
        ("numeric(10,2)", "numeric(12,4)", True),
        ("numeric(10,2)", "numeric(10,3)", False),
        ("numeric(10,2)", "double precision", False),
        ("text", "uuid", True),
        ("text[]", "uuid[]", True),
        ("timestamp with time zone", "timestamp without time zone", False),
    ],
)
def test_a_column_is_taken_if_nothing_is_lost_in_it(wanted, found, is_taken):
    assert fits(wanted, found) is is_taken


def test_arrays_are_arrays_and_what_postgresql_cannot_nest_is_json():
    kinds = parse_schema("a array<long>, b array<array<long>>, c map<string,int>, d array<struct<x: int>>")
    assert [type_of(one.dataType) for one in kinds.fields] == ["bigint[]", "jsonb", "jsonb", "jsonb"]


def test_a_value_that_postgresql_has_not_is_refused(spark, postgres, name):
    table = f"public.{name.replace('-', '_')[-30:]}"
    sink = PostgresSink(table, database=Database("test", postgres), key="id")
    found = spark.createDataFrame([(1, "a\0b", 1)], "id long, name string, position long")
    with pytest.raises(SinkRefused, match="PostgreSQL refuses what it is given") as caught:
        sink.write(found, Batch("test.p", 0, "q", Settings()))
    assert "NUL" in caught.value.detail


def test_deleted_keys_are_forgotten_after_a_while(spark, postgres, name, monkeypatch):
    table = f"public.{name.replace('-', '_')[-30:]}"
    sink = PostgresSink(table, database=Database("test", postgres), key="id")
    found = spark.createDataFrame([(n, None, "delete", n) for n in (1, 2)], CHANGED)
    sink.write(found, Batch("test.p", 0, "q", Settings()))
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"UPDATE {table}_deleted SET _deleted_at = now() - interval '8 days' WHERE id = 1")
    monkeypatch.setattr("headwater.sink.postgres._PREPARED", {})
    sink.write(found.where("id = 3"), Batch("test.p", 1, "q", Settings()))
    assert rows(postgres, f"{table}_deleted", "id") == [(2,)]


def test_a_database_that_is_away_is_unreachable_and_nothing_says_its_password(monkeypatch):
    monkeypatch.setattr(by_key.time, "sleep", lambda _: None)
    address = parsed("shop", f"postgresql://me:s3cret@127.0.0.1:{a_free_port()}/shop")
    with pytest.raises(SinkUnreachable, match="lets nobody in") as caught:
        postgres_edge.connected(address)
    sink = PostgresSink("public.a", database=Database("shop", "postgresql://me:s3cret@h/d"), key="id")
    assert "s3cret" not in str(caught.value) + repr(sink) + repr(address)


def test_pipelines_of_one_process_do_not_stand_in_each_others_transactions(postgres):
    address = parsed("shop", postgres)
    with ThreadPoolExecutor(1) as other, ExitStack() as theirs:
        with postgres_edge.connected(address).transaction():
            other.submit(
                lambda: theirs.enter_context(postgres_edge.connected(address).transaction())
            ).result()
        other.submit(theirs.close).result()


def test_a_wrong_password_and_a_database_that_is_not_there_are_refused(postgres):
    before, _, after = postgres.partition("@")
    for url in (f"{before}x@{after}", f"{postgres}_other"):
        with pytest.raises(SinkRefused, match="lets nobody in"):
            postgres_edge.connected(parsed("shop", url))


def test_a_database_of_another_kind_is_refused(spark):
    sink = PostgresSink("public.a", database=Database("shop", "mariadb://me@h/d"), key="id")
    with pytest.raises(SpecError, match="cannot be kept in a mariadb"):
        sink.write(spark.createDataFrame([], CHANGED), Batch("test.p", 0, "q", Settings()))


@pytest.mark.parametrize("table", ["orders", "public.orders; drop", f"public.{'a' * 41}", ""])
def test_a_name_that_is_no_table_is_refused(table):
    with pytest.raises(SpecError, match="cannot be the table of a copy"):
        PostgresSink(table, database=Database("shop"), key="id")


def test_it_is_a_sink_that_is_exactly_once():
    sink = PostgresSink("public.orders_copy", database=Database("shop"), key="id")
    assert isinstance(sink, Sink)
    assert (sink.guarantee, sink.name) == ("exactly-once", "public.orders_copy")
