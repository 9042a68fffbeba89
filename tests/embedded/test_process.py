"""Processes: told from others with the same pid, found by their folder, ended for certain."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import psutil
import pytest

from headwater.clock import wait_until
from headwater.embedded.ports import LOOPBACK, a_free_port
from headwater.embedded.process import Identity, end_strays, environment, spawn, started_for
from headwater.errors import ServerFailed

SOON = timedelta(seconds=20)
WAITS = "import threading; print('here', flush=True); threading.Event().wait(120)"
LISTENS = "import socket; listener = socket.create_server(('127.0.0.1', {port})); " + WAITS
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + WAITS


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder for a server; whatever works in it is ended after the test."""
    yield tmp_path
    end_strays(tmp_path, timedelta(0))


def started(folder: Path, program: str = WAITS) -> Identity:
    log = folder / "log"
    made = spawn([sys.executable, "-c", program], log=log, cwd=folder, env=environment(folder))
    assert wait_until(lambda: "here" in log.read_text(), SOON)
    return made


def test_a_process_is_known_by_its_pid_and_the_moment_of_its_creation(folder: Path) -> None:
    alive = started(folder)
    assert alive.is_alive
    assert not replace(alive, created=alive.created - 60).is_alive
    assert not replace(alive, created=alive.created + 60).is_alive


def test_a_process_is_known_though_the_wall_clock_was_set(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alive, begun = started(folder), psutil.boot_time()
    monkeypatch.setattr("psutil._psplatform.boot_time", lambda: begun + 3600)
    assert psutil.Process(alive.pid).create_time() > begun + 3600, "what the wall clock says now"
    assert alive.is_alive
    alive.stop(SOON)


def test_a_process_tells_its_memory_while_it_lives(folder: Path) -> None:
    alive = started(folder)
    assert alive.resident_bytes > 1_000_000
    alive.stop(SOON)
    assert alive.resident_bytes == 0


def test_stopping_asks_first(folder: Path) -> None:
    polite = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(print('bye'))); " + WAITS
    alive = started(folder, polite)
    alive.stop(SOON)
    assert not alive.is_alive
    assert "bye" in (folder / "log").read_text()


def test_the_signal_that_asks_can_be_another(folder: Path) -> None:
    deaf = started(folder, DEAF + "  # but not to an interrupt")
    deaf.stop(SOON, signal.SIGINT)
    assert "KeyboardInterrupt" in (folder / "log").read_text()


def test_a_process_that_does_not_listen_is_ended_all_the_same(folder: Path) -> None:
    deaf = started(folder, DEAF)
    deaf.stop(timedelta(milliseconds=100))
    assert not deaf.is_alive


def test_stopping_a_process_that_has_ended_is_fine(folder: Path) -> None:
    alive = started(folder)
    alive.stop(SOON)
    alive.stop(SOON)


def test_a_process_of_another_creation_is_never_stopped(folder: Path) -> None:
    alive = started(folder)
    replace(alive, created=alive.created - 60).stop(SOON)
    assert alive.is_alive


@pytest.mark.parametrize("gone", [psutil.NoSuchProcess, psutil.ZombieProcess])
def test_a_process_that_ends_while_it_is_stopped_is_stopped(
    folder: Path, monkeypatch: pytest.MonkeyPatch, gone: type[psutil.NoSuchProcess]
) -> None:
    def ends(process: psutil.Process, _: signal.Signals) -> None:
        os.kill(process.pid, signal.SIGKILL)
        raise gone(process.pid)

    monkeypatch.setattr(psutil.Process, "send_signal", ends)
    alive = started(folder)
    alive.stop(SOON)
    assert not alive.is_alive


@pytest.mark.parametrize("refused", [signal.SIGTERM, signal.SIGKILL])
def test_a_process_that_is_not_ours_to_end_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch, refused: signal.Signals
) -> None:
    def denied(process: psutil.Process, sent: signal.Signals) -> None:
        if sent == refused:
            raise psutil.AccessDenied(process.pid)

    deaf = started(folder, DEAF)
    with monkeypatch.context() as patched:
        patched.setattr(psutil.Process, "send_signal", denied)
        with pytest.raises(ServerFailed) as raised:
            deaf.stop(timedelta(milliseconds=100))
    assert raised.value.message == f"process {deaf.pid} is not ours to end"
    assert raised.value.hint == "end it as the user who started it"


