"""Root that starts servers which refuse root: what it needs for that, and what it hears without it."""

import os
import shutil
from pathlib import Path

import pytest

from headwater.embedded import nobody
from headwater.embedded.nobody import as_nobody, own_folder, what_is_missing
from headwater.embedded.passwords import password


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(nobody, "_rights", lambda: (1 << 41) - 1)


@pytest.fixture
def somebody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)


@pytest.mark.usefixtures("somebody")
def test_whoever_is_not_root_runs_a_server_as_himself(tmp_path: Path) -> None:
    assert as_nobody(["server", "-x"]) == ["server", "-x"]
    assert what_is_missing() is None
    before = (tmp_path).stat().st_uid
    assert own_folder(tmp_path / "data").stat().st_uid == before


@pytest.mark.usefixtures("root")
def test_root_gives_up_being_root_and_keeps_only_the_right_to_read() -> None:
    command = as_nobody(["server", "-x"])
    assert command[0] == "setpriv"
    assert command[-3:] == ["--", "server", "-x"]
    assert "--reuid=65534" in command
    assert [one for one in command if "caps" in str(one)] == [
        "--inh-caps=+dac_read_search",
        "--ambient-caps=+dac_read_search",
    ]
    assert what_is_missing() is None


@pytest.mark.usefixtures("root")
def test_a_root_without_the_rights_of_one_hears_which_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nobody, "_rights", lambda: 0xA80425FB)  # what a container usually has
    assert what_is_missing() == (
        "it refuses root, and this root has no DAC_READ_SEARCH and SYS_PTRACE",
        "be another user, or add these capabilities",
    )


@pytest.mark.usefixtures("root")
def test_a_root_without_setpriv_hears_where_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert what_is_missing() == (
        "it refuses root, and there is no setpriv",
        "apt install util-linux, or be another user",
    )


def test_a_password_is_made_once_and_is_no_others(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "password.partial").write_text("cut off")
    assert password(tmp_path) == password(tmp_path)
    assert password(tmp_path) != password(tmp_path / "other")
    assert "cut off" not in password(tmp_path)
