"""SearchSink: the newest row of every key as a document in OpenSearch or Elasticsearch.

Readers ask the alias `name`; behind it stands an index of ours. A document's version is the position of
its row, and the index itself refuses what is not newer. A document that it refuses for good becomes a
dead letter.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from headwater import embedded
from headwater.embedded.server import recorded
from headwater.errors import SinkUnreachable, SpecError
from headwater.log.formats.changes import POSITION
from headwater.settings import Settings
from headwater.sink.by_key import write_by_key
from headwater.sink.contract import Batch, Guarantee
from headwater.sink.keyed import Keyed, Keys, Row
from headwater.sink.refused import bury
from headwater.sink.search_beside import SearchBeside, building
from headwater.sink.search_index import Index
from headwater.sink.search_mapping import mapping
from headwater.sink.search_reading import SearchRows
from headwater.sink.search_server import SearchServer
from headwater.sink.search_store import SearchStore

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
_HINT = "start one with `headwater up --with search`, or name yours: HEADWATER_SEARCH=https://…"


@dataclass(frozen=True)
class SearchSink:
    """A copy in a search index, behind the alias `name`.

    `mapping` has the fields that are to be found in another way than their columns' types say, `settings`
    those of the index, both in the server's own words. `version` names the column that tells which row of
    a key is newer, for rows that are not a table's changes. Without a `url` it is that of the settings,
    or the embedded OpenSearch.
    """

    name: str
    key: str | Sequence[str] = field(kw_only=True)
    mapping: Mapping[str, Any] = field(default_factory=dict, kw_only=True, hash=False)
    settings: Mapping[str, Any] = field(default_factory=dict, kw_only=True, hash=False)
    url: str | None = field(default=None, kw_only=True, repr=False)
    version: str = field(default=POSITION, kw_only=True)

    guarantee: Final[Guarantee] = field(default="exactly-once", init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.key, str):
            object.__setattr__(self, "key", tuple(self.key))
        if not _NAME.fullmatch(self.name):
            raise SpecError(
                f"{self.name!r} cannot be the name of a search index",
                hint="use 1 to 100 small letters, digits, dots, dashes and underscores",
            )
        _ = self.keyed

    @property
    def keyed(self) -> Keyed:
        """How its rows are told apart."""
        return Keyed.of(self.key, self.version, self.name)

    def check(self, columns: StructType) -> None:
        """Refuse rows that cannot be kept by key, or found."""
        self.keyed.check(columns, self.name)
        _ = mapping(self.keyed.columns(columns), self.mapping)

    def write(self, rows: DataFrame, batch: Batch) -> int:
        """Write one batch; what is not newer than the copy changes nothing."""
        url, columns = self._url(batch.settings), self.keyed.columns(rows.schema)
        with SearchServer(url) as server:
            alias = self._index(server).ensure(mapping(columns, self.mapping), self.settings)
        place = {"url": url, "alias": alias, "copy": self._alias}
        store = SearchStore(**place, columns=columns, keys=self.keyed.keys)
        refused = write_by_key(rows, self.keyed, self.name, store)
        return bury(refused, batch, f"search.{self.name}")  # a topic may have the copy's name

    def read(self, columns: StructType, settings: Settings, keys: Keys | None = None) -> Iterator[Row]:
        """The rows of the copy, or of some keys."""
        with SearchServer(self._url(settings)) as server:
            rows = SearchRows(server, self.name, columns, self.keyed.keys)
            yield from rows.all() if keys is None else rows.some(keys)

    def beside(self, settings: Settings) -> SearchBeside:
        """The copy that a rebuild makes: another index, to which the alias then moves."""
        return SearchBeside(self._url(settings), self.name, _Building(**self._given))

    @property
    def _alias(self) -> str:
        return self.name

    def _index(self, server: SearchServer) -> Index:
        return Index(server, self.name)

    @property
    def _given(self) -> dict[str, Any]:
        return {one.name: getattr(self, one.name) for one in fields(self) if one.init}

    def _url(self, settings: Settings) -> str:
        url = self.url or embedded.search_url(settings)
        if url is None:
            missing = SinkUnreachable if recorded("search", settings) else SpecError
            raise missing(f"no search server is there for the copy {self.name!r}", hint=_HINT)
        return url


class _Building(SearchSink):
    """The same copy while it is built beside the one that readers find."""

    @property
    def _alias(self) -> str:
        return building(self.name)

    def _index(self, server: SearchServer) -> Index:
        return Index(server, self._alias, of=self.name)
