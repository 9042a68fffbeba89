"""A search server over plain HTTP: OpenSearch or Elasticsearch, one connection, patient with what passes.

A server that is busy (429), restarting or away is asked again, with pauses that double, until a deadline.
All that we ask may be asked twice: documents carry versions, and what exists is not made again.
"""

import base64
import http.client
import random
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any, NamedTuple, Self
from urllib.parse import SplitResult, unquote, urlsplit

import msgspec

from headwater.clock import Deadline
from headwater.errors import SettingsError, SinkRefused, SinkUnreachable

PATIENCE = timedelta(seconds=10)
"""How long a server may be away before the batch fails, and is tried again as a whole."""

BUSY = {429, 502, 503, 504}
_ANSWER = timedelta(seconds=60)
_JSON, _LINES = "application/json", "application/x-ndjson"
_FORM = 'write it as "https://user:password@host:9200"'


class Answer(NamedTuple):
    """What a server said."""

    status: int
    body: Any

    @property
    def is_good(self) -> bool:
        """Whether it did what was asked."""
        return 200 <= self.status < 300

    @property
    def why(self) -> str:
        """Its reason, when it did not."""
        error = self.body.get("error") if isinstance(self.body, dict) else self.body
        return reason(error) if isinstance(error, dict) else str(error or self.status)[:500]


def reason(error: dict[str, Any]) -> str:
    """An error of a server in one line, with the cause under it."""
    cause = error.get("caused_by") or {}
    told = [f"{error.get('type', 'error')}: {error.get('reason', '')}", str(cause.get("reason") or "")]
    return " ".join("; ".join(one for one in told if one).split())[:1000]


def pauses(first: float = 0.1, longest: float = 5.0) -> Iterator[float]:
    """Seconds to wait between tries: doubling, and never quite the same for two who wait."""
    while True:
        yield first * random.uniform(0.5, 1.0)  # noqa: S311 - no secret hangs on it
        first = min(2 * first, longest)


class SearchServer:
    """A server at a URL; its connection is opened when it is first asked, and again when it broke."""

    def __init__(
        self, url: str, *, within: timedelta = PATIENCE, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        parts = _parsed(url)
        self.within, self.sleep = within, sleep
        self.shown = f"{parts.hostname}:{parts.port or _usual_port(parts)}"
        self._prefix = parts.path.rstrip("/")
        self._headers = _authorization(parts)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        seconds = _ANSWER.total_seconds()
        self._connection = kind(parts.hostname or "", parts.port or _usual_port(parts), timeout=seconds)

    def ask(self, method: str, path: str, said: object = None) -> Answer:
        """Ask with JSON; SinkUnreachable when there is no answer in time."""
        return self._patiently(method, path, b"" if said is None else msgspec.json.encode(said), _JSON)

    def send(self, path: str, lines: bytes) -> Answer:
        """Ask with lines of JSON, as bulks are written."""
        return self._patiently("POST", path, lines, _LINES)

    def close(self) -> None:
        """Let go of the connection."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _patiently(self, method: str, path: str, data: bytes, kind: str) -> Answer:
        deadline = Deadline(self.within)
        for pause in pauses():
            try:
                answer = self._once(method, path, data, kind)
                why = f"{answer.status}: {answer.why}"
            except ssl.SSLCertVerificationError as error:
                raise self._distrusted(error) from error
            except (OSError, http.client.HTTPException) as error:
                self.close()
                why, answer = f"{type(error).__name__}: {error}", None
            if answer is not None and answer.status not in BUSY:
                return self._allowed(answer)
            if deadline.left < pause:
                break
            self.sleep(pause)
        raise SinkUnreachable(
            f"the search server at {self.shown} does not answer",
            detail=why,
            hint="is HEADWATER_SEARCH its URL, and does it run? the pipeline goes on when it is back",
        )

    def _once(self, method: str, path: str, data: bytes, kind: str) -> Answer:
        headers = self._headers | {"Content-Type": kind, "Accept": _JSON}
        with suppress(
            BrokenPipeError, ConnectionResetError
        ):  # it may refuse what is too large before its end
            self._connection.request(method, f"{self._prefix}/{path}", data, headers)
        answer = self._connection.getresponse()
        return Answer(answer.status, _body(answer.read()))

    def _allowed(self, answer: Answer) -> Answer:
        if answer.status in {401, 403}:
            raise SinkRefused(
                f"the search server at {self.shown} does not let us in",
                detail=answer.why,
                hint="does the URL in HEADWATER_SEARCH have the right user and password? it must write, and "
                "create indices and aliases",
            )
        return answer

    def _distrusted(self, error: ssl.SSLCertVerificationError) -> SinkRefused:
        return SinkRefused(
            f"the certificate of the search server at {self.shown} is not one that this machine trusts",
            detail=error.verify_message,
            hint="SSL_CERT_FILE names a file with the authority that signed it",
        )


def _parsed(url: str) -> SplitResult:
    """A server's URL taken apart; the errors do not repeat it, because of its password."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise SettingsError("the URL of the search server cannot be read", hint=_FORM) from None
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise SettingsError("the URL of the search server is none of http or https", hint=_FORM)
    return parts


def _usual_port(parts: SplitResult) -> int:
    return 443 if parts.scheme == "https" else 80


def _authorization(parts: SplitResult) -> dict[str, str]:
    if parts.username is None:
        return {}
    said = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"Authorization": f"Basic {base64.b64encode(said.encode()).decode()}"}


def _body(data: bytes) -> Any:
    with suppress(msgspec.MsgspecError):
        return msgspec.json.decode(data)
    return data.decode(errors="replace")