def test_the_memory_of_a_process_that_ends_meanwhile_is_none(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(process: psutil.Process) -> None:
        raise psutil.NoSuchProcess(process.pid)

    monkeypatch.setattr(psutil.Process, "memory_info", gone)
    assert started(folder).resident_bytes == 0


def test_a_process_listens_on_its_own_port_and_on_no_other(folder: Path) -> None:
    port = a_free_port()
    alive = started(folder, LISTENS.format(port=port))
    assert alive.listens_on(port)
    with socket.create_server((LOOPBACK, 0)) as rival:
        assert not alive.listens_on(rival.getsockname()[1])
    alive.stop(SOON)
    assert not alive.listens_on(port)


def test_a_process_that_was_seen_to_listen_is_not_looked_at_again_while_it_lives(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = a_free_port()
    alive = started(folder, LISTENS.format(port=port))
    assert alive.listens_on(port)
    monkeypatch.setattr(psutil.Process, "net_connections", None)
    assert alive.listens_on(port)
    alive.stop(SOON)
    assert not alive.listens_on(port)


def test_a_connection_to_a_port_is_not_listening_on_it(folder: Path) -> None:
    with socket.create_server((LOOPBACK, 0)) as rival:
        port = rival.getsockname()[1]
        connects = f"import socket; connection = socket.create_connection(('{LOOPBACK}', {port})); "
        assert not started(folder, connects + WAITS).listens_on(port)


def test_a_port_that_a_child_listens_on_counts_for_its_parent(folder: Path) -> None:
    port = a_free_port()
    script = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {LISTENS.format(port=port)!r}])"
    assert started(folder, script).listens_on(port)


def test_a_process_works_in_the_folder_that_it_was_started_for_while_it_lives(folder: Path) -> None:
    alive = started(folder)
    assert alive.works_in(folder)
    assert not alive.works_in(folder / "copy")
    assert not Identity.of(os.getpid()).works_in(folder)
    alive.stop(SOON)
    assert not alive.works_in(folder)


def test_a_started_process_has_a_session_of_its_own(folder: Path) -> None:
    alive = started(folder)
    assert os.getsid(alive.pid) == alive.pid


def test_a_started_process_outlives_its_starter(folder: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from headwater.embedded.process import environment, spawn\n"
        "folder = Path(sys.argv[1])\n"
        "spawn([sys.executable, '-c', sys.argv[2]], log=folder / 'log', cwd=folder, env=environment(folder))"
    )
    subprocess.run([sys.executable, "-c", script, folder, WAITS], check=True, timeout=60)
    assert wait_until(lambda: len(started_for(folder)) == 1, SOON)


def test_a_process_is_found_by_the_folder_it_was_started_for(folder: Path) -> None:
    alive = started(folder)
    assert [one.pid for one in started_for(folder)] == [alive.pid]
    assert started_for(folder / "other") == []
    assert started_for(folder.parent) == []


def test_strays_are_ended_and_counted(folder: Path) -> None:
    alive = started(folder)
    assert end_strays(folder, SOON)
    assert not alive.is_alive
    assert not end_strays(folder, SOON)


def test_a_process_that_only_inherited_the_mark_is_left_alone(folder: Path, tmp_path: Path) -> None:
    server = tmp_path / "server"
    server.mkdir()
    other = spawn([sys.executable, "-c", WAITS], log=folder / "log", cwd=folder, env=environment(server))
    try:
        assert started_for(server) == []
        assert not end_strays(server, SOON)
        assert other.is_alive
    finally:
        other.stop(SOON)


def test_a_stray_is_known_by_its_command_where_its_working_directory_is_another(tmp_path: Path) -> None:
    server = tmp_path / "server"
    server.mkdir()
    command = [sys.executable, "-c", WAITS, f"-Dlog={server}/log"]
    stray = spawn(command, log=tmp_path / "log", cwd=tmp_path, env=environment(server))
    assert end_strays(server, SOON)
    assert not stray.is_alive


def test_a_stray_whose_folder_was_moved_is_found_in_the_new_one(tmp_path: Path) -> None:
    server = tmp_path / "server"
    server.mkdir()
    stray = started(server)
    moved = server.rename(tmp_path / "moved")
    assert not stray.works_in(moved)
    assert end_strays(moved, SOON)
    assert not stray.is_alive


def test_a_stray_whose_folder_was_removed_is_found(tmp_path: Path) -> None:
    server = tmp_path / "server"
    server.mkdir()
    stray = started(server)
    shutil.rmtree(server)
    assert end_strays(server, SOON)
    assert not stray.is_alive


def test_settings_and_their_secrets_are_not_handed_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWATER_KAFKA_SASL_PASSWORD", "s3cret")
    monkeypatch.setenv("HEADWATER_REGISTRY", "https://me:s3cret@there")
    made = psutil.Process(started(folder).pid).environ()
    assert [name for name in made if name.startswith("HEADWATER_")] == []
    assert "s3cret" not in str(made)


def test_variables_that_would_change_a_server_are_not_handed_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_OPTS", "-Dfoo=bar")
    monkeypatch.setenv("LOG4J_CONFIGURATION_FILE", "elsewhere")
    monkeypatch.setenv("TZ", "UTC")
    made = psutil.Process(started(folder).pid).environ()
    assert "KAFKA_OPTS" not in made
    assert "LOG4J_CONFIGURATION_FILE" not in made
    assert made["TZ"] == "UTC"
