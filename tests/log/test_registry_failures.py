"""A registry that is missing, down, silent, closed to us or something else: told in time, in our words."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from headwater.clock import Deadline
from headwater.embedded.ports import a_free_port
from headwater.errors import RegistryError, RegistryMissing, RegistryUnreachable, SettingsError
from headwater.log.formats import codec_for
from headwater.log.registry import Schemas
from headwater.log.topic import Format
from headwater.settings import Settings
from tests.log.registering import NARROW, every_format, topic

pytestmark = pytest.mark.system


def test_without_a_registry_there_is_a_hint(tmp_path: Path) -> None:
    with pytest.raises(RegistryMissing, match="there is no schema registry") as missing:
        Schemas.open(Settings(home=tmp_path))
    assert "headwater up --with registry" in missing.value.hint
    assert "HEADWATER_REGISTRY" in missing.value.hint


@pytest.fixture
def silent() -> Iterator[int]:
    """A port that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@every_format
def test_a_registry_that_is_down_is_told_at_once_and_nothing_is_encoded(form: Format) -> None:
    settings = Settings(registry=f"http://127.0.0.1:{a_free_port()}")
    codec = codec_for(topic("payments", NARROW, form), lambda: Schemas.open(settings))
    deadline = Deadline(timedelta(seconds=5))
    with pytest.raises(RegistryUnreachable, match="does not answer") as unreachable:
        codec.encode({"card": "42"})
    assert not deadline.passed
    assert "headwater up --with registry" in unreachable.value.hint


def test_a_registry_that_never_answers_is_given_up_after_five_seconds(silent: int) -> None:
    schemas = Schemas.open(Settings(registry=f"http://127.0.0.1:{silent}"))
    deadline = Deadline(timedelta(seconds=8))
    with pytest.raises(RegistryUnreachable):
        schemas.register(topic("payments", NARROW, "avro"))
    assert not deadline.passed


def test_how_long_to_wait_is_an_option(silent: int) -> None:
    patience = {"timeout": "0.1"}
    schemas = Schemas.open(Settings(registry=f"http://127.0.0.1:{silent}", registry_options=patience))
    deadline = Deadline(timedelta(seconds=2))
    with pytest.raises(RegistryUnreachable):
        schemas.subjects()
    assert not deadline.passed


def test_an_option_that_the_client_does_not_know_is_refused() -> None:
    settings = Settings(registry="http://127.0.0.1:1", registry_options={"colour": "blue"})
    with pytest.raises(SettingsError, match="the registry's options cannot be used"):
        Schemas.open(settings)
    with pytest.raises(SettingsError, match="the registry's options cannot be used"):
        Schemas.open(Settings(registry="http://127.0.0.1:1", registry_options={"timeout": "soon"}))


@contextmanager
def answering(status: int, body: bytes, seen: list[str]) -> Iterator[str]:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers.get("Authorization", ""))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_something_else_that_answers_is_not_a_registry() -> None:
    with (
        answering(200, b"<html>hello</html>", []) as url,
        pytest.raises(RegistryError, match="not a schema registry"),
    ):
        Schemas.open(Settings(registry=url)).subjects()


def test_credentials_are_sent_and_a_refusal_names_their_option() -> None:
    seen: list[str] = []
    with answering(401, b"{}", seen) as url:
        settings = Settings(registry=url, registry_options={"basic.auth.user.info": "ann:secret"})
        with pytest.raises(RegistryError, match="does not let us in") as refused:
            Schemas.open(settings).subjects()
    assert seen == ["Basic YW5uOnNlY3JldA=="]
    assert "basic.auth.user.info" in refused.value.hint
    assert "secret" not in str(refused.value)


def test_a_password_in_the_address_is_not_shown() -> None:
    schemas = Schemas.open(Settings(registry=f"http://ann:secret@127.0.0.1:{a_free_port()}"))
    with pytest.raises(RegistryUnreachable) as unreachable:
        schemas.subjects()
    assert "secret" not in str(unreachable.value)


def test_a_failure_of_the_registrys_own_is_passed_on() -> None:
    body = b'{"error_code": 50001, "message": "backend store down"}'
    with (
        answering(500, body, []) as url,
        pytest.raises(RegistryError, match="the registry refused") as refused,
    ):
        Schemas.open(Settings(registry=url)).subjects()
    assert refused.value.detail == "backend store down (HTTP 500)"
