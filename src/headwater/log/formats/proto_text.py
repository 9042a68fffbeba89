"""A small reader of .proto texts: messages, their fields and numbers; all the rest is passed over.

Registries hand out Protobuf schemas as text, also texts that other people wrote. What reading their
records takes is little: which name has which number and type in which message. Options, enums'
values, services and comments are skipped, whatever they hold.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|\s+                  # passed over
    |("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'      # text
    |\.?\w+(?:\.\w+)*                         # a name, maybe with dots, or a number
    |.)                                       # a mark""",
    re.VERBOSE | re.DOTALL,
)
_OPENING, _CLOSING = "{[(<", "}])>"


@dataclass(frozen=True, kw_only=True)
class ProtoField:
    """One field: `key` is a map's key type; explicit means that unset and zero differ."""

    name: str
    number: int
    type: str
    key: str = ""
    repeated: bool = False
    explicit: bool = False


@dataclass
class ProtoMessage:
    """A message, or the file itself with its messages."""

    name: str
    fields: dict[str, ProtoField] = field(default_factory=dict)
    messages: dict[str, "ProtoMessage"] = field(default_factory=dict)
    reserved: set[int] = field(default_factory=set)
    package: str = ""
    proto3: bool = False

    @property
    def largest(self) -> int:
        """The largest number that is or was in use."""
        return max([0, *self.reserved, *(one.number for one in self.fields.values())])


def parse_proto(text: str) -> ProtoMessage:
    """The file as the message of all its messages; ValueError when it is not a .proto text."""
    words = [word for word in _words(text) if word]
    file = ProtoMessage("", proto3=_says_proto3(words))
    _Parser(words, file.proto3).body(file, at_top=True)
    return file


def _words(text: str) -> Iterator[str]:
    return (match[1] for match in _TOKEN.finditer(text))


def _says_proto3(words: list[str]) -> bool:
    return words[:2] == ["syntax", "="] and words[2:3] in (['"proto3"'], ["'proto3'"])


class _Parser:
    def __init__(self, words: list[str], proto3: bool) -> None:
        self._words = words
        self._at = 0
        self._proto3 = proto3

    def body(self, into: ProtoMessage, *, at_top: bool = False, in_oneof: bool = False) -> None:
        """Statements up to the closing brace, or at the top up to the end."""
        while (word := self._take(end_is_fine=at_top)) != ("" if at_top else "}"):
            self._statement(word, into, in_oneof)

    def _statement(self, word: str, into: ProtoMessage, in_oneof: bool) -> None:
        special: dict[str, Callable[[ProtoMessage], None]] = {
            "message": self._message,
            "oneof": self._oneof,
            "reserved": self._reserved,
            "package": self._package,
        }
        if word in special:
            special[word](into)
        elif word in ("syntax", "edition", "import", "option", "enum", "extensions", "extend", "service"):
            self._skip()
        elif word != ";":
            self._field(word, into, in_oneof)

    def _message(self, into: ProtoMessage) -> None:
        inner = ProtoMessage(self._take(), proto3=self._proto3)
        self._expect("{")
        self.body(inner)
        into.messages[inner.name] = inner

    def _oneof(self, into: ProtoMessage) -> None:
        self._take()
        self._expect("{")
        self.body(into, in_oneof=True)

    def _package(self, into: ProtoMessage) -> None:
        into.package = self._take()
        self._expect(";")

    def _reserved(self, into: ProtoMessage) -> None:
        said: list[str] = []
        while (word := self._take()) != ";":
            said.append(word)
        # "1000 to max" keeps the upper end closed: nothing was ever in use there
        used = re.sub(r"\d+ to max", "", " ".join(said))
        into.reserved.update(int(word) for word in used.split() if word.isdecimal())

    def _field(self, word: str, into: ProtoMessage, in_oneof: bool) -> None:
        label = word if word in ("optional", "required", "repeated") else ""
        kind = self._take() if label else word
        key = ""
        if kind == "map" and self._peek() == "<":
            key, kind = self._map()
        name = self._take()
        self._expect("=")
        number = int(self._take(), 0)
        self._skip()
        explicit = in_oneof or not self._proto3 or label == "optional"
        into.fields[name] = ProtoField(
            name=name, number=number, type=kind, key=key, repeated=label == "repeated", explicit=explicit
        )

    def _map(self) -> tuple[str, str]:
        self._expect("<")
        key = self._take()
        self._expect(",")
        kind = self._take()
        self._expect(">")
        return key, kind

    def _skip(self) -> None:
        """Up to the statement's end: a semicolon, or the brace that closes its block."""
        depth = 0
        while (word := self._take()) != ";" or depth:
            depth += (word in _OPENING) - (word in _CLOSING)
            if word == "}" and depth == 0:
                return

    def _peek(self) -> str:
        return self._words[self._at] if self._at < len(self._words) else ""

    def _take(self, *, end_is_fine: bool = False) -> str:
        word = self._peek()
        if not word and not end_is_fine:
            raise ValueError("the schema's text ends too early")
        self._at += 1
        return word

    def _expect(self, mark: str) -> None:
        word = self._take()
        if word != mark:
            raise ValueError(f"the schema's text has {word!r} where {mark!r} should stand")
