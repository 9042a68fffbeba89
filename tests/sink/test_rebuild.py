"""Copies rebuilt in real systems: while everything moves, killed at every stage, with other code."""

from datetime import timedelta

import psycopg
import pytest
from pyspark.sql import functions as F
from redis import Redis

from headwater import App, KafkaSink, Pipeline, Topic, embedded, upserts
from headwater.clock import wait_until
from headwater.errors import BadPipeline, RebuildBusy
from headwater.run import rebuild as rebuilding
from headwater.run.copies import TOPIC, Copies
from headwater.run.gate import holders
from headwater.run.rebuild import Rebuild
from headwater.sink.redis_beside import _Names
from headwater.verify.pipeline import verify
from tests.cli.command import as_json, begun, run
from tests.run.test_pipelines import finished, supervised
from tests.sink.rebuilding import GHOST, KEYS, KINDS, InRedis, Source, Watch

pytestmark = pytest.mark.system
SOON = timedelta(seconds=60)


@pytest.fixture
def source(log, name) -> Source:
    return Source(log, f"t_{name.replace('-', '_')[-25:]}")


@pytest.fixture
def copy(request, name):
    """A copy in the system that the test names."""
    return KINDS[request.param](request.getfixturevalue(request.param), f"c_{name.replace('-', '_')[-20:]}")


def app_of(source, copy, function=upserts, **more) -> App:
    one = Pipeline("kept", function, reads=[source.table], writes=copy.sink, **more)
    return App(copy.name.replace(".", "-"), one)


def equal(app, settings) -> bool:
    return all(one.verdict.is_equal for one in verify(app, "kept", settings))


@pytest.mark.parametrize("copy", KINDS, indirect=True)
def test_readers_find_every_row_and_none_older_while_a_copy_is_rebuilt_under_load(
    spark, system, source, copy
):
    source.change(1200)
    app, watch = app_of(source, copy, batch=400), Watch(copy)
    with supervised(app, spark, system, once=False) as running, source.restless():
        assert wait_until(lambda: running.figures[0].rows >= 1200, SOON)
        with copy.reader() as read:
            assert wait_until(lambda: read().keys() >= set(KEYS), SOON)
            copy.haunt()
            with watch.watching():
                done = Rebuild(app, "kept", spark, system).run()
                before = running.figures[0].rows
                assert wait_until(lambda: running.figures[0].rows > before + 200, SOON)
            assert GHOST not in read()
        assert running.figures[0].state == "running"
    finished(app, spark, system)
    assert watch.faults == []
    assert watch.looks > 20
    assert equal(app, system)
    assert (copy.left(), done.leaves, done.went_on) == ([], False, False)


class Killed(BaseException):
    """As kill -9 ends a rebuild: what it would have done afterwards is not done."""


def die(*_):
    raise Killed


def dying(stage, monkeypatch):
    """A rebuild's progress, as it is told to one that dies at a stage."""

    def told(now, done, *_):
        if stage == now and done:
            die()
        if now == "switching" and stage == "half switched":
            monkeypatch.setattr(_Names, "remove", die)

    monkeypatch.setattr(Copies, "retire", die if stage == "switched" else Copies.retire)
    monkeypatch.setattr(Rebuild, "_left", die if stage == "removing" else Rebuild._left)
    return told


STAGES = {
    "postgres": ("switching", "switched", "removing"),
    "redis": ("building", "half switched", "switched", "finishing"),
    "search": ("switched",),
}


@pytest.mark.parametrize("copy", STAGES, indirect=True)
def test_a_rebuild_killed_at_any_stage_is_run_again_and_nothing_is_missing_or_left(
    spark, system, source, copy
):
    """The pipeline does not run: what the log got meanwhile, the rebuild brings."""
    source.change(900)
    app, watch = app_of(source, copy), Watch(copy)
    finished(app, spark, system)
    with copy.reader() as read:
        assert wait_until(lambda: read().keys() >= set(KEYS), SOON)
        copy.haunt()
        with watch.watching():
            for stage in STAGES[copy.kind]:
                with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
                    Rebuild(app, "kept", spark, system, dying(stage, patch)).run()
                source.change(100)
            done = Rebuild(app, "kept", spark, system).run()
        assert wait_until(lambda: read() == source.newest, SOON)
    assert (watch.faults, copy.left(), done.leaves) == ([], [], False)
    finished(app, spark, system)
    assert equal(app, system)


