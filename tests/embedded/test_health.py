"""What the doctor finds on this machine, and on worse ones."""

import dataclasses
import shutil
import socket
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from headwater.embedded import health
from headwater.embedded.health import Finding, examine
from headwater.embedded.ports import LOOPBACK, a_free_port
from headwater.settings import Settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home", cache=tmp_path / "cache")


def finding(check: str, settings: Settings) -> Finding:
    return next(one for one in examine(settings) if one.check == check)


def test_this_machine_is_well_and_nothing_is_to_be_mended(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=8_000_000_000))
    found = examine(settings)
    assert [one.check for one in found] == [
        *("python", "java", "spark", "memory", "disk for data", "disk for the cache"),
        *("databases", "port of kafka"),
    ]
    assert [one for one in found if not one.is_well or one.mend] == []


def test_a_missing_java_is_found_with_the_command_that_mends_it(settings: Settings) -> None:
    found = finding("java", dataclasses.replace(settings, java_home=Path("/nonexistent")))
    assert not found.is_well
    assert found.found == "/nonexistent/bin/java does not run"
    assert "apt install openjdk-17-jre-headless" in found.mend


def test_an_old_java_is_found(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "java_version", lambda _: 11)
    found = finding("java", settings)
    assert not found.is_well
    assert found.found.startswith("Java 11 (")
    assert found.mend


def test_little_memory_is_found(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=1_000_000_000))
    found = finding("memory", settings)
    assert not found.is_well
    assert found.found == "1.0 GB free"
    assert "4.3 GB free are wanted" in found.mend


@pytest.mark.parametrize(
    ("check", "variable"), [("disk for data", "HEADWATER_HOME"), ("disk for the cache", "HEADWATER_CACHE")]
)
def test_a_full_disk_is_found(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, check: str, variable: str
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1_000_000_000))
    found = finding(check, settings)
    assert not found.is_well
    assert found.found.startswith("1.0 GB free")
    assert variable in found.mend


def test_a_home_that_is_a_file_is_found(settings: Settings) -> None:
    settings.home.write_text("not a folder")
    found = finding("disk for data", settings)
    assert not found.is_well
    assert found.found == f"{settings.home} cannot be written to"
    assert "HEADWATER_HOME" in found.mend


def test_a_home_that_may_not_be_written_to_is_found(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)
    assert not finding("disk for data", settings).is_well


def test_an_insisted_port_that_is_taken_is_found(settings: Settings) -> None:
    with socket.create_server((LOOPBACK, 0)) as listener:
        port = listener.getsockname()[1]
        found = finding("port of kafka", dataclasses.replace(settings, kafka_port=port))
    assert not found.is_well
    assert found.found.startswith(f"{port} is taken by {psutil.Process().name()}")
    assert found.mend == "unset HEADWATER_KAFKA_PORT"


def test_an_insisted_port_of_another_server_is_looked_at_too(settings: Settings) -> None:
    with socket.create_server((LOOPBACK, 0)) as listener:
        port = listener.getsockname()[1]
        found = finding("port of postgres", dataclasses.replace(settings, postgres_port=port))
    assert not found.is_well
    assert found.mend == "unset HEADWATER_POSTGRES_PORT"


def test_a_machine_that_cannot_run_our_databases_is_told_and_not_called_ill(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    found = finding("databases", settings)
    assert found.is_well
    assert found.found == "none of ours: its files are for Linux x86_64, this is Linux riscv64"


def test_an_insisted_port_that_is_free_is_well(settings: Settings) -> None:
    port = a_free_port()
    found = finding("port of kafka", dataclasses.replace(settings, kafka_port=port))
    assert (found.is_well, found.found) == (True, f"{port}, free")


def test_a_usual_port_that_is_taken_is_no_illness(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "is_free", lambda _: False)
    found = finding("port of kafka", settings)
    assert found.is_well
    assert found.found.endswith("; another will be taken")


def test_no_port_is_needed_for_an_external_kafka(settings: Settings) -> None:
    external = dataclasses.replace(settings, kafka="elsewhere:9092")
    assert "port of kafka" not in [one.check for one in examine(external)]


@pytest.mark.system
def test_the_port_of_a_broker_that_runs_is_ours(system: Settings) -> None:
    found = finding("port of kafka", system)
    assert found.is_well
    assert found.found.endswith(", ours")
