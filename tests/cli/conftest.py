"""The command line against the shared broker, typed in a temporary folder."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from tests.cli.command import called, run

from headwater import Settings

Headwater = Callable[..., CompletedProcess[str]]


@pytest.fixture
def env(system: Settings) -> dict[str, str]:
    return {"HEADWATER_HOME": str(system.home)}


@pytest.fixture
def headwater(env: dict[str, str], tmp_path: Path) -> Headwater:
    """`headwater("topics", "--json")` runs it within this process; variables by name."""

    def typed(*arguments: str | Path, stdin: str = "", **more: str) -> CompletedProcess[str]:
        return called(*arguments, folder=tmp_path, env={**env, **more}, stdin=stdin)

    return typed


@pytest.fixture
def shell(env: dict[str, str], tmp_path: Path) -> Headwater:
    """The same in a process of its own, as a user runs it."""
    return partial(run, folder=tmp_path, env=env, timeout=60)


@pytest.fixture
def shop(tmp_path: Path, name: str) -> Path:
    """shop.py, with a Topic ORDERS of a name that no other test uses."""
    file = tmp_path / "shop.py"
    file.write_text(
        "from headwater import Topic\n"
        f'ORDERS = Topic("{name}", schema="id long NOT NULL, total decimal(20,2), at timestamp, note binary",'
        ' key="id", partitions=2)\n'
    )
    return file
