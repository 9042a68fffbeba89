"""Laws of mappings and ids: no type says more than it keeps, and no two keys share a document."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pyspark.sql import types as spark

from headwater import SearchSink
from headwater.errors import ColumnsMismatch, SpecError
from headwater.log.schema import parse_schema
from headwater.sink.contract import Sink
from headwater.sink.search_mapping import mapping
from headwater.sink.search_store import ids

TEXTS = st.text(max_size=600)


def id_of(schema, *key):
    columns = parse_schema(schema)
    return ids(columns, columns.names)(key)


def test_every_type_has_its_field():
    columns = parse_schema(
        "b boolean, n long, i int, s short, y byte, f float, d double, small decimal(15,2), "
        "large decimal(16,2), "
        "t string, day date, at timestamp, local timestamp_ntz, data binary, tags array<string>,"
        " place struct<lat: double, name: string>, counts map<string,int>"
    )
    made = mapping(columns, {})
    text = {"type": "text", "fields": {"keyword": {"type": "keyword", "ignore_above": 8191}}}
    assert made["dynamic"] == "strict"
    kinds = {name: field.get("type", "object") for name, field in made["properties"].items()}
    assert list(kinds.values()) == [
        *("boolean", "long", "integer", "short", "byte", "float", "double", "double", "double"),
        *("text", "date", "date", "date", "binary", "text", "object", "object"),
    ]
    assert made["properties"]["t"] == made["properties"]["tags"] == text
    assert made["properties"]["small"] == {"type": "double"}
    assert made["properties"]["large"]["fields"] == {"exact": {"type": "keyword"}}
    assert made["properties"]["place"]["properties"].keys() == {"lat", "name"}
    assert made["properties"]["counts"]["enabled"] is False


def test_a_field_may_be_found_in_another_way_and_only_a_column_may():
    own = {"place": {"type": "geo_point"}}
    assert mapping(parse_schema("id long, place string"), own)["properties"]["place"] == own["place"]
    with pytest.raises(ColumnsMismatch, match="the mapping has a field 'place', which is no column"):
        mapping(parse_schema("id long"), own)


def test_a_type_that_no_index_has_is_refused():
    columns = spark.StructType([spark.StructField("v", spark.VariantType())])
    with pytest.raises(ColumnsMismatch, match="column 'v' is variant"):
        mapping(columns, {})


def test_an_id_is_the_text_of_a_key():
    assert id_of("k string", "ada") == "ada"
    assert id_of("k long", 42) == "42"
    assert id_of("k date", date(2026, 1, 2)) == "2026-01-02"
    assert id_of("k timestamp", datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)) == "2026-01-02T03:04:05.000006Z"
    assert id_of("k decimal(9,2)", Decimal("1.50")) == "1.50"
    assert id_of("k binary", b"\0\xff") == "AP8="
    assert id_of("a string, b long", "x,y", 1) == '["x,y",1]'


def test_what_no_index_takes_as_an_id_is_hashed():
    for key in ("", "x" * 513, "é" * 257, "sha256:mine"):
        assert id_of("k string", key).startswith("sha256:")
        assert len(id_of("k string", key)) == 71
    assert id_of("k string", "é" * 256) == "é" * 256


@given(st.tuples(TEXTS, TEXTS), st.tuples(TEXTS, TEXTS))
def test_no_two_keys_share_an_id(one, other):
    assume(one != other)
    assert id_of("a string, b string", *one) != id_of("a string, b string", *other)
    assume(one[0] != other[0])
    assert id_of("a string", one[0]) != id_of("a string", other[0])


def test_a_search_sink_is_a_sink_with_a_name_that_an_index_may_have():
    sink = SearchSink("orders", key="id", url="https://me:s3cret@there")
    assert isinstance(sink, Sink)
    assert (sink.name, sink.guarantee) == ("orders", "exactly-once")
    assert "s3cret" not in repr(sink)
    assert hash(sink) == hash(SearchSink("orders", key="id", url="https://me:s3cret@there"))
    for name in ("", "Orders", "a b", "_orders", "a/b", "x" * 101):
        with pytest.raises(SpecError, match="cannot be the name of a search index"):
            SearchSink(name, key="id")
    with pytest.raises(ColumnsMismatch, match="is keyed by 'id', which is no column"):
        sink.check(parse_schema("n long, position long"))
