"""A copy in a search index built anew: another index, to which the alias moves in one step.

While it is built, the index stands behind an alias of its own, `orders~new`. The switch is one change of the
cluster's state: every search before it asks the old index alone, every later one the new index alone. The old
index is then named `orders~old`, until it is dropped.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote

from pyspark.sql import types as spark

from headwater.errors import SinkRefused
from headwater.sink.search_server import Answer, SearchServer

if TYPE_CHECKING:
    from headwater.sink.search import SearchSink


def building(copy: str) -> str:
    """The alias of an index that is being built."""
    return f"{copy}~new"


@dataclass(frozen=True)
class SearchBeside:
    """The index beside the one behind the alias `alias`, written by `sink`."""

    url: str = field(repr=False)
    alias: str
    sink: "SearchSink"

    @property
    def is_begun(self) -> bool:
        """Whether it is there."""
        with SearchServer(self.url) as server:
            return bool(_behind(server, building(self.alias)))

    def switch(self, columns: spark.StructType) -> None:  # noqa: ARG002 - an index is switched whole
        """Move the alias, when all that was written can be found."""
        new = building(self.alias)
        with SearchServer(self.url) as server:
            if not (made := _behind(server, new)):
                return  # it has taken its place before
            _good(server.ask("POST", f"{_path(new)}/_refresh"), self.alias)
            moves = [("add", one, self.alias) for one in made] + [("remove", one, new) for one in made]
            for one in set(_behind(server, self.alias)) - set(made):
                moves += [("remove", one, self.alias), ("add", one, self._old)]
            actions = [{what: {"index": index, "alias": alias}} for what, index, alias in moves]
            _good(server.ask("POST", "_aliases", {"actions": actions}), self.alias)

    def drop(self) -> None:
        """Remove it, and the index whose place it took."""
        with SearchServer(self.url) as server:
            for alias in (building(self.alias), self._old):
                for index in _behind(server, alias):
                    _good(server.ask("DELETE", _path(index)), self.alias)

    @property
    def _old(self) -> str:
        return f"{self.alias}~old"


def _behind(server: SearchServer, alias: str) -> list[str]:
    """The indices behind an alias."""
    found = server.ask("GET", f"_alias/{_path(alias)}")
    return sorted(found.body) if found.is_good else []


def _good(answer: Answer, alias: str) -> None:
    if not answer.is_good:
        raise SinkRefused(f"the index behind {alias!r} cannot be switched", detail=answer.why)


def _path(name: str) -> str:
    return quote(name, safe="")
