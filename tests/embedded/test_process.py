"""Processes: told from others with the same pid, found by their folder, ended for certain."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import psutil
import pytest

from headwater.clock import wait_until
from headwater.embedded.process import Identity, end_strays, environment, spawn, started_for

SOON = timedelta(seconds=20)
WAITS = "import threading; print('here', flush=True); threading.Event().wait(120)"
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
