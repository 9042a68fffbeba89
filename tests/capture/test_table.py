"""Table: a captured table as a value, and the topic of its changes."""

import pytest

from headwater import App, Database, Pipeline, Source, Table, Topic, upserts
from headwater.errors import BadPipeline, SpecError
from headwater.sink.kafka import KafkaSink

SHOP = Database("shop")
ORDERS = Table(SHOP, "public.orders", schema="id long NOT NULL, total decimal(10,2), paid boolean", key="id")
COPY = Topic("copy", schema="id long, total decimal(10,2)")


def test_the_changes_of_a_table_have_one_general_form():
    found = ORDERS.changes
    assert found.name == "shop.public.orders"
    assert (found.format, found.compacted, found.event_time) == ("changes", True, "committed_at")
    assert found.spark_schema.names == [
        *("key", "before", "after", "operation", "position", "source_position", "committed_at", "transaction")
    ]
    assert found.spark_schema["key"].dataType.simpleString() == "struct<id:bigint>"


def test_what_is_not_null_may_be_missing_before_and_not_after():
    schema = ORDERS.changes.spark_schema
    assert schema["before"].dataType["id"].nullable
    assert not schema["after"].dataType["id"].nullable


def test_a_table_can_have_a_key_of_several_columns():
    lines = Table(
        SHOP, "public.lines", schema="order_id long, line int, sku string", key=["order_id", "line"]
    )
    assert lines.keys == ("order_id", "line")
    assert lines.changes.spark_schema["key"].dataType.names == ["order_id", "line"]


def test_a_pipeline_reads_a_table_as_the_stream_of_its_changes():
    pipeline = Pipeline("copy", upserts, reads=[ORDERS], writes=KafkaSink(COPY))
    assert pipeline.sources == (Source(ORDERS.changes),)


def test_an_app_may_do_nothing_but_capture():
    assert App("shop", captures=[ORDERS]).captures == (ORDERS,)


def test_a_table_is_captured_once():
    with pytest.raises(BadPipeline, match=r"captures 'shop\.public\.orders' twice"):
        App("shop", captures=[ORDERS, ORDERS])


@pytest.mark.parametrize(
    ("name", "given", "why"),
    [
        ("orders", {}, "cannot be the name of a table"),
        ("public.orders", {"key": ()}, "has no key"),
        ("public.orders", {"key": "nr"}, "key 'nr' is not a column"),
        ("public.orders", {"schema": "id long, position int"}, "a name that is taken"),
        ("public.orders", {"schema": "id long, tags map<string, string>"}, "cannot be map<string,string>"),
        ("public.orders", {"schema": "id long, total"}, "the schema cannot be read"),
        ("public.orders", {"partitions": 0}, "at least one partition"),
    ],
)
def test_a_table_that_cannot_be_is_refused(name, given, why):
    with pytest.raises(SpecError, match=why):
        Table(SHOP, name, **{"schema": "id long", "key": "id", **given})
