"""A running schema registry for the whole test session, in a home of its own."""

from collections.abc import Iterator

import pytest

from headwater import embedded
from headwater.embedded.ports import a_free_port
from headwater.settings import Settings


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    settings = Settings(home=tmp_path_factory.mktemp("registry"), registry_port=a_free_port())
    try:
        embedded.up(settings, [embedded.SERVERS["registry"]], lambda *_: None)
        yield settings
    finally:
        embedded.down(settings)
