"""Lines: YAML read node by node, so that whatever is wrong is told with its line.

Only what JSON knows has a meaning of its own (numbers, true, false, null); all else is text. A time of day
is therefore a time of day, and not a number to the base of sixty, as older YAML has it.
"""

import re
from collections.abc import Iterable
from typing import Any

import yaml

from headwater.errors import BadTranscript


class _Loader(yaml.SafeLoader):
    """PyYAML's, without the meanings that it finds in texts."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - PyYAML's own name for it


for _tag, _pattern, _first in (
    ("null", r"null|", ["n", ""]),
    ("bool", r"true|false", ["t", "f"]),
    ("int", r"[-+]?\d+", list("-+0123456789")),
    ("float", r"[-+]?\d+(\.\d+)?([eE][-+]?\d+)?", list("-+0123456789")),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), _first)


class Place:
    """A node of a file: what it holds, and the line where it stands."""

    def __init__(self, file: str, node: yaml.Node) -> None:
        self._file, self._node = file, node
        self.line = node.start_mark.line + 1

    @classmethod
    def of(cls, file: str, text: str) -> "Place":
        """The whole of a file."""
        try:
            node = yaml.compose(text, _Loader)
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else 1
            raise BadTranscript(f"{file}:{line} is not YAML", detail=error.problem or str(error)) from error
        if node is None:
            raise BadTranscript(f"{file} is empty")
        return cls(file, node)

    def wrong(self, what: str, hint: str = "") -> BadTranscript:
        """An error here."""
        return BadTranscript(f"{self._file}:{self.line}: {what}", hint=hint)

    def fields(self, what: str, known: Iterable[str], needed: Iterable[str] = ()) -> dict[str, "Place"]:
        """Its fields by name; only these may be there, and some must."""
        names, found = list(known), self.mapping(what)
        for name, value in found.items():
            if name not in names:
                raise value.wrong(f"{what} has no {name!r}", f"it may have: {', '.join(names)}")
        for name in needed:
            if name not in found:
                raise self.wrong(f"{what} lacks {name!r}")
        return found

    def mapping(self, what: str) -> dict[str, "Place"]:
        """Its fields, whatever they are called."""
        if not isinstance(self._node, yaml.MappingNode):
            raise self.wrong(f"{what} must be a mapping, `name: value`")
        return {str(key.value): Place(self._file, value) for key, value in self._node.value}

    def items(self, what: str) -> list["Place"]:
        """The items of a list."""
        if not isinstance(self._node, yaml.SequenceNode):
            raise self.wrong(f"{what} must be a list, each item behind a dash")
        return [Place(self._file, one) for one in self._node.value]

    def text(self, what: str) -> str:
        """A text."""
        if not isinstance(self._node, yaml.ScalarNode) or not self._node.value:
            raise self.wrong(f"{what} must be a text")
        return str(self._node.value)

    def count(self, what: str) -> int:
        """A whole number from 0."""
        value = self.value
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self.wrong(f"{what} must be a whole number from 0")
        return value

    @property
    def value(self) -> Any:
        """All of it, as plain Python."""
        loader = _Loader("")
        try:
            return loader.construct_document(self._node)
        except yaml.MarkedYAMLError as error:
            raise self.wrong("this cannot be read", error.problem or str(error)) from error
        finally:
            loader.dispose()
