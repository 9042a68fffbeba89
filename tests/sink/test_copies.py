"""Copies of a captured table by running pipelines: stores that die, batches that are tried again, replays."""

import random
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
import redis as client
from pyspark.sql import functions as F

from headwater import App, Database, Pipeline, PostgresSink, RedisSink, Settings, Topic, embedded, upserts
from headwater.clock import wait_until
from headwater.embedded.ports import a_free_port
from headwater.errors import SinkUnreachable
from headwater.sink.contract import Batch
from tests.run.test_pipelines import finished, supervised
from tests.sink.shops import Shop, kill, up

pytestmark = pytest.mark.system
SOON = timedelta(seconds=60)


@pytest.fixture(scope="module")
def fragile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """A home whose PostgreSQL and Redis are killed and started by these tests."""
    home = tmp_path_factory.mktemp("fragile")
    settings = Settings(home=home, postgres_port=a_free_port(), redis_port=a_free_port())
    up(settings, "postgres", "redis")
    yield settings
    embedded.down(settings)


@pytest.fixture
def shop(log, fragile, name) -> Shop:
    return Shop(log, fragile, f"shop_{name.replace('-', '_')[-25:]}")


def figures(supervisor: Any, pipeline: str) -> Any:
    return next(one for one in supervisor.figures if one.pipeline == f"in-{pipeline}")


@pytest.mark.parametrize(("victim", "other"), [("postgres", "redis"), ("redis", "postgres")])
def test_a_store_killed_in_mid_batch_stops_only_its_pipeline_which_goes_on_where_it_was(
    spark, system, fragile, shop, victim, other
):
    chance = random.Random(victim)
    shop.change(2400, chance)
    with supervised(shop.app(batch=600), spark, system, once=False) as found:
        assert wait_until(lambda: (figures(found, victim).batch or 0) > 1, SOON)
        kill(fragile, victim)
        shop.change(1200, chance)
        assert wait_until(lambda: figures(found, victim).state == "waiting", SOON)
        assert wait_until(lambda: figures(found, other).rows == 3600, SOON)
        assert figures(found, other).state == "running"
        up(fragile, victim)
        assert wait_until(lambda: shop.copies() == [shop.newest, shop.newest], SOON)
        assert [str(error) for error in found.errors] == []


class Unlucky:
    """A sink that writes each batch, and says at the first try of every second one that it could not."""

    def __init__(self, sink: Any) -> None:
        self.name, self.guarantee, self.check = sink.name, sink.guarantee, sink.check
        self._sink, self._failed = sink, set[int]()

    def write(self, rows: Any, batch: Batch) -> None:
        self._sink.write(rows, batch)
        if batch.number % 2 and batch.number not in self._failed:
            self._failed.add(batch.number)
            raise SinkUnreachable("the answer did not come")


def test_a_batch_that_is_tried_again_and_a_log_that_is_replayed_change_nothing(spark, system, shop):
    shop.change(1500, random.Random(1))
    in_postgres, in_redis = Unlucky(shop.in_postgres), Unlucky(shop.in_redis)
    both = Pipeline("both", upserts, reads=[shop.table], writes=[in_postgres, in_redis], batch=600)
    finished(App(shop.name, both), spark, system)
    assert shop.copies() == [shop.newest, shop.newest]
    rows = rows_as_they_lie(shop)
    finished(App(f"{shop.name}-again", both), spark, system)
    assert shop.copies() == [shop.newest, shop.newest]
    assert rows_as_they_lie(shop) == rows


def rows_as_they_lie(shop: Shop) -> list[Any]:
    """Rows of PostgreSQL with the transactions that wrote them."""
    with psycopg.connect(shop.url) as database:
        return database.execute(f"SELECT id, xmin::text FROM {shop.in_postgres.name} ORDER BY id").fetchall()


def test_a_server_of_ours_that_is_down_is_waited_for(spark, fragile):
    rows = spark.createDataFrame([], "id long, position long")
    sinks = (RedisSink("a", key="id"), PostgresSink("public.a", database=Database("ours"), key="id"))
    kill(fragile, "redis")
    kill(fragile, "postgres")
    assert wait_until(lambda: not embedded.redis_url(fragile) and not embedded.postgres_url(fragile), SOON)
    for sink in sinks:
        with pytest.raises(SinkUnreachable, match="headwater up --with"):
            sink.write(rows, Batch("test.p", 0, "q", fragile))
    up(fragile, "postgres", "redis")


def test_a_count_for_each_window_is_kept_by_the_instant_of_its_batch(spark, system, log, shop, name):
    """Spark writes that instant into the checkpoint, so a batch that is tried again has the same one."""
    clicks = Topic(f"{name}-clicks", schema="page string, at timestamp")
    log.topics.create(clicks)

    def counted(rows):
        found = rows.groupBy("page").count()
        return found.withColumn("counted_at", F.current_timestamp())

    sink = Unlucky(RedisSink(name, key="page", version="counted_at", url=shop.in_redis.url))
    one = Pipeline("counts", counted, reads=[clicks], writes=sink, output="update")
    with client.Redis.from_url(shop.in_redis.url, decode_responses=True) as known:
        for wanted in (3, 6):
            with log.writer() as writer:
                for _ in range(3):
                    writer.append(clicks, {"page": "home", "at": None})
            finished(App(shop.name, one), spark, system)
            assert known.hget(f"{name}:home", "count") == str(wanted)
