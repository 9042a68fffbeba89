"""Copies: what the log knows of a pipeline's copies, so that every machine knows it.

A compacted topic has two words for each pipeline. The pipeline says by which code it writes. A rebuild says
which code it builds with, whether it is about to switch, and which codes are not to write any more: those
of the rows that it replaced. Each of the two is written by one side only, so no word is lost.
"""

from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from headwater.errors import TopicExists, UnknownTopic
from headwater.log.connection import Connection
from headwater.log.log import Log
from headwater.log.positions import Positions
from headwater.settings import Settings
from headwater.sink.contract import REBUILD

TOPIC = "headwater.copies"
_REMEMBERED = 50


class Writing(msgspec.Struct, frozen=True):
    """The codes by which a pipeline has written, the newest last."""

    codes: tuple[str, ...] = ()


class Rebuilding(msgspec.Struct, frozen=True):
    """What a rebuild says: the code that it builds with and, before it switches, that it does."""

    building: str = ""
    switching: str = ""
    retired: tuple[str, ...] = ()


Word = TypeVar("Word", Writing, Rebuilding)


class Copies:
    """What is known of the copies of one pipeline (`app.pipeline`)."""

    def __init__(self, label: str, settings: Settings) -> None:
        self.writing, self.rebuilding = Writing(), Rebuilding()
        self._label, self._log = label, Log(settings)
        self._positions = Positions(Connection(settings))
        self._end: int | None = None

    def look(self) -> Rebuilding:
        """Know all that was said before now."""
        if self._end is None:
            self.make_room()
        end = self._positions.end(TOPIC, [0])[0]
        if end != self._end:
            words = {one.key: one.value for one in self._log.read(TOPIC)}
            self.writing = _read(words.get(self._label.encode()), Writing)
            self.rebuilding = _read(words.get(f"{self._label}{REBUILD}".encode()), Rebuilding)
            self._end = end
        return self.rebuilding

    def make_room(self) -> None:
        """Have the topic."""
        try:
            self._log.topics.partitions(TOPIC)
        except UnknownTopic:
            with suppress(TopicExists):  # another was quicker
                self._log.topics.ensure(TOPIC, 1, {"cleanup.policy": "compact"})

    def writes(self, code: str) -> None:
        """Say that the pipeline writes by this code."""
        codes = (*(one for one in self.writing.codes if one != code), code)[-_REMEMBERED:]
        self._say(self._label, Writing(codes))
        self.writing = Writing(codes)

    def rebuilds(self, code: str, *, switching: bool = False) -> None:
        """Say that a rebuild builds with this code, or is about to switch; with none, that it is over."""
        self.look()
        said = Rebuilding(code, code if switching else "", self.rebuilding.retired)
        self._say(f"{self._label}{REBUILD}", said)

    def retire(self, code: str) -> None:
        """Say that it is over, and that of all codes that have written only this one may go on."""
        known = self.look()
        others = dict.fromkeys((*known.retired, known.switching, *self.writing.codes))
        retired = tuple(one for one in others if one not in {"", code})[-_REMEMBERED:]
        self._say(f"{self._label}{REBUILD}", Rebuilding("", "", retired))

    def _say(self, key: str, word: Any) -> None:
        with self._log.writer() as writer:
            writer.append_bytes(TOPIC, msgspec.json.encode(word), key=key.encode())
        self._end = None


def _read(found: Any, kind: type[Word]) -> Word:
    return kind() if found is None else msgspec.json.decode(found, type=kind)
