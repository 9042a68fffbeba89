"""Finding Java, shown with programs that only tell a version."""

from pathlib import Path

import pytest

from headwater.embedded.java import find_java, java, java_version
from headwater.errors import JavaMissing
from headwater.settings import Settings


def fake_java(folder: Path, script: str) -> Settings:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return Settings(java_home=folder)


def says(version: str) -> str:
    return f"echo '{version}' >&2"


@pytest.mark.parametrize(
    ("said", "release"),
    [
        ('openjdk version "17.0.11" 2024-04-16', 17),
        ('java version "21" 2023-09-19', 21),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ('java version "1.8.0_401"', 8),
        ("something else", 0),
    ],
)
def test_the_release_is_read_from_what_java_says(tmp_path: Path, said: str, release: int) -> None:
    settings = fake_java(tmp_path, says(said))
    assert java_version(find_java(settings)) == release


def test_java_home_wins_over_the_path(tmp_path: Path) -> None:
    settings = fake_java(tmp_path, says('openjdk version "17.0.1"'))
    assert java(settings) == tmp_path / "bin" / "java"


def test_without_java_home_the_path_is_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path, says('openjdk version "17.0.1"'))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    assert java(Settings()) == tmp_path / "bin" / "java"


def test_an_old_java_is_refused_with_what_to_install(tmp_path: Path) -> None:
    settings = fake_java(tmp_path, says('openjdk version "11.0.2"'))
    with pytest.raises(JavaMissing) as raised:
        java(settings)
    assert raised.value.message == f"{tmp_path}/bin/java is Java 11, too old"
    assert "install Java 17 or newer" in raised.value.hint


def test_no_java_at_all_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaMissing, match="there is no java on the PATH"):
        java(Settings())


def test_a_java_home_without_java_is_told() -> None:
    with pytest.raises(JavaMissing, match="/nonexistent/bin/java does not run") as raised:
        java(Settings(java_home=Path("/nonexistent")))
    assert "JAVA_HOME" in raised.value.hint


@pytest.mark.parametrize("script", ["exit 1", "kill -9 $$"])
def test_a_java_that_fails_is_told(tmp_path: Path, script: str) -> None:
    with pytest.raises(JavaMissing, match="does not run"):
        java(fake_java(tmp_path, script))


def test_a_java_that_is_not_a_program_is_told(tmp_path: Path) -> None:
    settings = fake_java(tmp_path, "")
    find_java(settings).chmod(0o644)
    with pytest.raises(JavaMissing, match="does not run"):
        java(settings)
