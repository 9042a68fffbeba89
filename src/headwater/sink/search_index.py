"""The index of a copy: always behind an alias, so that another one can take its place in a moment.

The alias `orders` names the index `orders-1`, and after a rebuild `orders-2`. Readers and writers use the
alias only. Columns that the rows have got since are added to the mapping; a column of another type is
refused, because an index cannot change it.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from headwater.errors import CopyMismatch, SinkRefused
from headwater.sink.search_server import Answer, SearchServer

DELETES_KEPT = "1h"
"""How long an index knows the version of a document that is deleted: a writer may be late by as much."""

_REBUILD = "`headwater rebuild` makes another index with all rows, and switches to it"


def writers(index: str) -> str:
    """The name by which an index is written."""
    return f"{index}~writers"


class Index:
    """The indices of one alias on a server; they are numbered as those of the copy that they are `of`."""

    def __init__(self, server: SearchServer, alias: str, *, of: str | None = None) -> None:
        self._server, self._alias, self._copy = server, alias, of or alias
        self._path = quote(alias, safe="")

    def ensure(self, mapping: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
        """Have an index behind the alias that takes documents of this mapping; tells its name for writers.

        That name is an alias of this index alone: who writes by it never writes into a later one.
        """
        found = self._server.ask("GET", f"{self._path}/_alias")
        if found.status == 404:
            self._make(f"{self._copy}-{self._next()}", mapping, settings)
        elif self._alias in found.body:
            raise SinkRefused(
                f"{self._alias!r} is an index of its own, and must be an alias",
                hint="name the copy otherwise, or delete that index: it was not made by us",
            )
        index, properties = self._mapping()
        self._fit(properties, mapping)
        self._name_for_writers(index)
        return writers(index)

    def _make(self, index: str, mapping: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
        said = {
            "settings": {"index": {"gc_deletes": DELETES_KEPT, **settings}},
            "mappings": mapping,
            "aliases": {self._alias: {}},
        }
        made = self._server.ask("PUT", quote(index, safe=""), said)
        if not made.is_good and "resource_already_exists" not in made.why:  # another driver was quicker
            raise self._refused(f"index {index!r} cannot be made", made)

    def _name_for_writers(self, index: str) -> None:
        place = f"{quote(index, safe='')}/_alias/{quote(writers(index), safe='')}"
        if not self._server.ask("GET", place).is_good:
            named = self._server.ask("PUT", place)
            if not named.is_good:
                raise self._refused(f"index {index!r} cannot be named", named)

    def _next(self) -> int:
        """A number that no index of ours has had."""
        found = self._server.ask("GET", f"{quote(self._copy, safe='')}-*/_alias")
        names = found.body if found.is_good else {}
        numbers = [one.removeprefix(f"{self._copy}-") for one in names]
        return 1 + max((int(one) for one in numbers if one.isdecimal()), default=0)

    def _mapping(self) -> tuple[str, dict[str, Any]]:
        found = self._server.ask("GET", f"{self._path}/_mapping")
        if not found.is_good:
            raise self._refused(f"the mapping of {self._alias!r} cannot be read", found)
        if len(found.body) > 1:
            raise SinkRefused(
                f"the alias {self._alias!r} names several indices",
                detail=", ".join(sorted(found.body)),
                hint="leave it to one of them: a copy is written to one index",
            )
        ((index, told),) = found.body.items()
        return index, told["mappings"].get("properties", {})

    def _fit(self, has: Mapping[str, Any], mapping: Mapping[str, Any]) -> None:
        wanted: Mapping[str, Any] = mapping["properties"]
        if different := list(_different(has, wanted)):
            raise CopyMismatch(
                f"the index behind {self._alias!r} has other types than the rows",
                detail="\n".join(different),
                hint=_REBUILD,
            )
        if _lacks(has, wanted):
            done = self._server.ask("PUT", f"{self._path}/_mapping", {"properties": wanted})
            if not done.is_good:
                raise self._refused(f"the mapping of {self._alias!r} cannot be extended", done)

    def _refused(self, what: str, answer: Answer) -> SinkRefused:
        return SinkRefused(what, detail=answer.why)


def _different(has: Mapping[str, Any], wanted: Mapping[str, Any], path: str = "") -> list[str]:
    found = []
    for name in wanted.keys() & has.keys():
        mine, theirs = wanted[name], has[name]
        kinds = mine.get("type", "object"), theirs.get("type", "object")
        if kinds[0] != kinds[1]:
            found.append(f"{path}{name}: {kinds[1]} in the index, {kinds[0]} in the rows")
        found += _different(theirs.get("properties", {}), mine.get("properties", {}), f"{path}{name}.")
    return sorted(found)


def _lacks(has: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether a field is missing, at any depth."""
    if wanted.keys() - has.keys():
        return True
    inside = ((has[one].get("properties", {}), wanted[one].get("properties", {})) for one in wanted)
    return any(_lacks(theirs, mine) for theirs, mine in inside)
