"""SearchSink on a real OpenSearch: the newest row of every key, whatever is written again or comes late."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from uuid import uuid4

import pytest
from pyspark.sql import functions as F

from headwater import App, Database, Pipeline, SearchSink, Settings, Table, embedded, upserts
from headwater.clock import wait_until
from headwater.embedded.ports import a_free_port
from headwater.embedded.server import stop
from headwater.errors import CopyMismatch, SinkRefused, SinkUnreachable, SpecError, UnknownTopic
from headwater.log.dead import DeadLetters
from headwater.sink.contract import Batch
from headwater.sink.search_server import SearchServer
from tests.run.test_changes import envelope, written
from tests.run.test_pipelines import finished

pytestmark = pytest.mark.system
ROWS = "id long, word string, operation string, position long"


@pytest.fixture
def alias():
    return f"orders-{uuid4().hex[:8]}"


@pytest.fixture
def ask(search):
    with SearchServer(search) as server:
        yield server.ask


@pytest.fixture
def write(spark, system, name):
    """Writes rows as one batch into a sink, as the pipeline `test.<name>`."""

    def do(sink, rows, schema=ROWS, number=0, partitions=2):
        frame = rows if hasattr(rows, "schema") else spark.createDataFrame(rows, schema)
        sink.check(frame.schema)
        return sink.write(frame.repartition(partitions), Batch(f"test.{name}", number, "q", system))

    return do


def documents(ask, alias):
    ask("POST", f"{alias}/_refresh")
    found = ask("POST", f"{alias}/_search", {"size": 1000, "version": True}).body["hits"]["hits"]
    return {one["_id"]: (one["_version"], one["_source"]) for one in found}


def test_the_newest_row_of_every_key_stays_however_often_and_in_whatever_order(search, ask, alias, write):
    sink = SearchSink(alias, key="id", url=search)
    first = [(1, "a", "insert", 0), (2, "b", "insert", 1), (1, "c", "update", 2), (3, "d", "read", 3)]
    second = [(2, None, "delete", 4), (3, "e", "update", 5), (3, None, "delete", 6), (3, "f", "insert", 7)]
    wanted = {"1": (2, {"id": 1, "word": "c"}), "3": (7, {"id": 3, "word": "f"})}
    for number, rows in enumerate((first, second, first, second[::-1], first)):
        assert write(sink, rows, number=number, partitions=1 + number) == 0
        if number:
            assert documents(ask, alias) == wanted
    settings = ask("GET", f"{alias}/_settings").body[f"{alias}-1"]["settings"]["index"]
    assert settings["gc_deletes"] == "1h"


def test_every_type_is_kept_exactly_and_found(search, ask, alias, write):
    at = datetime(2026, 1, 2, 3, 4, 5, 123456, tzinfo=UTC)
    row = {
        "id": "ä/b?",
        "n": 2**63 - 1,
        "x": float("nan"),
        "small": Decimal("12.50"),
        "large": Decimal("12345678901234567890.123456789"),
        "yes": True,
        "day": date(1, 1, 1),
        "at": at,
        "local": at.replace(tzinfo=None),
        "data": b"\0\xff",
        "tags": ["x", None],
        "place": {"lat": 1.5, "name": None},
        "counts": {"a.b": 1},
        "long": "y" * 40_000,
        "none": None,
        "position": 0,
    }
    schema = (
        "id string, n long, x double, small decimal(10,2), large decimal(38,9), yes boolean, day date, "
        "at timestamp, local timestamp_ntz, data binary, tags array<string>, "
        "place struct<lat: double, name: string>, counts map<string,int>, "
        "long string, none int, position long"
    )
    write(SearchSink(alias, key="id", url=search), [row], schema)
    assert documents(ask, alias)["ä/b?"][1] == {
        **{name: row[name] for name in ("id", "n", "yes", "tags", "place", "counts", "long", "none")},
        "x": "NaN",
        "small": "12.50",
        "large": "12345678901234567890.123456789",
        "day": "0001-01-01",
        "at": "2026-01-02T03:04:05.123456Z",
        "local": "2026-01-02T03:04:05.123456",
        "data": "AP8=",
    }
    for query in ("small:>=12.5", "large.exact:12345678901234567890.123456789", "tags:x", "at:2026-01-02"):
        found = ask("POST", f"{alias}/_search", {"query": {"query_string": {"query": query}}})
        assert found.body["hits"]["total"]["value"] == 1, query


def test_a_key_of_several_columns_and_a_version_that_is_an_instant(search, ask, alias, write):
    sink = SearchSink(alias, key=["a", "b"], version="at", url=search)
    early, late = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
    schema = "a string, b int, n int, at timestamp"
    write(sink, [("x", 1, 1, late), ("x", 2, 2, early)], schema)
    write(sink, [("x", 1, 3, early), ("x", 2, 4, late)], schema)
    found = {key: source["n"] for key, (_, source) in documents(ask, alias).items()}
    assert found == {'["x",1]': 1, '["x",2]': 4}


def test_a_refused_row_is_a_dead_letter_once_and_the_others_are_there(search, ask, alias, write, system):
    sink = SearchSink(alias, key="id", url=search, mapping={"word": {"type": "ip"}})
    rows = [(1, "127.0.0.1", "insert", 5), (2, "nowhere", "insert", 6), (3, "::1", "insert", 7)]
    assert [write(sink, rows, partitions=one) for one in (1, 2)] == [1, 1]
    assert documents(ask, alias).keys() == {"1", "3"}

    def letters():
        return [one.letter for one in DeadLetters(f"search.{alias}", system).read()]

    assert wait_until(lambda: bool(letters()), timedelta(seconds=10))
    (letter,) = letters()
    assert "failed to parse field [word] of type [ip]" in letter.reason
    assert "nowhere" in letter.reason
    assert (letter.key, letter.value, letter.offset) == (b"2", b'{"id":2,"word":"nowhere"}', 6)
    assert write(sink, [(4, "x", "insert", 8)], number=1) == 1
    assert wait_until(lambda: len(letters()) == 2, timedelta(seconds=10))
    with pytest.raises(UnknownTopic) as raised:
        DeadLetters(f"search.{alias}", system).resend()
    assert "headwater rebuild" in raised.value.hint


def test_refused_rows_count_as_dead_in_a_pipeline_which_goes_on(search, ask, alias, spark, system, log, name):
    people = Table(
        Database("shop"),
        f"public.{name.replace('-', '_')}",
        schema="id long NOT NULL, name string, amount decimal(10,2)",
        key="id",
    )
    ada, bea = {"id": 1, "name": "::1", "amount": "9.50"}, {"id": 2, "name": "bea", "amount": "9.50"}
    written(log, people, envelope("r", after=ada), envelope("c", after=bea))
    sink = SearchSink(alias, key="id", url=search, mapping={"name": {"type": "ip"}})
    found = finished(App(name, Pipeline("copy", upserts, reads=[people], writes=sink)), spark, system)
    assert (found.figures[0].state, found.figures[0].dead) == ("done", 1)
    assert documents(ask, alias) == {"1": (0, ada)}


def test_new_columns_are_added_and_another_type_is_refused(search, ask, alias, write):
    sink = SearchSink(alias, key="id", url=search)
    write(sink, [(1, "a", "insert", 0)])
    more = "id long, word string, more struct<x: long>, operation string, position long"
    write(sink, [(2, "b", (7,), "insert", 1)], more)
    assert documents(ask, alias)["2"][1] == {"id": 2, "word": "b", "more": {"x": 7}}
    write(sink, [(3, "c", (7, 8), "insert", 2)], more.replace("x: long", "x: long, y: long"))
    assert documents(ask, alias)["3"][1]["more"] == {"x": 7, "y": 8}
    with pytest.raises(CopyMismatch, match="has other types than the rows") as raised:
        write(sink, [(4, 1, "insert", 3)], ROWS.replace("word string", "word long"))
    assert raised.value.detail == "word: text in the index, long in the rows"
    assert "headwater rebuild" in raised.value.hint


def test_a_name_that_stands_for_something_else_is_refused(search, ask, alias, write):
    sink, row = SearchSink(alias, key="id", url=search), [(1, "a", "insert", 0)]
    ask("PUT", alias)
    with pytest.raises(SinkRefused, match="is an index of its own, and must be an alias"):
        write(sink, row)
    ask("DELETE", alias)
    write(sink, row)
    ask("PUT", f"{alias}-2", {"aliases": {alias: {}}})
    with pytest.raises(SinkRefused, match="names several indices"):
        write(sink, row)
    ask("DELETE", f"{alias}-2")
    ask("DELETE", f"{alias}-1/_alias/{alias}")
    write(sink, row)
    assert ask("GET", f"_alias/{alias}").body.keys() == {f"{alias}-2"}
    with pytest.raises(SinkRefused, match="cannot be made") as raised:
        write(SearchSink(f"{alias}-b", key="id", url=search, settings={"number_of_shards": -1}), row)
    assert "number_of_shards" in raised.value.detail


def test_without_a_server_the_error_says_whether_one_may_come_back(tmp_path, alias, spark):
    settings = Settings(home=tmp_path, search_port=a_free_port())
    sink, rows = SearchSink(alias, key="id"), spark.createDataFrame([(1, "a", "insert", 0)], ROWS)
    with pytest.raises(SpecError, match="no search server is there") as raised:
        sink.write(rows, Batch("test.p", 0, "q", settings))
    assert "headwater up --with search" in raised.value.hint
    embedded.up(settings, [embedded.SERVERS["search"]], lambda *_: None)
    try:
        sink.write(rows, Batch("test.p", 0, "q", settings))
        stop("search", settings)
        with pytest.raises(SinkUnreachable):
            sink.write(rows, Batch("test.p", 1, "q", settings))
        embedded.up(settings, [embedded.SERVERS["search"]], lambda *_: None)
        newer = rows.withColumn("position", F.lit(9))
        sink.write(newer, Batch("test.p", 1, "q", settings))
        with SearchServer(embedded.search_url(settings) or "") as server:
            assert documents(server.ask, alias) == {"1": (9, {"id": 1, "word": "a"})}
    finally:
        embedded.down(settings)
