"""Measures in windows, over several batches, against brute force."""

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater import Bounded, Drop, KafkaSink, Pipeline, Topic
from headwater.errors import BadPipeline
from headwater.process import measures
from headwater.testing import rehearse

BEGIN = datetime(2026, 1, 1, 10, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
REQUESTS = Topic(
    "requests", schema="path string, status int, ms double, user string, at timestamp", event_time="at"
)
MEASURED = Topic(
    "measured",
    schema="opened_at timestamp, rate double, failed double, p99 double, users long, "
    "busiest array<struct<item: string, count: long>>",
)


def measured(requests: DataFrame) -> DataFrame:
    """Each of the last two minutes, every minute."""
    return (
        requests.groupBy(F.window("at", "2 minutes", "1 minute"))
        .agg(
            measures.rate(2 * MINUTE).alias("rate"),
            measures.share(F.col("status") >= 500).alias("failed"),
            F.approx_percentile("ms", 0.99).alias("p99"),
            F.approx_count_distinct("user", 0.02).alias("users"),
            measures.top("path", 3).alias("busiest"),
        )
        .selectExpr("window.start AS opened_at", "rate", "failed", "p99", "users", "busiest")
    )


def requests(count: int) -> list[dict[str, Any]]:
    chance = random.Random(7)
    return [
        {
            "path": f"/{min(chance.randrange(30), chance.randrange(30))}",
            "status": chance.choice([200, 200, 200, 404, 500, None]),
            "ms": chance.lognormvariate(3, 1),
            "user": f"u{chance.randrange(700)}",
            "at": BEGIN + timedelta(seconds=chance.randrange(180)),
        }
        for _ in range(count)
    ]


def test_measures_over_several_batches_are_those_of_brute_force(spark: SparkSession) -> None:
    rows = requests(3000)
    pipeline = Pipeline(
        *("ops", measured),
        reads=[REQUESTS],
        writes=KafkaSink(MEASURED),
        watermark=Bounded(5 * MINUTE),
        late=Drop(),
    )
    with rehearse(pipeline, spark) as stage:
        for start in range(0, 3000, 1000):
            stage.feed(REQUESTS, *rows[start : start + 1000])
        stage.advance(BEGIN + timedelta(hours=1))
        found = stage.output()
    assert [one["opened_at"] for one in found] == [BEGIN + n * MINUTE for n in range(-1, 3)]
    for one in found:
        check(one, [row for row in rows if timedelta(0) <= row["at"] - one["opened_at"] < 2 * MINUTE])


def check(found: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    assert found["rate"] == pytest.approx(len(rows) / 2)
    assert found["failed"] == pytest.approx(sum((row["status"] or 0) >= 500 for row in rows) / len(rows))
    slower = sum(row["ms"] > found["p99"] for row in rows) / len(rows)
    assert slower == pytest.approx(0.01, abs=0.002)
    assert found["users"] == pytest.approx(len({row["user"] for row in rows}), rel=0.06)
    counts = Counter(row["path"] for row in rows)
    assert [counts[one["item"]] for one in found["busiest"]] == [n for _, n in counts.most_common(3)]
    assert all(one["count"] == counts[one["item"]] for one in found["busiest"])


def test_a_value_is_named_only_if_it_is_certain(spark: SparkSession) -> None:
    many = spark.range(1000).selectExpr("CAST(id AS string) AS v")
    hot = many.union(spark.range(50).selectExpr("'hot' AS v"))
    (row,) = hot.agg(measures.top(F.col("v"), 2, among=100).alias("found")).collect()
    assert [one["item"] for one in row["found"]] == ["hot"]
    (row,) = many.agg(measures.top("v", 2, among=100).alias("found")).collect()
    assert row["found"] == []


def test_a_rate_of_no_time_is_refused() -> None:
    with pytest.raises(BadPipeline, match="a rate needs a window that is longer than nothing"):
        measures.rate(timedelta(0))


@pytest.mark.parametrize(("n", "among"), [(0, 10), (11, 10)])
def test_a_top_that_cannot_be_is_refused(n: int, among: int) -> None:
    with pytest.raises(BadPipeline, match=f"the top {n} among {among} values cannot be had") as refused:
        measures.top("path", n, among=among)
    assert refused.value.hint == "0 < n <= among"
