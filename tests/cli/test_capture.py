"""capture as a user types it: up, status, pause, resume, snapshot, remove; alerts and mistakes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.capture.captured import SOON, come, own_database, rows_of
from tests.cli.command import as_json, assert_misused, assert_refused
from tests.cli.conftest import Headwater

from headwater import Database, Settings, Table, Topic
from headwater.capture.connect import Connect
from headwater.clock import wait_until

pytestmark = [pytest.mark.system, pytest.mark.usefixtures("connect")]

APP = """
from headwater import App, Database, Table
GOODS = Database("goods")
ITEMS = Table(GOODS, "public.items", schema="id long NOT NULL, name string", key="id")
{more}
app = App("goods", captures=[ITEMS{also}])
"""
MORE = 'BOXES = Table(GOODS, "public.boxes", schema="id long NOT NULL, name string", key="id")'


@pytest.fixture(scope="module")
def goods(postgres: str, system: Settings, connect: str) -> Iterator[Database]:
    assert connect
    with own_database(postgres, "goods", system) as database:
        with psycopg.connect(database.url or "", autocommit=True) as sql:
            for name in ("items", "boxes"):
                sql.execute(f"CREATE TABLE {name} (id bigint PRIMARY KEY, name text)")
                sql.execute(f"INSERT INTO {name} VALUES (1, 'one'), (2, 'two')")
        yield database


@pytest.fixture
def sql(goods: Database) -> Iterator[Any]:
    with psycopg.connect(goods.url or "", autocommit=True) as connection:
        yield connection


@pytest.fixture
def env(system: Settings, goods: Database) -> dict[str, str]:
    return {"HEADWATER_HOME": str(system.home), "HEADWATER_DATABASE_GOODS": goods.url or ""}


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    file = tmp_path / "shop.py"
    file.write_text(APP.format(more="", also=""))
    return file


@pytest.fixture
def items(goods: Database) -> Table:
    return Table(goods, "public.items", schema="id long NOT NULL, name string", key="id")


@pytest.fixture
def up(headwater: Headwater, shop: Path) -> Any:
    (found,) = as_json(headwater("capture", "up", shop, "--json"))
    return found


def test_up_captures_what_the_app_names_and_status_tells_how_it_is(
    headwater: Headwater, system, shop, items, up
):
    assert (up["connector"], up["state"], up["tables"]) == ("headwater-goods", "running", ["public.items"])
    come(system, items, lambda found: len(rows_of(found)) == 2)

    def status() -> Any:
        return as_json(headwater("capture", "status", shop, "--json"))[0]

    assert wait_until(lambda: status()["slot"] == "active", SOON, pause=0.2)
    found = status()
    assert found["lag_bytes"] >= 0
    assert found["retained_bytes"] >= found["lag_bytes"]
    assert found["limit_bytes"] is None
    line = headwater("capture", "status", shop).stdout.splitlines()[-1]
    assert line.startswith("headwater-goods")
    assert "running" in line


@pytest.mark.usefixtures("up")
def test_what_happens_in_a_pause_comes_after_it_and_meanwhile_the_database_keeps_its_log(
    headwater: Headwater, system, shop, items, sql
):
    assert as_json(headwater("capture", "pause", shop, "--json")) == {"paused": ["headwater-goods"]}
    sql.execute("INSERT INTO items VALUES (10, 'in the pause')")
    again = headwater("capture", "up", shop, "--json")
    assert as_json(again)[0]["state"] == "paused"
    done = headwater("capture", "status", shop, "--max-wal", "0.001KB")
    assert done.returncode == 3
    assert "alert: headwater-goods: the database keeps" in done.stderr
    assert as_json(headwater("capture", "resume", shop, "--json")) == {"running": ["headwater-goods"]}
    come(system, items, lambda found: 10 in rows_of(found))


@pytest.mark.usefixtures("up")
def test_a_snapshot_brings_the_rows_once_more(headwater: Headwater, system, shop, items):
    def reads(found: list[Any]) -> int:
        return len([one for one in found if one and one.operation == "read" and one.key.id == 1])

    before = reads(come(system, items, lambda found: reads(found) > 0))
    done = headwater("capture", "snapshot", shop, "--table", "public.items")
    assert done.stdout == "asked for the rows of public.items\n"
    come(system, items, lambda found: reads(found) == before + 1)
    refused = headwater("capture", "snapshot", shop, "--table", "public.cups")
    assert_refused(refused, "bad-pipeline", "does not capture 'public.cups'", "it captures: public.items")


@pytest.mark.usefixtures("up")
def test_a_slot_that_somebody_made_anew_is_an_alert_and_capture_begins_again_only_without_the_old_changes(
    headwater: Headwater, system, shop, items, sql
):
    assert wait_until(lambda: _is_active(sql), SOON)
    connect = Connect.open(system)
    connect.stop("headwater-goods")
    assert wait_until(lambda: not _is_active(sql), SOON)
    sql.execute("SELECT pg_drop_replication_slot('headwater_goods')")
    sql.execute("INSERT INTO items VALUES (15, 'told to nobody')")
    sql.execute("SELECT pg_create_logical_replication_slot('headwater_goods', 'pgoutput')")
    why = "the database no longer has what was not read: its slot is gone, or was made anew"
    assert_refused(headwater("capture", "resume", shop), "connector-failed", why)
    done = headwater("capture", "status", shop)
    assert done.returncode == 3
    assert f"alert: headwater-goods: it is failed\n  {why}" in done.stderr
    removed = headwater("capture", "remove", shop, "--slot", "--yes", "--json")
    assert as_json(removed)[0]["removed"]
    refused = headwater("capture", "up", shop)
    assert_refused(refused, "capture-gap", "headwater topics delete goods.public.items")
    assert headwater("topics", "delete", items.changes.name, "--yes").returncode == 0
    assert headwater("capture", "up", shop).returncode == 0
    come(system, items, lambda found: len(rows_of(found)) >= 2)


@pytest.mark.usefixtures("up")
def test_removed_and_captured_again_nothing_is_lost_and_a_new_table_gets_its_rows(
    headwater: Headwater, system, goods, shop, items, sql
):
    done = headwater("capture", "remove", shop)
    assert done.stdout.splitlines() == [
        "removed headwater-goods",
        "  remains: slot and publication headwater_goods: the database keeps its log from here on",
        "  remains: topic goods.public.items",
    ]
    sql.execute("INSERT INTO items VALUES (20, 'meanwhile')")
    sql.execute("DELETE FROM items WHERE id = 2")
    shop.write_text(APP.format(more=MORE, also=", BOXES"))
    assert headwater("capture", "up", shop).returncode == 0
    rows = rows_of(come(system, items, lambda found: 20 in rows_of(found)))
    assert 2 not in rows
    boxes = Table(goods, "public.boxes", schema="id long NOT NULL, name string", key="id")
    come(system, boxes, lambda found: len(rows_of(found)) == 2)


BESIDE = """
from headwater import KafkaSink, Pipeline, Topic
PINGS, PONGS = Topic("{name}-pings", schema="n long"), Topic("{name}-pongs", schema="n long")
beside = Pipeline("beside", lambda rows: rows, reads=[PINGS], writes=KafkaSink(PONGS))
app = App("{name}", beside, captures=[ITEMS])
"""


@pytest.mark.usefixtures("spark")
def test_run_tells_a_database_that_cannot_be_captured_and_runs_the_pipelines_that_need_none(
    headwater: Headwater, log, shop, goods, name
):
    short = f"goods-{name.rpartition('-')[2]}"
    shop.write_text(APP.format(more="", also="") + BESIDE.format(name=short))
    pings = Topic(f"{short}-pings", schema="n long")
    log.topics.create(pings)
    with log.writer() as writer:
        writer.append(pings, {"n": 7})
    wrong = (goods.url or "").replace(":", ":wr0ng", 2).replace("wr0ng//", "//", 1)
    done = headwater("run", f"{shop}:app", "--once", "--json", HEADWATER_DATABASE_GOODS=wrong)
    assert done.returncode == 1
    told = [json.loads(line) for line in done.stdout.splitlines()]
    (connector,) = [one for one in told if "connector" in one]
    assert (connector["connector"], connector["state"]) == ("headwater-goods", "waiting")
    assert "database 'goods' does not let us in" in connector["error"]
    assert told[-1]["state"] == "done"
    assert [one.value.n for one in log.read(Topic(f"{short}-pongs", schema="n long"))] == [7]
    assert "error: database 'goods' does not let us in [database-unreachable]" in done.stderr
    assert "wr0ng" not in done.stdout + done.stderr


class TestMistakes:
    def test_an_app_that_captures_nothing(self, headwater: Headwater, shop):
        shop.write_text(APP.format(more="", also="").replace("captures=[ITEMS]", "captures=[]"))
        shop.write_text(
            shop.read_text().replace(
                'app = App("goods", captures=[])',
                "from headwater import KafkaSink, Pipeline, Topic\n"
                'COPY = Topic("copy", schema="id long")\n'
                'app = App("goods", Pipeline("p", lambda rows: rows, reads=[COPY], writes=KafkaSink('
                'Topic("other", schema="id long"))))',
            )
        )
        assert_refused(headwater("capture", "up", shop), "bad-pipeline", "captures nothing")

    def test_without_connect_it_says_how_to_start_one(self, headwater: Headwater, shop, tmp_path):
        done = headwater("capture", "up", shop, HEADWATER_HOME=str(tmp_path / "nowhere"))
        assert_refused(done, "connect-missing", "headwater up --with capture")

    def test_a_connect_that_does_not_answer(self, headwater: Headwater, shop):
        done = headwater("capture", "status", shop, HEADWATER_CONNECT="http://me:s3cret@127.0.0.1:9")
        assert_refused(done, "connect-unreachable", "http://127.0.0.1:9 does not answer")
        assert "s3cret" not in done.stderr

    def test_a_wrong_password_is_told_without_it(self, headwater: Headwater, shop, goods):
        wrong = (goods.url or "").replace(":", ":wr0ng", 2).replace("wr0ng//", "//", 1)
        done = headwater("capture", "up", shop, HEADWATER_DATABASE_GOODS=wrong)
        assert_refused(done, "database-unreachable", "password authentication failed")
        assert "wr0ng" not in done.stderr

    def test_a_size_that_is_none(self, headwater: Headwater, shop):
        done = headwater("capture", "status", shop, "--max-wal", "lots")
        assert_misused(done, "'lots' is not a size")

    def test_a_slot_is_dropped_only_after_a_yes(self, headwater: Headwater, shop):
        done = headwater("capture", "remove", shop, "--slot", stdin="n\n")
        assert done.returncode == 1
        assert "nothing was removed" in done.stderr


def _is_active(sql: Any) -> bool:
    found = sql.execute(
        "SELECT active FROM pg_replication_slots WHERE slot_name = 'headwater_goods'"
    ).fetchone()
    return bool(found == (True,))
