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
from tests.embedded.toy import ENDS, NEVER_ANSWERS, Toy

from headwater.clock import wait_until
from headwater.embedded import server as module
from headwater.embedded.ports import LOOPBACK, a_free_port
from headwater.embedded.process import Identity, spawn, started_for
from headwater.embedded.server import Place, Running, recorded, running, start, stop
from headwater.errors import DiskFull, JavaMissing, PortTaken, ServerFailed
from headwater.settings import Settings

SOON = timedelta(seconds=20)


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    """A home in which toys can be started; none is left running."""
    monkeypatch.setattr(module, "fetch", lambda *_: tmp_path)
    made = Settings(home=tmp_path / "home", cache=tmp_path / "cache")
    yield made
    stop("toy", made)
    assert started_for(made.home / "toy") == []


@pytest.fixture
def toy() -> Toy:
    return Toy(usual_port=a_free_port())


def begin(toy: Toy, settings: Settings) -> Running:
    return start(toy, settings, lambda *_: None)


def write_record(settings: Settings, text: str) -> None:
    file = settings.home / "toy" / "server.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def processes(settings: Settings) -> list[int]:
    return [one.pid for one in started_for(settings.home / "toy")]


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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Raced(Toy):
    """Somebody takes the port between our look and the server's, this many times."""

    times: int
    held: list[socket.socket] = dataclasses.field(default_factory=list)

    def prepare(self, place: Place) -> list[str | Path]:
        if len(self.held) < self.times:
            listener = socket.socket()
            listener.bind((LOOPBACK, place.ports["main"]))
            listener.listen()
            self.held.append(listener)
        return list(super().prepare(place))

    def answers(self, port: int) -> bool:
        return port not in {one.getsockname()[1] for one in self.held} and super().answers(port)

    def let_go(self) -> None:
        for one in self.held:
            one.close()


@contextmanager
def raced(times: int) -> Iterator[Raced]:
    made = Raced(usual_port=a_free_port(), times=times)
    try:
        yield made
    finally:
        made.let_go()


def test_a_port_lost_in_a_race_is_tried_again_with_another(settings: Settings) -> None:
    with raced(times=2) as toy:
        started = begin(toy, settings)
        assert toy.answers(started.port)
        assert processes(settings) == [started.pid]


def test_a_race_that_is_lost_every_time_ends_with_the_servers_own_words(settings: Settings) -> None:
    with raced(times=3) as toy, pytest.raises(ServerFailed, match="Address already in use"):
        begin(toy, settings)
    assert processes(settings) == []


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
    place = Place(folder=folder, bundle=folder, java=Path("java"), ports=ports)
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
