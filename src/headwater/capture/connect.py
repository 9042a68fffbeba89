"""Connect: the REST of a Kafka Connect worker, in a few words, and its errors in ours.

While its workers agree on who does what, Connect answers 409 (or that it has no leader): that is waited out.
What it says is passed on without the secrets that were sent to it.
"""

import json
import time
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, Self
from urllib.parse import quote, unquote, urlsplit

from headwater import embedded
from headwater.capture.causes import cause_of
from headwater.clock import Deadline
from headwater.errors import ConnectMissing, ConnectRefused, ConnectUnreachable
from headwater.settings import Settings

Config = Mapping[str, str]
_ANSWER_WITHIN = 30.0
_AGREE_WITHIN = timedelta(seconds=60)
_SECRETS = ("password", "secret", "jaas", "credentials")
_REASONS = ("no known leader", "Request timed out", "momentarily")


@dataclass(frozen=True, kw_only=True)
class ConnectorState:
    """A connector as Connect has it; `cause` says why it failed."""

    name: str
    state: str
    tasks: tuple[str, ...]
    cause: str = ""

    @property
    def runs(self) -> bool:
        """Whether it and its task are under way."""
        return self.state == "RUNNING" and set(self.tasks) == {"RUNNING"}

    @property
    def has_failed(self) -> bool:
        """Whether it, or its task, gave up."""
        return "FAILED" in (self.state, *self.tasks)


