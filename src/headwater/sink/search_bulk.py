"""Bulks: documents and deletions on their way into an index, each with the version of its row.

An index takes a version only if it is above the one that it has, and says 409 otherwise: what is there
already stays, so a bulk may be sent any number of times, in any order. What is refused for good is kept
with the reason; what the server had no room for is sent again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import msgspec

from headwater.clock import Deadline
from headwater.errors import SinkRefused, SinkUnreachable
from headwater.sink.refused import Refused
from headwater.sink.search_server import BUSY, SearchServer, pauses, reason

BYTES = 5_000_000
ACTIONS = 5_000
MOST_REFUSED = 1_000
"""Documents that one task may have refused: more of them are no accident."""


@dataclass(frozen=True)
class Action:
    """One document to be written or, without one, to be deleted."""

    id: str
    version: int
    document: bytes | None = field(repr=False)

    @property
    def lines(self) -> bytes:
        """The action as a bulk has it."""
        about = {"_id": self.id, "version": self.version, "version_type": "external"}
        if self.document is None:
            return msgspec.json.encode({"delete": about}) + b"\n"
        return b"%s\n%s\n" % (msgspec.json.encode({"index": about}), self.document)


class Bulk:
    """Gathers actions for an alias and sends them when there are enough; `flush` sends the rest."""

    def __init__(self, server: SearchServer, alias: str, *, of: str, size: int = BYTES) -> None:
        self.refused: list[Refused] = []
        self._server, self._alias, self._copy, self._size = server, alias, of, size
        self._waiting: list[tuple[Action, bytes]] = []
        self._bytes = 0

    def add(self, action: Action) -> None:
        """Take one more."""
        lines = action.lines
        self._waiting.append((action, lines))
        self._bytes += len(lines)
        if self._bytes >= self._size or len(self._waiting) >= ACTIONS:
            self.flush()

    def flush(self) -> None:
        """Send what waits; at the end every action is there or refused."""
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        deadline = Deadline(self._server.within)
        for pause in pauses():
            waiting, why = self._send(waiting) if waiting else ([], "")
            if not waiting:
                return
            if deadline.left < pause:
                break
            self._server.sleep(pause)
        raise SinkUnreachable(
            f"the search server at {self._server.shown} has no room for {len(waiting):,} documents",
            detail=why,
            hint="the pipeline goes on when it has; is its disk full, or its queue too short?",
        )

    def _send(self, waiting: Sequence[tuple[Action, bytes]]) -> tuple[list[tuple[Action, bytes]], str]:
        """Send once; gives what has to be sent again, and why."""
        answer = self._server.send(
            f"{quote(self._alias, safe='')}/_bulk?require_alias=true", b"".join(lines for _, lines in waiting)
        )
        if answer.status == 413:
            return self._send_in_halves(waiting), ""
        if not answer.is_good:
            raise SinkRefused(f"the search server at {self._server.shown} refused a bulk", detail=answer.why)
        if not answer.body["errors"]:
            return [], ""
        again, why = [], ""
        for one, said in zip(waiting, answer.body["items"], strict=True):
            if trouble := self._judged(one[0], next(iter(said.values()))):
                again.append(one)
                why = trouble
        return again, why

    def _send_in_halves(self, waiting: Sequence[tuple[Action, bytes]]) -> list[tuple[Action, bytes]]:
        if len(waiting) == 1:
            action, lines = waiting[0]
            self._refuse(action, f"its {len(lines):,} bytes are more than the server takes in one request")
            return []
        half = len(waiting) // 2
        return self._send(waiting[:half])[0] + self._send(waiting[half:])[0]

    def _judged(self, action: Action, said: dict[str, Any]) -> str:
        """What became of an action; a text when it has to be sent again."""
        status, error = said["status"], said.get("error")
        if error is None or status == 409:
            return ""
        if status in BUSY or status >= 500 or error.get("type") == "cluster_block_exception":
            return reason(error)
        if status == 404:
            raise self._gone(reason(error))
        self._refuse(action, reason(error))
        return ""

    def _gone(self, why: str) -> SinkRefused | SinkUnreachable:
        """The index is not there any more: replaced by a rebuild, or deleted."""
        if self._server.ask("GET", f"_alias/{quote(self._copy, safe='')}").is_good:
            return SinkUnreachable(
                f"the copy {self._copy!r} was switched",
                detail=why,
                hint="the batch is written into the new index",
            )
        return SinkRefused(
            f"{self._copy!r} is no alias of an index any more",
            detail=why,
            hint="somebody deleted it: `headwater rebuild` makes it again, with all its rows",
        )

    def _refuse(self, action: Action, why: str) -> None:
        self.refused.append(Refused(action.id, action.version, action.document or b"", why))
        if len(self.refused) > MOST_REFUSED:
            raise SinkRefused(
                f"index {self._copy!r} refuses document after document",
                detail=f"more than {MOST_REFUSED:,} of one task, the last one: {why}",
                hint="so many are no accident: mend its mapping, then `headwater rebuild`",
            )
