"""The one way to start, find and stop a server, shown with a toy that is up within milliseconds."""

import dataclasses
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from tests.embedded.toy import ENDS, NEVER_ANSWERS, Toy, begin, processes, write_record

from headwater.clock import wait_until
from headwater.embedded import server as module
from headwater.embedded.ports import LOOPBACK, a_free_port
from headwater.embedded.process import Identity, spawn
from headwater.embedded.server import Place, recorded, running, stop
from headwater.errors import DiskFull, JavaMissing, PortTaken, ServerFailed
from headwater.settings import Settings

SOON = timedelta(seconds=20)


@contextmanager
def taken(port: int = 0) -> Iterator[int]:
    """A port that this process listens on."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((LOOPBACK, port))
        listener.listen()
        yield listener.getsockname()[1]


def test_a_started_server_answers_on_its_usual_port(toy: Toy, settings: Settings) -> None:
    started = begin(toy, settings)
    assert started.address == f"{LOOPBACK}:{toy.usual_port}"
    assert toy.answers(started.port)
    assert running("toy", settings) == started
    assert started.since.tzinfo is not None


def test_starting_a_server_that_runs_changes_nothing(toy: Toy, settings: Settings) -> None:
    first = begin(toy, settings)
    assert begin(toy, settings) == first
    assert processes(settings) == [first.pid]


def test_a_server_that_runs_needs_neither_java_nor_its_files(
    toy: Toy, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = begin(toy, settings)
    monkeypatch.setattr(module, "fetch", None)
    assert begin(toy, dataclasses.replace(settings, java_home=Path("/nonexistent"))) == first


def test_a_server_without_java_is_not_started(toy: Toy, settings: Settings) -> None:
    with pytest.raises(JavaMissing):
        begin(toy, dataclasses.replace(settings, java_home=Path("/nonexistent")))


def test_the_pid_of_another_living_process_is_not_believed(toy: Toy, settings: Settings) -> None:
    before = begin(toy, settings)
    stop("toy", settings)
    long_ago = Identity.of(os.getpid()).created - 3600  # the pid was given out again
    stale = dataclasses.asdict(before) | {"pid": os.getpid(), "created": long_ago}
    write_record(settings, json.dumps(stale))
    assert running("toy", settings) is None
    assert begin(toy, settings).pid != os.getpid()


def test_the_pid_of_a_dead_process_is_not_believed(toy: Toy, settings: Settings) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    identity = Identity.of(dead.pid)
    dead.wait()
    write_record(
        settings,
        json.dumps(
            {"name": "toy", "port": toy.usual_port, "started_at": "2026-01-01T00:00:00+00:00"}
            | dataclasses.asdict(identity)
        ),
    )
    assert running("toy", settings) is None
    assert begin(toy, settings).pid != dead.pid


@pytest.mark.parametrize(
    "text",
    [
        "",
        "garbage {",
        "[]",
        "{}",
        "null",
        '{"name": "toy", "port": "x", "pid": "y", "created": 0, "started_at": ""}',
        '{"name": "toy", "port": 1, "pid": -1, "created": 0, "started_at": ""}',
        '{"name": "toy", "port": 99999999, "pid": 99999999999999999999, "created": 0, "started_at": ""}',
    ],
)
def test_a_server_json_that_says_nothing_sensible_is_not_believed(
    toy: Toy, settings: Settings, text: str
) -> None:
    write_record(settings, text)
    assert running("toy", settings) is None
    assert toy.answers(begin(toy, settings).port)


def test_a_server_json_that_is_not_text_is_not_believed(toy: Toy, settings: Settings) -> None:
    write_record(settings, "")
    (settings.home / "toy" / "server.json").write_bytes(b"\xff\xfe\x00")
    assert recorded("toy", settings) is None
    begin(toy, settings)


def test_a_server_whose_server_json_was_lost_is_replaced_not_doubled(toy: Toy, settings: Settings) -> None:
    first = begin(toy, settings)
    (settings.home / "toy" / "server.json").unlink()
    second = begin(toy, settings)
    assert processes(settings) == [second.pid]
    assert second.pid != first.pid


def test_a_usual_port_that_is_taken_gives_way_to_another(settings: Settings) -> None:
    with taken() as port:
        started = begin(Toy(usual_port=port), settings)
        assert started.port != port


def test_an_insisted_port_is_taken(toy: Toy, settings: Settings) -> None:
    wanted = a_free_port()
    assert begin(toy, dataclasses.replace(settings, kafka_port=wanted)).port == wanted


def test_an_insisted_port_that_is_taken_is_refused_and_its_holder_named(toy: Toy, settings: Settings) -> None:
    with taken() as port, pytest.raises(PortTaken) as raised:
        begin(toy, dataclasses.replace(settings, kafka_port=port))
    name = psutil.Process().name()
    assert raised.value.message == f"port {port} is taken by {name} (pid {os.getpid()})"
    assert "HEADWATER_TOY_PORT" in raised.value.hint
    assert processes(settings) == []


def test_the_port_stays_the_same_over_restarts(settings: Settings) -> None:
    with taken() as busy:
        first = begin(Toy(usual_port=busy), settings)
        stop("toy", settings)
    assert begin(Toy(usual_port=busy), settings).port == first.port


def test_a_port_of_before_that_is_taken_now_gives_way_to_the_usual_one(settings: Settings) -> None:
    with taken() as busy:
        first = begin(Toy(usual_port=busy), settings)
        stop("toy", settings)
    with taken(first.port):
        assert begin(Toy(usual_port=busy), settings).port == busy


def test_a_server_that_ends_at_once_fails_with_the_telling_lines_of_its_log(
    toy: Toy, settings: Settings
) -> None:
    with pytest.raises(ServerFailed) as raised:
        begin(dataclasses.replace(toy, program=ENDS), settings)
    assert raised.value.message == "toy ended while it started"
    assert raised.value.detail == "ERROR the moon is in the wrong place"
    assert raised.value.hint == f"its whole log: {settings.home / 'toy' / 'server.log'}"
    assert running("toy", settings) is None
    assert processes(settings) == []


def test_a_server_that_never_answers_fails_and_is_not_left_running(
    toy: Toy, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "START_WITHIN", timedelta(seconds=1))
    with pytest.raises(ServerFailed) as raised:
        begin(dataclasses.replace(toy, program=NEVER_ANSWERS), settings)
    assert raised.value.message == "toy did not answer within 1 s"
    assert raised.value.detail == "INFO thinking"
    assert processes(settings) == []


def test_a_server_that_failed_can_be_started_once_it_is_mended(toy: Toy, settings: Settings) -> None:
    with pytest.raises(ServerFailed):
        begin(dataclasses.replace(toy, program=ENDS), settings)
    assert toy.answers(begin(toy, settings).port)


def test_a_full_disk_is_told_before_the_server_is_started(
    toy: Toy, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=100_000_000))
    with pytest.raises(DiskFull) as raised:
        begin(toy, settings)
    assert raised.value.detail == "100 MB are free, 537 MB are needed"
    assert "HEADWATER_HOME" in raised.value.hint
    assert processes(settings) == []


def test_stopping_twice_is_fine(toy: Toy, settings: Settings) -> None:
    begin(toy, settings)
    assert stop("toy", settings)
    assert not stop("toy", settings)
    assert running("toy", settings) is None


def test_stopping_what_never_ran_is_fine(settings: Settings) -> None:
    assert not stop("toy", settings)


def test_a_server_killed_with_9_is_known_to_be_down_and_starts_again(toy: Toy, settings: Settings) -> None:
    first = begin(toy, settings)
    os.kill(first.pid, signal.SIGKILL)
    assert wait_until(lambda: running("toy", settings) is None, SOON)
    second = begin(toy, settings)
    assert toy.answers(second.port)
    assert second.pid != first.pid
    assert second.port == first.port


def test_what_a_server_keeps_in_its_data_folder_survives_a_restart(toy: Toy, settings: Settings) -> None:
    begin(toy, settings)
    kept = settings.home / "toy" / "data" / "kept.txt"
    kept.write_text("still here")
    stop("toy", settings)
    begin(toy, settings)
    assert kept.read_text() == "still here"


@pytest.fixture
def orphan(toy: Toy, settings: Settings) -> Identity:
    """A server whose starter was killed before it could write server.json."""
    folder = settings.home / "toy"
    folder.mkdir(parents=True)
    ports = {"main": toy.usual_port, "side": a_free_port()}
    place = Place(folder=folder, bundles={}, java=Path("java"), ports=ports, settings=settings)
    made = spawn(toy.prepare(place), log=folder / "server.log", cwd=folder, env=place.environment)
    assert wait_until(lambda: toy.answers(toy.usual_port), SOON)
    return made


def test_an_orphan_that_nobody_wrote_down_is_replaced_by_the_next_start(
    toy: Toy, settings: Settings, orphan: Identity
) -> None:
    started = begin(toy, settings)
    assert not orphan.is_alive
    assert processes(settings) == [started.pid]


def test_an_orphan_that_nobody_wrote_down_is_ended_by_stop(settings: Settings, orphan: Identity) -> None:
    assert stop("toy", settings)
    assert not orphan.is_alive


def test_an_orphan_is_found_through_another_name_of_the_same_home(
    settings: Settings, orphan: Identity, tmp_path: Path
) -> None:
    alias = tmp_path / "alias"
    alias.symlink_to(settings.home)
    assert stop("toy", dataclasses.replace(settings, home=alias))
    assert not orphan.is_alive


def test_a_server_of_another_home_is_left_alone(toy: Toy, settings: Settings, orphan: Identity) -> None:
    other = dataclasses.replace(settings, home=settings.home.parent / "other")
    begin(toy, other)
    stop("toy", other)
    assert orphan.is_alive


def test_a_copied_home_does_not_take_the_firsts_server_for_its_own(toy: Toy, settings: Settings) -> None:
    first = begin(toy, settings)
    copy = dataclasses.replace(settings, home=settings.home.parent / "copy")
    shutil.copytree(settings.home, copy.home)
    assert recorded("toy", copy) == first
    assert running("toy", copy) is None
    assert not stop("toy", copy)
    assert running("toy", settings) == first
    second = begin(toy, copy)
    assert second.port != first.port
    assert stop("toy", copy)
    assert running("toy", settings) == first


def test_a_server_whose_home_was_moved_is_ended_and_not_doubled(toy: Toy, settings: Settings) -> None:
    first = begin(toy, settings)
    moved = dataclasses.replace(settings, home=settings.home.rename(settings.home.parent / "moved"))
    second = begin(toy, moved)
    assert not first.identity.is_alive
    assert processes(moved) == [second.pid]
    assert stop("toy", moved)


def test_a_java_home_from_the_current_folder_is_meant_from_there(
    toy: Toy, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "jdk" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho 'openjdk version \"17.0.1\"' >&2\n")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    places: list[Place] = []

    def prepare(_: Toy, place: Place) -> list[str]:
        places.append(place)
        return ["true"]

    monkeypatch.setattr(Toy, "prepare", prepare)
    with pytest.raises(ServerFailed):
        begin(toy, dataclasses.replace(settings, java_home=Path("jdk")))
    assert places[0].java == program
