"""Side effects with a key that stays the same when a batch is tried again."""

import json
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from headwater.errors import CallFailed, ColumnsMismatch
from headwater.settings import Settings
from headwater.sink.calls import Calls
from headwater.sink.contract import Batch, Sink


def recorder(folder):
    """A function that notes its calls, each in a file of its own."""

    def note(row, key):
        with Path(folder, f"{key}.calls").open("a") as file:
            file.write(json.dumps(row.asDict(), default=str) + "\n")

    return note


def calls(folder):
    return {one.stem: one.read_text().splitlines() for one in Path(folder).glob("*.calls")}


def batch(number=0, query="q"):
    return Batch("test.p", number, query, Settings())


def rows(spark, partitions):
    """Twelve rows of which some are equal."""
    some = spark.range(12).select((F.col("id") % 5).alias("n"), F.lit("x").alias("s"))
    return some.repartition(partitions)


def test_a_batch_that_is_tried_again_in_other_partitions_calls_with_the_same_keys(spark, tmp_path):
    sink = Calls(recorder(str(tmp_path)), name="mails")
    sink.write(rows(spark, 3), batch())
    first = calls(tmp_path)
    assert len(first) == 12
    assert all(len(lines) == 1 for lines in first.values())
    sink.write(rows(spark, 5), batch())
    assert {key: lines[0] for key, lines in first.items()} == {
        key: one for key, (one, _) in calls(tmp_path).items()
    }
    assert all(one == two for one, two in calls(tmp_path).values())


def test_another_batch_or_checkpoint_calls_with_other_keys(spark, tmp_path):
    sink = Calls(recorder(str(tmp_path)), name="mails")
    for one in (batch(0), batch(1), batch(0, "other")):
        sink.write(rows(spark, 1), one)
    assert len(calls(tmp_path)) == 36


def test_a_key_by_columns_is_the_same_in_every_batch(spark, tmp_path):
    sink = Calls(recorder(str(tmp_path)), name="mails", by=["n"])
    sink.write(rows(spark, 2), batch(0))
    sink.write(rows(spark, 2), batch(7, "other"))
    assert sorted(len(lines) for lines in calls(tmp_path).values()) == [4, 4, 4, 6, 6]


def test_the_function_gets_the_row_as_it_is(spark, tmp_path):
    Calls(recorder(str(tmp_path)), name="mails").write(rows(spark, 1).limit(1), batch())
    ((line,),) = calls(tmp_path).values()
    assert set(json.loads(line)) == {"n", "s"}


def test_an_error_of_the_function_fails_the_batch_with_its_words(spark):
    def fail(row, _):
        raise ConnectionError(f"no mail server for {row.s}")

    with pytest.raises(CallFailed, match="a call of 'mails' failed: ConnectionError: no mail server for x"):
        Calls(fail, name="mails").write(rows(spark, 1), batch())


def test_a_key_that_is_no_column_is_refused_before_anything_runs(spark):
    sink = Calls(print, name="mails", by="order")
    with pytest.raises(ColumnsMismatch, match="'mails' are keyed by 'order', which is no column"):
        sink.check(rows(spark, 1).schema)
    sink.check(spark.range(1).withColumnRenamed("id", "order").schema)


def test_calls_are_a_sink_and_say_at_least_once():
    sink = Calls(print, name="mails")
    assert isinstance(sink, Sink)
    assert sink.guarantee == "at-least-once"
