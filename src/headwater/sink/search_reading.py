"""Documents read back as rows: all of an index, or those of some keys."""

from collections.abc import Collection, Iterator
from itertools import islice
from typing import Any
from urllib.parse import quote

from pyspark.sql import types as spark

from headwater.errors import SinkRefused
from headwater.sink.restored import from_json
from headwater.sink.search_server import Answer, SearchServer
from headwater.sink.search_store import ids

_AT_ONCE = 500
_KEPT = "2m"
"""How long the server keeps the place of a reader that does not ask."""


class SearchRows:
    """The rows of the index behind an alias."""

    def __init__(
        self, server: SearchServer, alias: str, columns: spark.StructType, keys: tuple[str, ...]
    ) -> None:
        self._server, self._alias, self._path = server, alias, quote(alias, safe="")
        self._row, self._id = from_json(columns), ids(columns, keys)

    def all(self) -> Iterator[dict[str, Any]]:
        """Every row that was acknowledged before."""
        self._good(self._server.ask("POST", f"{self._path}/_refresh"))
        said = {"size": _AT_ONCE, "sort": ["_doc"], "query": {"match_all": {}}}
        page = self._good(self._server.ask("POST", f"{self._path}/_search?scroll={_KEPT}", said))
        try:
            while hits := page["hits"]["hits"]:
                yield from (self._row(one["_source"]) for one in hits)
                more = {"scroll": _KEPT, "scroll_id": page["_scroll_id"]}
                page = self._good(self._server.ask("POST", "_search/scroll", more))
        finally:
            self._server.ask("DELETE", "_search/scroll", {"scroll_id": [page["_scroll_id"]]})

    def some(self, keys: Collection[tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
        """The rows of these keys, as they are this moment."""
        wanted = iter(keys)
        while part := [self._id(one) for one in islice(wanted, _AT_ONCE)]:
            found = self._good(self._server.ask("POST", f"{self._path}/_mget", {"ids": part}))
            yield from (self._row(one["_source"]) for one in found["docs"] if one.get("found"))

    def _good(self, answer: Answer) -> Any:
        if not answer.is_good:
            raise SinkRefused(
                f"the index behind {self._alias!r} cannot be read",
                detail=answer.why,
                hint="has its pipeline ever run?" if answer.status == 404 else "",
            )
        return answer.body
