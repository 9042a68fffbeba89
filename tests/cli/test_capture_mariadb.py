"""capture as a user types it, of a MariaDB: up, status, pause, resume, snapshot, remove."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.capture.captured import SOON, Sql, come, own_mariadb, rows_of
from tests.cli.command import as_json, assert_refused
from tests.cli.conftest import Headwater

from headwater import Database, Settings, Table
from headwater.clock import wait_until

pytestmark = [pytest.mark.system, pytest.mark.usefixtures("connect")]
SCHEMA = "id long NOT NULL, name string"
APP = f"""
from headwater import App, Database, Table
CUPS = Table(Database("cups"), "cups.cups", schema="{SCHEMA}", key="id")
app = App("cups", captures=[CUPS])
"""


@pytest.fixture(scope="module")
def database(mariadb: str, system: Settings) -> Iterator[Database]:
    with own_mariadb(mariadb, "cups", system) as found:
        yield found


@pytest.fixture(scope="module")
def sql(database: Database) -> Iterator[Sql]:
    run = Sql(database.url or "")
    run("CREATE TABLE cups (id bigint PRIMARY KEY, name text)", "INSERT INTO cups VALUES (1, 'one')")
    yield run
    run.close()


@pytest.fixture
def env(system: Settings, database: Database) -> dict[str, str]:
    return {"HEADWATER_HOME": str(system.home), "HEADWATER_DATABASE_CUPS": database.url or ""}


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    file = tmp_path / "shop.py"
    file.write_text(APP)
    return file


@pytest.fixture
def cups(database: Database) -> Table:
    return Table(database, "cups.cups", schema=SCHEMA, key="id")


@pytest.fixture
def up(headwater: Headwater, shop: Path, sql: Sql) -> Any:
    assert sql
    (found,) = as_json(headwater("capture", "up", shop, "--json"))
    return found


def test_up_captures_what_the_app_names_and_status_tells_how_it_is(
    headwater: Headwater, system, shop, cups, up
):
    assert (up["connector"], up["state"], up["tables"]) == ("headwater-cups", "running", ["cups.cups"])
    come(system, cups, lambda found: sorted(rows_of(found)) == [1])

    def status() -> Any:
        return as_json(headwater("capture", "status", shop, "--json"))[0]

    assert wait_until(lambda: status()["slot"] == "kept", SOON, pause=0.2)
    found = status()
    assert found["position"].startswith("binlog.0")
    assert found["retained_bytes"] >= found["lag_bytes"] >= 0
    done = headwater("capture", "status", shop, "--max-wal", "0.001KB")
    assert (done.returncode, "alert: headwater-cups: the database keeps" in done.stderr) == (3, True)


@pytest.mark.usefixtures("up")
def test_what_happens_in_a_pause_comes_after_it(headwater: Headwater, system, shop, cups, sql):
    assert as_json(headwater("capture", "pause", shop, "--json")) == {"paused": ["headwater-cups"]}
    sql("INSERT INTO cups VALUES (10, 'in the pause')")
    status = lambda: as_json(headwater("capture", "status", shop, "--json"))[0]  # noqa: E731 - read here only
    assert wait_until(lambda: status()["state"] == "paused", SOON, pause=0.2)
    assert as_json(headwater("capture", "resume", shop, "--json")) == {"running": ["headwater-cups"]}
    come(system, cups, lambda found: 10 in rows_of(found))


@pytest.mark.usefixtures("up")
def test_a_snapshot_brings_the_rows_once_more(headwater: Headwater, system, shop, cups):
    def reads(found: list[Any]) -> int:
        return len([one for one in found if one and one.operation == "read" and one.key.id == 1])

    before = reads(come(system, cups, lambda found: reads(found) > 0))
    done = headwater("capture", "snapshot", shop)
    assert done.stdout == "asked for the rows of cups.cups\n"
    come(system, cups, lambda found: reads(found) == before + 1)


@pytest.mark.usefixtures("up")
def test_removed_and_captured_again_nothing_is_lost_and_forgotten_it_begins_anew(
    headwater: Headwater, system, shop, cups, sql
):
    done = headwater("capture", "remove", shop)
    assert done.stdout.splitlines() == [
        "removed headwater-cups",
        "  remains: its place in the binary log, which MariaDB keeps for a time only, whoever reads it",
        "  remains: topic cups.cups.cups",
    ]
    sql("INSERT INTO cups VALUES (20, 'meanwhile')", "DELETE FROM cups WHERE id = 10")
    assert headwater("capture", "up", shop).returncode == 0
    rows = rows_of(come(system, cups, lambda found: 20 in rows_of(found)))
    assert 10 not in rows
    assert as_json(headwater("capture", "remove", shop, "--slot", "--yes", "--json"))[0]["removed"]
    assert sql("SHOW TABLES") == (("cups",),)
    assert_refused(headwater("capture", "up", shop), "capture-gap", "headwater topics delete cups.cups.cups")
    assert headwater("topics", "delete", "cups.cups.cups", "--yes").returncode == 0
    assert headwater("capture", "up", shop).returncode == 0
    come(system, cups, lambda found: sorted(rows_of(found)) == [1, 20])


def test_a_wrong_password_is_told_without_it(headwater: Headwater, shop, database):
    wrong = (database.url or "").replace(":", ":wr0ng", 2).replace("wr0ng//", "//", 1)
    done = headwater("capture", "up", shop, HEADWATER_DATABASE_CUPS=wrong)
    assert_refused(done, "database-unreachable", "Access denied")
    assert "wr0ng" not in done.stderr
