"""Which slices a batch has: found by where its rows come from, never by how Spark numbers them."""

from types import SimpleNamespace

import pytest
from pyspark.sql import functions as F

from headwater.sink.markers import SLICES
from headwater.sink.slices import found_in
from tests.sink.streams import events, run, stream


def watermarked(rows):
    return rows.withWatermark("at", "1 second")


def identity(blocks):
    yield from blocks


@pytest.fixture(scope="module")
def some_events(log):
    return events(log, "slices", rows=40)


@pytest.fixture
def look(spark, system, some_events, tmp_path):
    """The slices of the first batch of a query."""

    def looked(function, mode="append", **options):
        found = []

        def write(rows, number, _):
            found.append(found_in(rows, number))
            rows.write.format("noop").mode("overwrite").save()

        rows = stream(spark, system, some_events, 20, **options)
        assert run(function(rows), write, tmp_path / "checkpoint", mode, last=0) is None
        return found[0]

    return looked


@pytest.mark.parametrize(
    "function",
    [
        lambda rows: rows.where("n > 3"),
        lambda rows: rows.mapInArrow(identity, rows.schema).where("n > 3"),
        lambda rows: rows.join(F.broadcast(rows.sparkSession.range(9)), F.col("id") == F.col("n")),
    ],
    ids=["filter", "python", "broadcast-join"],
)
def test_rows_that_stay_in_their_partition_are_sliced_by_source(look, some_events, function):
    found = look(function)
    assert found.scheme == "source"
    assert {one.topic for one in found.slices} == {some_events.name}
    assert {one.partition for one in found.slices} == {0, 1, 2, 3}
    assert sum(one.end for one in found.slices) == pytest.approx(20, abs=4)


@pytest.mark.parametrize(
    ("function", "mode"),
    [
        (lambda rows: rows.groupBy("k").count().where("count > 0"), "update"),
        (
            lambda rows: (
                watermarked(rows).groupBy(F.window("at", "10 seconds"), "k").count().select("k", "count")
            ),
            "append",
        ),
        (lambda rows: watermarked(rows).groupBy(F.session_window("at", "5 seconds"), "k").count(), "append"),
        (lambda rows: rows.dropDuplicates(["k"]), "append"),
        (
            lambda rows: (
                watermarked(rows)
                .alias("a")
                .join(watermarked(rows).alias("b"), F.expr("a.k = b.k AND a.at = b.at"))
                .select("a.n")
            ),
            "append",
        ),
    ],
    ids=["running-count", "window", "session", "deduplication", "join"],
)
def test_rows_of_a_stateful_operator_are_sliced_by_state(look, spark, function, mode):
    found = look(function, mode)
    count = int(spark.conf.get("spark.sql.shuffle.partitions"))
    assert found.scheme == f"state/{count}"
    assert [(one.topic, one.partition) for one in found.slices] == [(SLICES, at + 1) for at in range(count)]
    assert {one.end for one in found.slices} == {1}


@pytest.mark.parametrize(
    ("function", "mode"),
    [
        (lambda rows: rows.repartition(3), "append"),
        (lambda rows: rows.groupBy("k").count().repartition(3), "update"),
        (lambda rows: rows.groupBy("k").count().orderBy("count"), "complete"),
        (lambda rows: rows.groupBy("k").count().coalesce(1), "update"),
        (lambda rows: rows.union(rows), "append"),
        (
            lambda rows: rows.join(rows.sparkSession.range(99).hint("merge"), F.col("id") == F.col("n")),
            "append",
        ),
    ],
    ids=["repartition", "state-repartition", "sort", "coalesce", "self-union", "static-shuffle-join"],
)
def test_rows_that_were_mixed_afterwards_have_no_slices_of_their_own(look, function, mode):
    assert look(function, mode) is None


def test_a_partition_that_spark_split_among_tasks_is_not_a_slice(look):
    assert look(lambda rows: rows, minPartitions=10) is None


def test_rows_that_were_kept_for_several_outputs_have_their_slices_still(
    spark, system, some_events, tmp_path
):
    found = []

    def write(rows, number, _):
        kept = rows.persist()
        kept.count()
        found.append(found_in(kept, number))
        kept.unpersist()

    run(stream(spark, system, some_events, 20), write, tmp_path / "checkpoint", last=0)
    assert found[0].scheme == "source"


def test_static_rows_have_no_slices_of_their_own(spark):
    assert found_in(spark.range(5), 0) is None


def test_union_of_two_sources_has_the_slices_of_both(spark, system, log, some_events, tmp_path):
    other = events(log, "slices-other", rows=20, partitions=2)
    found = []
    both = stream(spark, system, some_events, 20).union(stream(spark, system, other, 20))
    run(both, lambda rows, number, _: found.append(found_in(rows, number)), tmp_path / "checkpoint", last=0)
    assert found[0].scheme == "source"
    assert found[0].topics == tuple(sorted([some_events.name, other.name]))
    assert len(set(found[0].slices)) == 6


def test_an_unknown_kind_of_rdd_is_never_taken_for_a_source():
    class Java(SimpleNamespace):
        def getClass(self):  # noqa: N802
            return SimpleNamespace(getSimpleName=lambda: self.kind)

    from headwater.sink.slices import _origins  # noqa: PLC0415

    nothing = SimpleNamespace(size=lambda: 0)
    assert _origins(Java(kind="SomeNewRDD", dependencies=lambda: nothing)) is None
