"""up, down and status of a home: at once, in the middle of each other, and on homes that cannot be."""

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path

import psutil
import pytest
from tests.cli.command import begin
from tests.embedded.toy import NEVER_ANSWERS

from headwater import Settings, embedded
from headwater.clock import wait_until
from headwater.embedded.kafka import Kafka
from headwater.embedded.ports import LOOPBACK, a_free_port
from headwater.embedded.process import environment, spawn, started_for
from headwater.embedded.registry import Registry
from headwater.embedded.server import Running, recorded, running
from headwater.errors import DiskFull, HomeBusy, SettingsError

SOON = timedelta(seconds=30)
KAFKA = embedded.SERVERS["kafka"]


def no_progress(*_: object) -> None:
    """Nobody watches."""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Settings]:
    """A home without servers, as the command line sees it in `tmp_path`."""
    settings = Settings(home=tmp_path / ".headwater")
    yield settings
    if settings.home.is_dir():
        embedded.down(settings)
    assert processes(settings) == []


def processes(settings: Settings) -> list[int]:
    return [one.pid for one in started_for(settings.home / "kafka")]


def states(settings: Settings) -> dict[str, str]:
    return {one.name: one.state for one in embedded.status(settings)}


def ended(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out


@pytest.mark.system
def test_two_ups_at_once_end_with_the_same_single_broker(home: Settings, tmp_path: Path) -> None:
    both = [begin("up", "--json", folder=tmp_path) for _ in range(2)]
    first, second = (json.loads(ended(one)) for one in both)
    assert first == second
    assert processes(home) == [first[0]["pid"]]


@pytest.mark.system
@pytest.mark.parametrize("kind", [Kafka, Registry])
def test_two_homes_that_choose_the_same_port_at_once_get_a_server_each(
    tmp_path: Path, kind: type[Kafka] | type[Registry]
) -> None:
    server = kind(usual_port=a_free_port())
    homes = [Settings(home=tmp_path / "one"), Settings(home=tmp_path / "two")]
    try:
        with ThreadPoolExecutor() as threads:
            (one,), (two,) = threads.map(lambda each: embedded.up(each, [server], no_progress), homes)
        assert one.port != two.port
        assert one.identity.listens_on(one.port)
        assert two.identity.listens_on(two.port)
    finally:
        for each in homes:
            embedded.down(each)


@pytest.mark.system
def test_a_home_goes_through_never_started_running_and_stopped(home: Settings) -> None:
    assert states(home)["kafka"] == "never started"
    assert embedded.kafka_address(home) is None
    (started,) = embedded.up(home, [KAFKA], no_progress)
    assert embedded.kafka_address(home) == started.address
    shown = next(one for one in embedded.status(home) if one.name == "kafka")
    assert (shown.state, shown.address, shown.pid) == ("running", started.address, started.pid)
    assert shown.resident_bytes > 0
    assert embedded.down(home) == ["kafka"]
    assert embedded.down(home) == []
    shown = next(one for one in embedded.status(home) if one.name == "kafka")
    assert (shown.state, shown.address, shown.pid) == ("stopped", started.address, None)
    assert embedded.kafka_address(home) is None


@pytest.mark.system
def test_a_broker_that_hangs_is_shown_as_not_answering_and_can_be_stopped(
    home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    (started,) = embedded.up(home, [KAFKA], no_progress)
    os.kill(started.pid, signal.SIGSTOP)
    assert states(home)["kafka"] == "not answering"
    monkeypatch.setattr("headwater.embedded.server.STOP_WITHIN", timedelta(milliseconds=200))
    assert embedded.down(home) == ["kafka"]


def command(pid: int) -> list[str]:
    try:
        return psutil.Process(pid).cmdline()
    except psutil.Error:  # it has just ended
        return []


def first_process_of(settings: Settings, program: str) -> int:
    """The first process of this home whose command names `program`."""
    found: list[int] = []

    def seen() -> bool:
        found.extend(pid for pid in processes(settings) if program in command(pid))
        return bool(found)

    assert wait_until(seen, SOON, pause=0.005)
    return found[0]


@pytest.mark.system
@pytest.mark.parametrize("program", ["kafka.tools.StorageTool", "kafka.Kafka"])
def test_an_up_killed_with_9_on_its_way_leaves_nothing_in_the_way_of_the_next(
    home: Settings, tmp_path: Path, program: str
) -> None:
    with begin("up", folder=tmp_path) as starting:
        orphan = first_process_of(home, program)
        starting.kill()
    if program == "kafka.Kafka":
        (home.home / "kafka" / "server.json").unlink(missing_ok=True)  # killed before it could write it
    (started,) = embedded.up(home, [KAFKA], no_progress)
    assert processes(home) == [started.pid]
    assert started.pid != orphan
    assert KAFKA.answers(started.port)


@pytest.mark.system
def test_an_up_killed_with_9_while_the_broker_starts_is_taken_over_by_the_next(
    home: Settings, tmp_path: Path
) -> None:
    with begin("up", folder=tmp_path) as starting:
        broker = first_process_of(home, "kafka.Kafka")
        assert wait_until(lambda: running("kafka", home) is not None, SOON, pause=0.005)
        starting.kill()
    (started,) = embedded.up(home, [KAFKA], no_progress)
    assert started.pid == broker


@contextmanager
def recorded_at(port: int, name: str, settings: Settings) -> Iterator[Running]:
    """A living server of this home that does not listen, written down with a port."""
    folder = settings.home / name
    folder.mkdir(parents=True)
    program = [sys.executable, "-c", NEVER_ANSWERS]
    alive = spawn(program, log=folder / "server.log", cwd=folder, env=environment(folder))
    record = Running(name=name, port=port, **asdict(alive), started_at="2026-01-01T00:00:00+00:00")
    (folder / "server.json").write_text(json.dumps(asdict(record)))
    try:
        yield record
    finally:
        alive.stop(SOON)


@pytest.mark.parametrize("name", ["kafka", "registry"])
def test_the_port_of_a_server_that_is_not_ours_is_never_an_address_nor_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    settings = Settings(home=tmp_path / "home")
    address = {"kafka": embedded.kafka_address, "registry": embedded.registry_url}[name]
    monkeypatch.setattr(type(embedded.SERVERS[name]), "answers", lambda *_: True)
    with socket.create_server((LOOPBACK, 0)) as stranger:
        with recorded_at(stranger.getsockname()[1], name, settings) as record:
            assert states(settings)[name] == "not answering"
            assert address(settings) is None
        assert running(name, settings) is None
        assert recorded(name, settings) == record
        assert states(settings)[name] == "stopped"
        assert address(settings) is None


def test_a_new_home_is_for_its_user_only_and_one_that_exists_stays_as_it_is(tmp_path: Path) -> None:
    made = tmp_path / "new" / ".headwater"
    embedded.up(Settings(home=made), [], no_progress)
    assert made.stat().st_mode & 0o777 == 0o700
    made.chmod(0o750)
    embedded.up(Settings(home=made), [], no_progress)
    assert made.stat().st_mode & 0o777 == 0o750


def test_the_files_of_all_servers_are_fetched_together_before_the_first_one_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[object] = []
    monkeypatch.setattr(embedded, "fetch_all", lambda bundles, *_: done.append(bundles))
    monkeypatch.setattr(embedded, "start", lambda server, *_: done.append(server.name))
    embedded.up(Settings(home=tmp_path), [KAFKA, embedded.SERVERS["search"]], no_progress)
    assert done == [["kafka", "search"], "kafka", "search"]


def test_down_in_a_folder_without_a_home_makes_none(tmp_path: Path) -> None:
    assert embedded.down(Settings(home=tmp_path / "none")) == []
    assert not (tmp_path / "none").exists()


def test_a_home_held_by_another_command_for_too_long_is_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "WAIT_FOR_OTHERS", timedelta(milliseconds=200))
    with (tmp_path / "lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(HomeBusy) as raised:
            embedded.up(Settings(home=tmp_path), [], no_progress)
    assert raised.value.message == f"another headwater command holds {tmp_path}"
    assert embedded.up(Settings(home=tmp_path), [], no_progress) == []


@pytest.mark.parametrize("act", ["up", "down"])
def test_a_home_that_is_a_file_is_a_setting_to_change(tmp_path: Path, act: str) -> None:
    settings = Settings(home=tmp_path / "file")
    settings.home.write_text("not a folder")
    with pytest.raises(SettingsError, match="is not a folder that can be written to") as raised:
        embedded.down(settings) if act == "down" else embedded.up(settings, [KAFKA], no_progress)
    assert "HEADWATER_HOME" in raised.value.hint
    assert set(states(settings).values()) == {"never started"}


def test_a_disk_that_fills_up_while_a_server_is_prepared_is_told_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*_: object) -> Running:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(embedded, "start", no_room)
    with pytest.raises(DiskFull, match="HEADWATER_HOME"):
        embedded.up(Settings(home=tmp_path), [KAFKA], no_progress)


def test_an_error_of_the_system_that_is_not_about_the_home_is_not_explained_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> Running:
        raise ConnectionResetError(104, "Connection reset by peer")

    monkeypatch.setattr(embedded, "start", broken)
    with pytest.raises(ConnectionResetError):
        embedded.up(Settings(home=tmp_path), [KAFKA], no_progress)


def test_addresses_of_external_servers_are_those_of_the_settings(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, kafka="there:9092", registry="http://there:8081")
    assert embedded.kafka_address(settings) == "there:9092"
    assert embedded.registry_url(settings) == "http://there:8081"
    inside = replace(settings, kafka=None, registry=None, kafka_port=a_free_port())
    assert embedded.kafka_address(inside) is None
    assert embedded.registry_url(inside) is None
