"""A real MariaDB: ready for capture, closed to strangers, and back after kill -9."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pymysql
import pytest

from headwater import Settings, embedded
from headwater.embedded.mariadb import MariaDB
from headwater.embedded.nobody import NOBODY
from headwater.embedded.ports import LOOPBACK, a_free_port
from headwater.embedded.server import Running
from headwater.errors import ServerFailed

pytestmark = pytest.mark.system


def up(settings: Settings, server: MariaDB | None = None) -> Running:
    return embedded.up(settings, [server or MariaDB()], lambda *_: None)[0]


def connected(url: str | None, **other: str) -> Any:
    at = urlsplit(url or "")
    said = {"user": at.username, "password": at.password, "database": at.path[1:], **other}
    return pymysql.connect(host=at.hostname, port=at.port, autocommit=True, **said)


def rows(url: str | None, *statements: str) -> Any:
    with connected(url) as connection, connection.cursor() as cursor:
        for one in statements:
            cursor.execute(one)
        return cursor.fetchall()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Settings]:
    settings = Settings(home=tmp_path, mariadb_port=a_free_port())
    yield settings
    embedded.down(settings)


def test_its_binary_log_has_whole_rows_and_the_names_of_their_columns(mariadb: str) -> None:
    found = dict(rows(mariadb, "SHOW VARIABLES LIKE '%bin%'"))
    assert found["log_bin"] == "ON"
    assert found["binlog_format"] == "ROW"
    assert (found["binlog_row_image"], found["binlog_row_metadata"]) == ("FULL", "FULL")


def test_strangers_root_among_them_are_turned_away(mariadb: str) -> None:
    for other in ({"password": "wrong"}, {"user": "root", "password": ""}, {"user": "", "password": ""}):
        with pytest.raises(pymysql.err.OperationalError, match="Access denied"):
            connected(mariadb, **other)


def test_committed_rows_survive_kill_9_and_nobody_else_hears_of_it(home: Settings) -> None:
    first = up(home)
    process, folder = psutil.Process(first.pid), home.home / "mariadb"
    assert process.uids().effective == (os.geteuid() or NOBODY)
    heard = [one.laddr for one in process.net_connections("inet") if one.status == psutil.CONN_LISTEN]
    assert [tuple(one) for one in heard] == [(LOOPBACK, home.mariadb_port)]
    secret = (folder / "password").read_text()
    assert (folder / "password").stat().st_mode & 0o777 == 0o600
    assert secret not in str(process.cmdline()) + str(embedded.status(home))
    made = ("CREATE TABLE kept (id int)", "INSERT INTO kept SELECT seq FROM seq_1_to_1000")
    rows(embedded.mariadb_url(home), *made)
    os.kill(first.pid, signal.SIGKILL)
    assert up(home).port == first.port
    assert rows(embedded.mariadb_url(home), "SELECT count(*) FROM kept") == ((1000,),)
    assert secret not in (folder / "server.log").read_text()
    assert embedded.down(home) == ["mariadb"]
    assert embedded.mariadb_url(home) is None
    with pytest.raises(ServerFailed, match="mariadb ended while it started") as raised:
        up(home, MariaDB(properties={"binlog-format": "SONG"}))
    assert "SONG" in raised.value.detail
