"""A home for toys, and a toy."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.embedded.toy import Toy

from headwater.embedded import server as module
from headwater.embedded.ports import a_free_port
from headwater.embedded.process import started_for
from headwater.embedded.server import stop
from headwater.settings import Settings


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