class Connect:
    """The workers behind one URL."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self.shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
        self._open = partial(kind, parts.hostname or "", parts.port, timeout=_ANSWER_WITHIN)
        self._path = parts.path.rstrip("/")
        self._headers = {"Content-Type": "application/json", **_login(parts.username, parts.password)}

    @classmethod
    def open(cls, settings: Settings) -> Self:
        """The one that the settings name, or this home's."""
        url = embedded.connect_url(settings)
        if url is None:
            raise ConnectMissing(
                "there is no Kafka Connect, which captures tables",
                hint="start one with `headwater up --with capture`, or let HEADWATER_CONNECT name its URL",
            )
        return cls(url)

    def names(self) -> list[str]:
        """Every connector, ours or not."""
        return sorted(self._ask("GET", "connectors"))

    def config(self, name: str) -> Config | None:
        """How a connector is configured; None when there is none."""
        found: Config | None = self._ask("GET", f"connectors/{quote(name)}/config", may_lack=True)
        return found

    def state(self, name: str) -> ConnectorState | None:
        """How a connector is; None when there is none, or nothing is known of it yet."""
        found = self._ask("GET", f"connectors/{quote(name)}/status", may_lack=True)
        return found and _state(found)

    def create(self, name: str, config: Config) -> None:
        """Make a connector that is at rest."""
        with _hidden(config):
            self._check(config)
            self._ask("POST", "connectors", {"name": name, "config": config, "initial_state": "STOPPED"})

    def put(self, name: str, config: Config) -> None:
        """Make a connector, or change it; ConnectRefused when Connect finds a mistake in it."""
        with _hidden(config):
            self._check(config)
            self._ask("PUT", f"connectors/{quote(name)}/config", dict(config))

    def stop(self, name: str) -> None:
        """End its task; it keeps its place."""
        self._ask("PUT", f"connectors/{quote(name)}/stop")

    def pause(self, name: str) -> None:
        """Let its task rest."""
        self._ask("PUT", f"connectors/{quote(name)}/pause")

    def resume(self, name: str) -> None:
        """Let it go on, after a pause or a stop."""
        self._ask("PUT", f"connectors/{quote(name)}/resume")

    def restart(self, name: str) -> None:
        """Start anew what of it has failed."""
        self._ask("POST", f"connectors/{quote(name)}/restart?includeTasks=true&onlyFailed=true")

    def delete(self, name: str) -> None:
        """Forget the connector; its place is kept."""
        self._ask("DELETE", f"connectors/{quote(name)}", may_lack=True)

    def offsets(self, name: str) -> Mapping[str, Any]:
        """Its place in its source, as the connector itself wrote it; empty before it has one."""
        found = self._ask("GET", f"connectors/{quote(name)}/offsets")["offsets"]
        return found[0]["offset"] or {} if found else {}

    def forget(self, name: str) -> None:
        """Let a connector that is stopped begin from nothing."""
        self._ask("DELETE", f"connectors/{quote(name)}/offsets")

    def _check(self, config: Config) -> None:
        """Ask first: where Debezium finds a mistake, Connect 4.3 stumbles over the telling (see ADR 15)."""
        kind = config["connector.class"].rpartition(".")[2]
        found = self._ask("PUT", f"connector-plugins/{kind}/config/validate", {**config, "name": "checked"})
        values = (one["value"] for one in found["configs"] if one["value"])
        errors = [f"{one['name']}: {said}" for one in values for said in one["errors"]]
        if errors:
            raise self._refused("a connector", "\n".join(errors))

    def _ask(self, method: str, path: str, said: Any = None, *, may_lack: bool = False) -> Any:
        deadline = Deadline(_AGREE_WITHIN)
        while True:
            status, answer = self._once(method, path, said)
            if status < 300:
                return answer
            if status == 404 and may_lack:
                return None
            words = str(answer.get("message", answer) if isinstance(answer, dict) else answer)
            if status in (401, 403):
                raise ConnectRefused(
                    f"Kafka Connect at {self.shown} does not let us in",
                    hint="its user and password stand in its URL: https://user:password@host:8083",
                )
            if deadline.passed or not _is_passing(status, words):
                raise self._refused(f"HTTP {status}", words)
            time.sleep(0.2)

    def _once(self, method: str, path: str, said: Any) -> tuple[int, Any]:
        body = None if said is None else json.dumps(said)
        try:
            connection = self._open()
            connection.request(method, f"{self._path}/{path}", body, self._headers)
            answer = connection.getresponse()
            text = answer.read()
            connection.close()
        except (OSError, HTTPException) as error:
            raise ConnectUnreachable(
                f"Kafka Connect at {self.shown} does not answer",
                detail=str(error),
                hint="`headwater up --with capture` starts the embedded one; `headwater status` shows it",
            ) from error
        try:
            return answer.status, json.loads(text or b"null")
        except ValueError:  # a proxy's page, say
            return answer.status, text.decode(errors="replace")[:300]

    def _refused(self, what: str, words: str) -> ConnectRefused:
        return ConnectRefused(f"Kafka Connect at {self.shown} refused: {what}", detail=words)


@contextmanager
def _hidden(config: Config) -> Iterator[None]:
    """What Connect says is passed on without the values that nobody may read."""
    try:
        yield
    except ConnectRefused as error:
        for name, value in config.items():
            if len(value) > 2 and is_secret(name):
                error.detail = error.detail.replace(value, "…")
        raise


def is_secret(option: str) -> bool:
    """Whether nobody may read an option's value."""
    return any(one in option.lower() for one in _SECRETS)


def _state(found: Any) -> ConnectorState:
    tasks = found["tasks"]
    traces = [one.get("trace", "") for one in (found["connector"], *tasks) if one["state"] == "FAILED"]
    return ConnectorState(
        name=found["name"],
        state=found["connector"]["state"],
        tasks=tuple(one["state"] for one in tasks),
        cause=cause_of(traces[-1]) if traces else "",
    )


def _is_passing(status: int, words: str) -> bool:
    return status == 409 or (status in (500, 503) and any(one in words for one in _REASONS))


def _login(user: str | None, password: str | None) -> dict[str, str]:
    if user is None:
        return {}
    told = b64encode(f"{unquote(user)}:{unquote(password or '')}".encode()).decode()
    return {"Authorization": f"Basic {told}"}
