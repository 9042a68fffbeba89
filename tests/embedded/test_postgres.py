"""A real PostgreSQL: ready for capture, closed to strangers, and back after kill -9."""

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import psycopg
import pytest

from headwater import Settings, embedded
from headwater.embedded.nobody import NOBODY
from headwater.embedded.ports import LOOPBACK, a_free_port
from headwater.embedded.postgres import Postgres
from headwater.embedded.server import Running, running
from headwater.errors import ServerFailed, ServerUnavailable

pytestmark = pytest.mark.system


def up(settings: Settings, server: Postgres | None = None) -> Running:
    return embedded.up(settings, [server or Postgres()], lambda *_: None)[0]


def url(settings: Settings) -> str:
    found = embedded.postgres_url(settings)
    assert found
    return found


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """A home whose server these tests kill, stop and start, over the same data."""
    settings = Settings(home=tmp_path_factory.mktemp("fragile"), postgres_port=a_free_port())
    yield settings
    embedded.down(settings)
    assert running("postgres", settings) is None


def test_it_decodes_its_log_and_has_slots_for_it(postgres: str) -> None:
    with psycopg.connect(postgres, autocommit=True) as connection:
        assert connection.execute("SHOW wal_level").fetchone() == ("logical",)
        connection.execute("CREATE TABLE first (id int PRIMARY KEY)")
        connection.execute("SELECT pg_create_logical_replication_slot('look', 'pgoutput')")
        connection.execute("SELECT pg_drop_replication_slot('look')")


def test_it_speaks_utf8_and_utc(postgres: str) -> None:
    with psycopg.connect(postgres) as connection:
        assert connection.execute("SHOW server_encoding").fetchone() == ("UTF8",)
        assert connection.execute("SHOW timezone").fetchone() == ("UTC",)
        assert connection.execute("SELECT upper('ñandú')").fetchone() == ("ÑANDÚ",)


def test_a_stranger_is_asked_for_the_password(postgres: str) -> None:
    before, _, after = postgres.partition("@")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(f"{before[:-1]}?@{after}")


def test_committed_rows_survive_kill_9_with_clients_at_work(home: Settings) -> None:
    first = up(home)
    with psycopg.connect(url(home), autocommit=True) as connection:
        connection.execute("CREATE TABLE kept (id int)")
        connection.execute("INSERT INTO kept SELECT generate_series(1, 1000)")
        os.kill(first.pid, signal.SIGKILL)
        second = up(home)
    assert (second.port, second.pid) != (first.port, first.pid)
    with psycopg.connect(url(home)) as connection:
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (1000,)


def test_it_ends_at_once_although_clients_are_connected(home: Settings) -> None:
    started = up(home)
    with psycopg.connect(url(home)):
        assert embedded.down(home) == ["postgres"]
    assert "database system is shut down" in (home.home / "postgres" / "server.log").read_text()
    assert not psutil.pid_exists(started.pid) or not started.identity.is_alive


def test_the_password_is_kept_for_its_user_and_appears_nowhere_else(home: Settings) -> None:
    started = up(home)
    kept = home.home / "postgres" / "password"
    secret = kept.read_text()
    assert kept.stat().st_mode & 0o777 == 0o600
    assert secret in url(home)
    assert secret not in str(embedded.status(home))
    assert secret not in str(psutil.Process(started.pid).cmdline())
    assert secret not in (home.home / "postgres" / "server.log").read_text()


def test_it_listens_on_loopback_only(home: Settings) -> None:
    process = psutil.Process(up(home).pid)
    listening = [one.laddr for one in process.net_connections("inet") if one.status == psutil.CONN_LISTEN]
    assert [tuple(one) for one in listening] == [(LOOPBACK, home.postgres_port)]


def test_root_starts_it_as_nobody_and_everybody_else_as_himself(home: Settings) -> None:
    process = psutil.Process(up(home).pid)
    assert process.uids().effective == (os.geteuid() or NOBODY)
    assert (home.home / "postgres" / "data").stat().st_uid == process.uids().effective


def test_a_cluster_whose_making_was_cut_off_is_made_anew(tmp_path: Path) -> None:
    home = Settings(home=tmp_path, postgres_port=a_free_port())
    partial = home.home / "postgres" / "data.partial"
    partial.mkdir(parents=True)
    (partial / "PG_VERSION").write_text("18\n")
    up(home)
    assert url(home)
    assert embedded.down(home) == ["postgres"]
    assert not partial.exists()


def test_settings_of_its_own_can_be_laid_over_ours(home: Settings) -> None:
    embedded.down(home)
    up(home, Postgres(properties={"wal_level": "replica"}))
    with psycopg.connect(url(home)) as connection:
        assert connection.execute("SHOW wal_level").fetchone() == ("replica",)


def test_a_setting_that_it_refuses_is_told_in_its_words(home: Settings) -> None:
    embedded.down(home)
    with pytest.raises(ServerFailed, match="postgres ended while it started") as raised:
        up(home, Postgres(properties={"wal_level": "chatty"}))
    assert 'invalid value for parameter "wal_level": "chatty"' in raised.value.detail


def test_on_another_kind_of_machine_it_says_that_it_cannot_run(
    home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedded.down(home)
    monkeypatch.setattr("platform.system", lambda: "Plan9")
    with pytest.raises(ServerUnavailable, match="postgres cannot run here: its files are for") as raised:
        up(home)
    assert "a server of your own" in raised.value.hint


def test_a_home_without_it_has_no_url_of_it(tmp_path: Path) -> None:
    assert embedded.postgres_url(replace(Settings(), home=tmp_path)) is None
