"""capture check as a user types it: every finding with what mends it, for people and for programs."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.cli.command import as_json, assert_refused
from tests.cli.conftest import Headwater

pytestmark = pytest.mark.system

APP = """
from headwater import App, Database, Table
GOODS = Database("checks")
ITEMS = Table(GOODS, "public.items", schema="id long NOT NULL, name string", key="id")
app = App("goods", captures=[ITEMS])
"""


@pytest.fixture(scope="module")
def url(postgres: str) -> Iterator[str]:
    with psycopg.connect(postgres, autocommit=True) as server:
        server.execute("CREATE DATABASE checks")
        yield f"{postgres.rpartition('/')[0]}/checks"
        server.execute("DROP DATABASE checks WITH (FORCE)")


@pytest.fixture
def env(url: str) -> dict[str, str]:
    """Nothing but the database: no Kafka, no Connect."""
    return {"HEADWATER_DATABASE_CHECKS": url}


@pytest.fixture
def sql(url: str) -> Iterator[Any]:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS items")
        yield connection


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    file = tmp_path / "shop.py"
    file.write_text(APP)
    return file


def test_each_error_is_told_with_the_sql_that_mends_it_and_ends_with_1(headwater: Headwater, shop, sql):
    sql.execute("CREATE TABLE items (id bigint, name varchar(9))")
    done = headwater("capture", "check", shop)
    assert done.returncode == 1
    assert done.stdout.startswith("error: checks: table 'public.items' has no key\n")
    assert "\n  mend: ALTER TABLE public.items ADD PRIMARY KEY (id);\n" in done.stdout
    assert done.stdout.endswith("\n2 errors, 2 warnings\n")
    assert done.stderr == ""


def test_what_mends_can_be_taken_from_the_json_and_run(headwater: Headwater, shop, sql):
    sql.execute("CREATE TABLE items (id bigint, name varchar(9))")
    done = headwater("capture", "check", shop, "--json")
    assert done.returncode == 1
    told = json.loads(done.stdout)
    assert {one["database"] for one in told} == {"checks"}
    sql.execute(told[0]["hint"])
    (found,) = as_json(headwater("capture", "check", shop, "--json"))
    assert found["severity"] == "warning"


def test_warnings_alone_end_with_0(headwater: Headwater, shop, sql):
    sql.execute("CREATE TABLE items (id bigint PRIMARY KEY, name varchar(9))")
    done = headwater("capture", "check", shop)
    assert done.returncode == 0
    assert done.stdout.startswith("warning: checks: a replication slot may keep any amount of WAL")
    assert done.stdout.endswith("\n0 errors, 1 warning\n")


def test_a_database_that_cannot_be_reached_is_an_error_like_another(headwater: Headwater, shop):
    away = "postgresql://me:s3cret@127.0.0.1:9/shop"
    done = headwater("capture", "check", shop, HEADWATER_DATABASE_CHECKS=away)
    assert done.returncode == 1
    assert "error: checks: me@127.0.0.1:9/shop cannot be reached" in done.stdout
    assert "s3cret" not in done.stdout + done.stderr


def test_an_app_that_captures_nothing_is_refused(headwater: Headwater, shop):
    shop.write_text(
        "from headwater import App, KafkaSink, Pipeline, Topic\n"
        'A, B = Topic("a", schema="id long"), Topic("b", schema="id long")\n'
        'app = App("goods", Pipeline("p", lambda rows: rows, reads=[A], writes=KafkaSink(B)))\n'
    )
    assert_refused(headwater("capture", "check", shop), "bad-pipeline", "captures nothing")
