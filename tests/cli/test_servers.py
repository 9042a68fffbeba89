"""up, status, down and doctor as a user types them, and what they say when something is wrong."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.cli.command import as_json, assert_misused, assert_refused, run

from headwater import Settings, embedded
from headwater.embedded.ports import LOOPBACK, a_free_port
from headwater.embedded.process import started_for

pytestmark = pytest.mark.system


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder to type commands in; its servers are stopped afterwards."""
    yield tmp_path
    if (tmp_path / ".headwater").is_dir():
        embedded.down(Settings(home=tmp_path / ".headwater"))
    assert started_for(tmp_path / ".headwater" / "kafka") == []


def test_up_again_status_down_and_down_again(folder: Path) -> None:
    up = run("up", folder=folder)
    assert up.returncode == 0, up.stderr
    assert "127.0.0.1:" in up.stdout
    (again,) = as_json(run("up", "--json", folder=folder))
    assert set(again) == {"server", "address", "pid"}
    assert str(again["pid"]) in up.stdout
    kafka, *others = as_json(run("status", "--json", folder=folder))
    assert kafka["memory_mb"] > 50
    assert {**kafka, "memory_mb": 0} == {**again, "state": "running", "memory_mb": 0}
    assert {one["state"] for one in others} == {"never started"}
    shown = run("status", folder=folder)
    assert "running" in shown.stdout
    assert str(again["pid"]) in shown.stdout
    assert run("down", folder=folder).stdout == "stopped kafka\n"
    assert run("down", folder=folder).stdout == "nothing was running\n"
    assert as_json(run("down", "--json", folder=folder)) == {"stopped": []}
    assert as_json(run("status", "--json", folder=folder))[0]["state"] == "stopped"


def test_status_in_a_new_folder_says_that_nothing_was_started_and_makes_nothing(folder: Path) -> None:
    rows = as_json(run("status", "--json", folder=folder))
    assert {one["state"] for one in rows} == {"never started"}
    assert run("down", folder=folder).stdout == "nothing was running\n"
    assert list(folder.iterdir()) == []


def test_an_insisted_port_is_used(folder: Path) -> None:
    port = str(a_free_port())
    (started,) = as_json(run("up", "--json", folder=folder, env={"HEADWATER_KAFKA_PORT": port}))
    assert started["address"] == f"{LOOPBACK}:{port}"


def test_a_new_port_for_a_running_server_is_not_taken_up_and_up_says_so(
    system: Settings, tmp_path: Path
) -> None:
    env = {"HEADWATER_HOME": str(system.home), "HEADWATER_KAFKA_PORT": str(a_free_port())}
    done = run("up", "--json", folder=tmp_path, env=env)
    (kafka,) = as_json(done)
    assert kafka["address"] == f"{LOOPBACK}:{system.kafka_port}"
    port = env["HEADWATER_KAFKA_PORT"]
    assert done.stderr == (
        f"note: kafka runs already, on port {system.kafka_port}, not {port}: "
        "`headwater down`, then `headwater up`, moves it\n"
    )


def test_an_insisted_port_that_is_taken_is_refused_and_its_holder_named(folder: Path) -> None:
    with socket.create_server((LOOPBACK, 0)) as listener:
        port = str(listener.getsockname()[1])
        done = run("up", folder=folder, env={"HEADWATER_KAFKA_PORT": port})
    assert_refused(done, "port-taken", psutil.Process().name(), "hint: leave HEADWATER_KAFKA_PORT unset")


@pytest.mark.parametrize("verb", ["up", "down", "status", "doctor"])
def test_a_bad_headwater_toml_is_refused_by_every_verb(folder: Path, verb: str) -> None:
    (folder / "headwater.toml").write_text("kafka_port = ???")
    assert_refused(run(verb, folder=folder), "bad-settings", "headwater.toml is not TOML", "line 1")


def test_an_unknown_setting_in_headwater_toml_is_refused(folder: Path) -> None:
    (folder / "headwater.toml").write_text("port = 9092")
    assert_refused(run("up", folder=folder), "bad-settings", "unknown setting 'port'", "hint: known: home")


def test_an_unknown_variable_is_refused(folder: Path) -> None:
    done = run("up", folder=folder, env={"HEADWATER_PORT": "9092"})
    assert_refused(done, "bad-settings", "unknown setting HEADWATER_PORT", "hint: known: HEADWATER_HOME")


def test_a_port_that_cannot_be_is_refused(folder: Path) -> None:
    done = run("up", folder=folder, env={"HEADWATER_KAFKA_PORT": "kafka"})
    assert_refused(done, "bad-settings", "kafka_port must be a port from 1 to 65535, not 'kafka'")


