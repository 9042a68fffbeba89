"""Pipelines on the real broker and a real Spark: what goes in comes out, once, and nothing is lost."""

import random
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import functions as F

from headwater import App, Bounded, Drop, KafkaSink, Log, Pipeline, Source, Topic
from headwater.clock import wait_until
from headwater.errors import BadPipeline, CheckpointMissing, PipelineFailed, TooManyDead
from headwater.run.supervise import Supervisor

SOON = timedelta(seconds=90)
SCHEMA = "card string, amount double, paid_at timestamp"
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


@contextmanager
def supervised(app, spark, settings, *, once=True) -> Iterator[Supervisor]:
    found = Supervisor(app, spark, settings)
    found.start(once=once)
    try:
        if once:
            found.join()
        yield found
    finally:
        found.stop()
        found.join()


def finished(app, spark, settings) -> Supervisor:
    with supervised(app, spark, settings) as found:
        assert [str(error) for error in found.errors] == []
        return found


def payments(name: str) -> Topic:
    return Topic(f"{name}-in", schema=SCHEMA, key="card", event_time="paid_at", partitions=2)


def output(name: str, schema: str = SCHEMA, key: str | None = "card") -> Topic:
    return Topic(f"{name}-out", schema=schema, key=key, partitions=2)


def fill(log: Log, topic: Topic, count: int, first: int = 0) -> None:
    with log.writer() as writer:
        for number in range(first, first + count):
            at = BEGIN + timedelta(seconds=number)
            writer.append(topic, {"card": f"c{number % 7}", "amount": float(number), "paid_at": at})


def read(log: Log, topic: Topic) -> list[Any]:
    return [record.value for record in log.read(topic)]


def made(log: Log, *topics: Topic) -> None:
    for topic in topics:
        log.topics.create(topic)


def amounts(log: Log, topic: Topic) -> list[float]:
    return sorted(row.amount for row in read(log, topic))


def same(rows):
    return rows


@pytest.mark.parametrize("guarantee", ["at-most-once", "at-least-once", "exactly-once"])
def test_every_row_arrives_under_every_guarantee(spark, system, log, name, guarantee):
    source, target = payments(name), output(name)
    made(log, source, target)
    fill(log, source, 300)
    one = Pipeline(
        "all",
        lambda rows: rows.where("amount >= 100"),
        reads=[source],
        writes=KafkaSink(target, guarantee=guarantee),
    )
    finished(App(name, one), spark, system)
    assert amounts(log, target) == [float(number) for number in range(100, 300)]


def test_a_second_run_goes_on_where_the_first_stopped(spark, system, log, name):
    source, target = payments(name), output(name)
    made(log, source, target)
    app = App(name, Pipeline("all", same, reads=[source], writes=KafkaSink(target)))
    fill(log, source, 50)
    finished(app, spark, system)
    fill(log, source, 50, first=50)
    finished(app, spark, system)
    assert amounts(log, target) == [float(number) for number in range(100)]


def test_an_output_keeps_its_key_so_that_order_within_a_card_stays(spark, system, log, name):
    source, target = payments(name), output(name)
    made(log, source, target)
    fill(log, source, 200)
    finished(App(name, Pipeline("all", same, reads=[source], writes=KafkaSink(target))), spark, system)
    last: dict[str, float] = {}
    places: dict[str, set[int]] = {}
    for record in log.read(target):
        assert record.key == record.value.card.encode()
        assert record.value.amount > last.get(record.value.card, -1.0)
        last[record.value.card] = record.value.amount
        places.setdefault(record.value.card, set()).add(record.partition)
    assert all(len(one) == 1 for one in places.values())


def test_the_record_around_a_row_can_be_reached(spark, system, log, name):
    source = payments(name)
    target = output(name, "card string, raw binary, place int, at_offset long, written_at timestamp")
    made(log, source, target)
    fill(log, source, 20)

    def placed(rows):
        return rows.selectExpr(
            "card",
            "_record.key AS raw",
            "_record.partition AS place",
            "_record.offset AS at_offset",
            "_record.timestamp AS written_at",
        )

    one = Pipeline("placed", placed, reads=[Source(source, record=True)], writes=KafkaSink(target))
    finished(App(name, one), spark, system)
    expected = {
        (record.value.card, record.key, record.partition, record.offset, record.appended_at)
        for record in log.read(source)
    }
    found = {(row.card, row.raw, row.place, row.at_offset, row.written_at) for row in read(log, target)}
    assert found == expected