@pytest.mark.parametrize("copy", ["postgres"], indirect=True)
def test_a_pipeline_of_older_code_ends_at_the_switch_and_cannot_write_into_the_new_copy(
    spark, system, source, copy
):
    def other(rows):
        found = upserts(rows).withColumn("number", F.col("number").cast("decimal(20,0)"))
        return found.withColumn("shout", F.concat(F.lit("n"), F.col("number")))

    source.change(900)
    old, new, watch = app_of(source, copy), app_of(source, copy, other), Watch(copy)
    with supervised(old, spark, system, once=False) as running:
        assert wait_until(lambda: running.figures[0].rows == 900, SOON)
        table = copy.name
        with psycopg.connect(copy.url, autocommit=True) as connection:
            connection.execute(f"GRANT SELECT ON {table} TO PUBLIC")
            connection.execute(f"CREATE INDEX ON {table} (number)")
            with source.restless(), watch.watching():
                Rebuild(new, "kept", spark, system).run()
                assert wait_until(lambda: running.figures[0].state == "failed", SOON)
            assert running.errors[0].code == "copy-rebuilt"
            with supervised(old, spark, system) as again:
                assert [one.code for one in again.errors] == ["copy-rebuilt"]
            finished(new, spark, system)
            found = connection.execute(f"SELECT id, number, shout FROM {table}").fetchall()
            rights = (
                "SELECT count(*) FROM pg_class, aclexplode(relacl) WHERE oid = %s::regclass AND grantee = 0"
            )
            assert connection.execute(rights, [table]).fetchone() == (1,)
    assert sorted(found) == sorted((key, at, f"n{at}") for key, at in source.newest.items())
    assert watch.faults == []


@pytest.mark.parametrize("copy", ["redis"], indirect=True)
def test_a_rebuild_is_refused_while_another_is_under_way_and_where_there_is_nothing_to_build(
    spark, system, log, source, copy, monkeypatch
):
    app = app_of(source, copy)
    with pytest.raises(BadPipeline, match="there is nothing to rebuild from"):
        Rebuild(app, "kept", spark, system).run()
    monkeypatch.setattr(rebuilding, "_OTHERS_MAY_END_WITHIN", timedelta(seconds=1))
    group = holders(app.label(app.pipelines[0]))
    with log.join(group, TOPIC) as other:
        assert wait_until(lambda: list(other.take(0.1)) or bool(other.assignment()), SOON)
        with pytest.raises(RebuildBusy, match="is under way"):
            Rebuild(app, "kept", spark, system).run()
    log.groups.delete(group)
    to_kafka = Pipeline("k", upserts, reads=[source.table], writes=KafkaSink(Topic("out", schema="id long")))
    with pytest.raises(BadPipeline, match="keeps no copy"):
        Rebuild(App("a", to_kafka), "k", spark, system)
    taken = Pipeline("kept-rebuild", upserts, reads=[source.table], writes=copy.sink)
    with pytest.raises(BadPipeline, match="has a pipeline 'kept-rebuild'"):
        Rebuild(App("a", *app.pipelines, taken), "kept", spark, system)


@pytest.mark.parametrize("copy", ["redis"], indirect=True)
def test_a_rebuild_that_was_killed_can_be_given_up_unless_it_may_have_switched(
    spark, system, source, copy, monkeypatch
):
    source.change(300)
    app = app_of(source, copy)
    label = app.label(app.pipelines[0])
    with pytest.raises(Killed):
        Rebuild(app, "kept", spark, system, dying("building", monkeypatch)).run()
    with Redis.from_url(copy.url) as known:
        assert known.exists(f"{copy.name}~new:1")
        copies = Copies(label, system)
        copies.rebuilds("other", switching=True)
        with pytest.raises(RebuildBusy, match="was killed while it switched"):
            Rebuild(app, "kept", spark, system).abandon()
        copies.rebuilds("other")
        Rebuild(app, "kept", spark, system).abandon()
        assert not known.exists(f"{copy.name}~new:1")
    assert copies.look().building == ""


def test_the_command_goes_on_after_kill_9(system, redis, source, tmp_path):
    copy = InRedis(redis, source.table.name.removeprefix("public."))
    source.change(3000)
    (tmp_path / "shop.py").write_text(
        "from headwater import *\n"
        f"ROWS = Table(Database('shop'), {source.table.name!r}, schema={source.table.schema!r}, key='id',\n"
        "             partitions=2)\n"
        f"KEPT = RedisSink({copy.name!r}, key='id')\n"
        "app = App('shop', Pipeline('in-redis', upserts, reads=[ROWS], writes=KEPT, batch=500))\n"
    )
    env = {"HEADWATER_KAFKA": embedded.kafka_address(system) or "", "HEADWATER_REDIS": redis}
    whole = tmp_path / ".headwater/checkpoints/shop/in-redis-rebuild/commits/1"
    with begun("rebuild", "shop.py", "in-redis", folder=tmp_path, env=env) as killed:
        assert wait_until(lambda: killed.poll() is not None or whole.exists(), SOON)
        killed.kill()
    with copy.reader() as read:
        assert read() == {}
        found = as_json(run("rebuild", "shop.py", "in-redis", "--json", folder=tmp_path, env=env))
        assert read() == source.newest
    assert (found["copies"], found["went_on"]) == ([f"RedisSink {copy.name}"], True)
    assert 0 < found["records"] < 2500
    assert not any("~new" in one for one in copy.left())