def test_no_java_is_refused_with_what_to_install(folder: Path) -> None:
    done = run("up", folder=folder, env={"JAVA_HOME": "/nonexistent"})
    assert_refused(done, "java-missing", "/nonexistent/bin/java does not run", "hint: install Java 17")


@pytest.mark.parametrize("verb", ["up", "down"])
def test_a_home_that_is_a_file_is_refused(folder: Path, verb: str) -> None:
    (folder / "file").write_text("not a folder")
    done = run(verb, folder=folder, env={"HEADWATER_HOME": "file"})
    assert_refused(done, "bad-settings", "is not a folder that can be written to", "hint: let HEADWATER_HOME")


@pytest.mark.parametrize("home", ["file/inside", "/sys/headwater", "/dev/null/headwater", "x" * 300])
def test_a_home_that_cannot_be_made_is_refused(folder: Path, home: str) -> None:
    (folder / "file").write_text("not a folder")
    done = run("up", folder=folder, env={"HEADWATER_HOME": home})
    assert_refused(done, "bad-settings", "is not a folder that can be written to", "hint: let HEADWATER_HOME")
    assert run("status", folder=folder, env={"HEADWATER_HOME": home}).returncode == 0


def test_a_cache_that_cannot_be_made_is_refused(folder: Path) -> None:
    done = run("up", folder=folder, env={"HEADWATER_CACHE": "/dev/null/cache"})
    assert_refused(
        done, "bad-settings", "is not a folder that can be written to", "hint: let HEADWATER_CACHE"
    )


def test_a_repository_that_cannot_be_reached_is_refused(folder: Path) -> None:
    (folder / "ivysettings.xml").write_text(
        '<ivysettings><settings defaultResolver="x"/><resolvers>'
        f'<ibiblio name="x" m2compatible="true" root="http://{LOOPBACK}:{a_free_port()}/"/>'
        "</resolvers></ivysettings>"
    )
    env = {"HEADWATER_CACHE": str(folder / "cache"), "HEADWATER_IVY_SETTINGS": "ivysettings.xml"}
    done = run("up", folder=folder, env=env)
    fetching, _, error = done.stderr.partition("\n")
    assert fetching.startswith("fetching kafka (")
    done.stderr = error
    assert_refused(done, "download-failed", "hint: is the network up?")


def test_a_call_that_cannot_be_understood_ends_with_2(folder: Path) -> None:
    assert_misused(run("up", "--with", "zookeeper", folder=folder), "zookeeper")


def test_further_servers_start_beside_kafka_and_show_no_password(folder: Path) -> None:
    up = run("up", "--json", "--with", "redis", "--with", "postgres", folder=folder)
    assert [one["server"] for one in as_json(up)] == ["kafka", "postgres", "redis"]
    status = run("status", "--json", folder=folder)
    states = {one["server"]: one["state"] for one in as_json(status)}
    assert {name for name, state in states.items() if state == "running"} == {"kafka", "postgres", "redis"}
    for name in ("redis", "postgres"):
        secret = (folder / ".headwater" / name / "password").read_text()
        assert secret not in up.stdout + up.stderr + status.stdout
    assert run("down", folder=folder).stdout == "stopped redis and postgres and kafka\n"


def test_the_doctor_finds_this_machine_well(folder: Path) -> None:
    rows = as_json(run("doctor", "--json", folder=folder))
    assert {one["state"] for one in rows} == {"ok"}
    assert {one["mend"] for one in rows} == {""}
    done = run("doctor", folder=folder)
    assert done.returncode == 0, done.stdout
    assert "MISSING" not in done.stdout
    assert list(folder.iterdir()) == []


def test_the_doctor_finds_a_missing_java_and_tells_what_mends_it(folder: Path) -> None:
    done = run("doctor", folder=folder, env={"JAVA_HOME": "/nonexistent"})
    assert done.returncode == 1
    line = next(one for one in done.stdout.splitlines() if "MISSING" in one)
    assert line.startswith("java")
    assert "/nonexistent/bin/java does not run" in line
    assert "apt install openjdk-17-jre-headless" in line
    assert "Traceback" not in done.stderr


def test_the_doctor_finds_a_home_that_is_a_file(folder: Path) -> None:
    (folder / ".headwater").write_text("not a folder")
    done = run("doctor", "--json", folder=folder)
    assert done.returncode == 1
    ill = [one for one in json.loads(done.stdout) if one["state"] == "MISSING"]
    assert [one["check"] for one in ill] == ["disk for data"]