def test_a_pipeline_may_start_at_the_end(spark, system, log, name):
    source, target = payments(name), output(name)
    made(log, source, target)
    fill(log, source, 30)
    app = App(name, Pipeline("new", same, reads=[Source(source, start="end")], writes=KafkaSink(target)))
    with supervised(app, spark, system, once=False) as found:
        assert wait_until(lambda: found.figures[0].state == "running", SOON)
        fill(log, source, 5, first=100)
        assert wait_until(lambda: len(read(log, target)) == 5, SOON)
    assert amounts(log, target) == [100.0, 101.0, 102.0, 103.0, 104.0]


def test_several_outputs_get_the_same_rows(spark, system, log, name):
    source, target = payments(name), output(name)
    short = Topic(f"{name}-short", schema="card string", key="card")
    made(log, source, target, short)
    fill(log, source, 40)
    one = Pipeline("both", same, reads=[source], writes=[KafkaSink(target), KafkaSink(short)])
    finished(App(name, one), spark, system)
    assert Counter(row.card for row in read(log, target)) == Counter(row.card for row in read(log, short))
    assert len(read(log, short)) == 40


def test_a_window_closes_when_the_watermark_passes_it(spark, system, log, name):
    source = payments(name)
    target = output(name, "card string, opened_at timestamp, payments long, total double")
    made(log, source, target)
    fill(log, source, 100)

    def counted(rows):
        found = rows.groupBy(F.window("paid_at", "10 seconds"), "card").agg(
            F.count("*").alias("payments"), F.sum("amount").alias("total")
        )
        return found.selectExpr("card", "window.start AS opened_at", "payments", "total")

    one = Pipeline(
        "counted",
        counted,
        reads=[source],
        writes=KafkaSink(target),
        watermark=Bounded(timedelta(seconds=10)),
        late=Drop(),
    )
    found = finished(App(name, one), spark, system)
    expected: Counter = Counter()
    for number in range(80):  # the newest event is 99 s after the beginning: windows up to 80 s are closed
        expected[f"c{number % 7}", BEGIN + timedelta(seconds=number // 10 * 10)] += 1
    assert {(row.card, row.opened_at): row.payments for row in read(log, target)} == expected
    assert found.figures[0].watermark == BEGIN + timedelta(seconds=89)


def test_sql_is_a_pipeline_too_with_its_own_watermark(spark, system, log, name):
    source = payments(name)
    target = output(name, "card string, payments long")
    made(log, source, target)
    fill(log, source, 100)
    sql = f"""
        SELECT card, count(*) AS payments
        FROM {Source(source).table} WATERMARK paid_at DELAY OF INTERVAL 10 SECONDS
        GROUP BY window(paid_at, '10 seconds'), card
    """
    finished(App(name, Pipeline("sql", sql=sql, reads=[source], writes=KafkaSink(target))), spark, system)
    assert sum(row.payments for row in read(log, target)) == 80


def test_ordinary_kafka_tools_see_the_lag_of_a_pipeline(spark, system, log, name):
    source, target = payments(name), output(name)
    made(log, source, target)
    fill(log, source, 50)
    finished(App(name, Pipeline("all", same, reads=[source], writes=KafkaSink(target))), spark, system)
    fill(log, source, 7, first=50)
    assert sum(one.lag or 0 for one in log.lag(f"{name}.all")) == 7


class TestDeadLetters:
    def test_ten_thousand_random_byte_strings_stop_nothing_and_lose_nothing(self, spark, system, log, name):
        source, target = payments(name), output(name)
        made(log, source, target)
        chance = random.Random(4)
        with log.writer() as writer:
            for number in range(10_000):
                writer.append_bytes(source.name, chance.randbytes(chance.randrange(60)), key=b"k")
                if number % 2:
                    writer.append(source, {"card": "c", "amount": float(number), "paid_at": BEGIN})
        found = finished(
            App(name, Pipeline("all", same, reads=[source], writes=KafkaSink(target))), spark, system
        )
        letters = list(log.read(f"{source.name}.dead"))
        assert len(read(log, target)) == 5_000
        assert found.figures[0].dead == len(letters) == 10_000
        places = {
            (dict(one.headers)["headwater.partition"], dict(one.headers)["headwater.offset"])
            for one in letters
        }
        assert len(places) == 10_000

    def test_a_group_that_the_broker_forgot_costs_no_letter_twice(self, spark, system, log, name):
        source, target = payments(name), output(name)
        made(log, source, target)
        app = App(name, Pipeline("all", same, reads=[source], writes=KafkaSink(target)))
        for _ in range(2):
            with log.writer() as writer:
                writer.append_bytes(source.name, b"not json", key=b"k")
            finished(app, spark, system)
            log.groups.delete(f"{name}.all")
        assert len(list(log.read(f"{source.name}.dead"))) == 2

    def test_above_its_limit_a_pipeline_stops_and_says_why(self, spark, system, log, name):
        source, target = payments(name), output(name)
        made(log, source, target)
        with log.writer() as writer:
            for _ in range(3):
                writer.append_bytes(source.name, b"not json", key=b"k")
        one = Pipeline("few", same, reads=[source], writes=KafkaSink(target), dead_limit=2)
        with supervised(App(name, one), spark, system) as found:
            (error,) = found.errors
        assert isinstance(error, TooManyDead)
        assert "has 3 dead letters, above its limit of 2" in str(error)


class TestFailures:
    def test_one_that_fails_for_good_ends_alone(self, spark, system, log, name):
        source, target = payments(name), output(name)
        other = Topic(f"{name}-other", schema=SCHEMA, key="card")
        made(log, source, target, other)
        fill(log, source, 20)

        @F.udf("double")
        def broken(amount):
            raise ValueError(f"no such amount: {amount}")

        bad = Pipeline(
            "bad",
            lambda rows: rows.withColumn("amount", broken("amount")),
            reads=[source],
            writes=KafkaSink(other),
        )
        good = Pipeline("good", same, reads=[source], writes=KafkaSink(target))
        with supervised(App(name, bad, good), spark, system) as found:
            (error,) = found.errors
        assert isinstance(error, PipelineFailed)
        assert "pipeline 'bad' failed" in str(error)
        assert "ValueError: no such amount" in str(error)
        assert "Traceback" not in str(error)
        assert [one.state for one in found.figures] == ["failed", "done"]
        assert len(read(log, target)) == 20
        assert read(log, other) == []

    @pytest.mark.parametrize(
        ("function", "said"),
        [
            (lambda rows: rows.select("nothing"), "Spark refuses pipeline 'p'"),
            (lambda _: 5, "returns int, not a DataFrame"),
            (lambda _: 1 / 0, "ZeroDivisionError: division by zero"),
            (lambda rows: rows.sparkSession.range(3), "does not use the topics that it reads"),
        ],
    )
    def test_a_function_that_cannot_work_is_refused_with_the_pipelines_name(
        self, spark, system, log, name, function, said
    ):
        source, target = payments(name), output(name)
        made(log, source, target)
        one = Pipeline("p", function, reads=[source], writes=KafkaSink(target))
        with supervised(App(name, one), spark, system) as found:
            (error,) = found.errors
        assert said in str(error)
        assert isinstance(error, BadPipeline)

    def test_rows_that_do_not_fit_the_output_are_refused_before_anything_runs(self, spark, system, log, name):
        source, target = payments(name), output(name)
        made(log, source, target)
        one = Pipeline(
            "p",
            lambda rows: rows.withColumn("amount", F.lit("much")),
            reads=[source],
            writes=KafkaSink(target),
        )
        with supervised(App(name, one), spark, system) as found:
            (error,) = found.errors
        assert "column 'amount' is string, and the topic's is double" in str(error)

    def test_append_without_a_watermark_is_refused_before_anything_runs(self, spark, system, log, name):
        source, target = payments(name), output(name, "card string, count long")
        made(log, source, target)
        one = Pipeline(
            "p", lambda rows: rows.groupBy("card").count(), reads=[source], writes=KafkaSink(target)
        )
        with supervised(App(name, one), spark, system) as found:
            (error,) = found.errors
        assert "watermark" in str(error)
        assert isinstance(error, BadPipeline)

    def test_without_its_checkpoint_it_does_not_start_over_in_silence(self, spark, system, log, name):
        source, target = payments(name), output(name)
        made(log, source, target)
        fill(log, source, 5)
        app = App(name, Pipeline("p", same, reads=[source], writes=KafkaSink(target)))
        finished(app, spark, system)
        shutil.rmtree(system.home / "checkpoints" / name)
        with supervised(app, spark, system) as found:
            (error,) = found.errors
        assert isinstance(error, CheckpointMissing)
        assert f"`headwater groups delete {name}.p`" in str(error)
        log.groups.delete(f"{name}.p")
        finished(app, spark, system)
        assert amounts(log, target) == sorted([0.0, 1.0, 2.0, 3.0, 4.0] * 2)
