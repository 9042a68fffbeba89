"""schemas as a user types it: what the registry holds, may hold, and by which rules."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tests.cli.command import as_json, assert_misused, assert_refused, called, run
from tests.cli.conftest import Headwater

from headwater import Settings, embedded
from headwater.embedded.ports import LOOPBACK, a_free_port

pytestmark = pytest.mark.system
Write = Callable[..., None]


@pytest.fixture
def headwater(registry: Settings, tmp_path: Path) -> Headwater:
    """The command with a registry; the log is not needed here."""
    env = {"HEADWATER_REGISTRY": embedded.registry_url(registry) or ""}
    return partial(called, folder=tmp_path, env=env)


@pytest.fixture
def write(tmp_path: Path, name: str) -> Write:
    """Write shop.py with these columns."""

    def written(columns: str, form: str = "avro") -> None:
        spec = f'Topic("{name}", schema="{columns}", format="{form}")'
        (tmp_path / "shop.py").write_text(f"from headwater import Topic\nORDERS = {spec}\n")

    return written


ORDERS = "shop.py:ORDERS"


def test_a_schema_is_checked_registered_listed_and_shown(headwater: Headwater, write: Write, name: str):
    write("id long NOT NULL")
    assert headwater("schemas", "check", ORDERS).stdout == f"{name} may be registered\n"
    assert_refused(headwater("schemas", "show", name), "unknown-schema", name)
    number = as_json(headwater("schemas", "register", ORDERS, "--json"))["id"]
    assert headwater("schemas", "register", ORDERS).stdout == f"{name} is registered with id {number}\n"
    assert {"topic": name, "subject": f"{name}-value"} in as_json(headwater("schemas", "--json"))
    shown = headwater("schemas", "show", ORDERS).stdout
    assert shown.startswith(f'{name}: version 1; mode backward; avro\n{{\n  "type": "record",\n')
    found = as_json(headwater("schemas", "show", name, "--json"))
    assert {**found, "schema": ""} == {
        "topic": name,
        "versions": [1],
        "mode": "backward",
        "type": "avro",
        "schema": "",
    }
    assert '"id"' in found["schema"]


def test_a_schema_that_its_mode_does_not_allow_is_refused(headwater: Headwater, write: Write, name: str):
    write("id long NOT NULL")
    assert headwater("schemas", "register", ORDERS).returncode == 0
    write("id long NOT NULL, shop string NOT NULL")
    for verb in ("check", "register"):
        done = headwater("schemas", verb, ORDERS)
        assert_refused(
            done, "schema-incompatible", "its mode 'backward' does not allow", "hint: nothing was written"
        )
    assert headwater("schemas", "mode", name, "forward").stdout == f"{name}: forward\n"
    assert as_json(headwater("schemas", "check", ORDERS, "--json")) == {"topic": name, "compatible": True}
    assert as_json(headwater("schemas", "mode", ORDERS, "--json")) == {"topic": name, "mode": "forward"}


def test_what_has_no_schema_or_no_such_mode_is_refused(headwater: Headwater, write: Write):
    write("id long", form="json")
    assert_refused(headwater("schemas", "check", ORDERS), "bad-topic", "is json, which has no schema")
    done = headwater("schemas", "register", "orders")
    assert_refused(done, "bad-topic", "'orders' has no schema", "hint: name a Topic of a Python file")
    assert_misused(headwater("schemas", "mode", "any", "sideways"), "'sideways' is not a mode; modes: none, ")


def test_without_a_registry_it_says_how_to_get_one(tmp_path: Path):
    done = run("schemas", folder=tmp_path)
    assert_refused(done, "registry-missing", "hint: start one with `headwater up --with registry`")
    env = {"HEADWATER_REGISTRY": f"http://{LOOPBACK}:{a_free_port()}"}
    assert_refused(run("schemas", folder=tmp_path, env=env), "registry-unreachable", "does not answer")
