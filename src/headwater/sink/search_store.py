"""A search index as a task reaches it: rows as documents, each under its key's id and with its position."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from pyspark.sql import types as spark

from headwater.sink.by_key import Change
from headwater.sink.plain import in_json
from headwater.sink.refused import Refused
from headwater.sink.search_bulk import Action, Bulk
from headwater.sink.search_server import SearchServer

_LONGEST_ID = 512
_HASHED = "sha256:"


@dataclass(frozen=True, kw_only=True)
class SearchStore:
    """Writes what a task has into an index by its alias for writers, a copy that readers find by another."""

    url: str = field(repr=False)
    alias: str
    copy: str
    columns: spark.StructType
    keys: tuple[str, ...]

    def __call__(self, chunks: Iterator[Sequence[Change]]) -> list[Refused]:
        """Write all chunks; gives the documents that the index will never take."""
        id_of, turn = ids(self.columns, self.keys), in_json(self.columns)
        with SearchServer(self.url) as server:
            bulk = Bulk(server, self.alias, of=self.copy)
            for chunk in chunks:
                for key, position, row in chunk:
                    document = None if row is None else msgspec.json.encode(turn(row))
                    bulk.add(Action(id_of(key), position, document))
            bulk.flush()
        return bulk.refused


def ids(columns: spark.StructType, keys: Sequence[str]) -> Callable[[Sequence[Any]], str]:
    """What makes the id of a key: the text of its column, or a JSON array of the values of several.

    What an index does not take as an id, nothing and more than 512 bytes, is hashed.
    """
    turns = [in_json(columns[one].dataType) for one in keys]

    def made(key: Sequence[Any]) -> str:
        values = [turn(one) for turn, one in zip(turns, key, strict=True)]
        return _fitting(_text(values[0]) if len(values) == 1 else _json(values))

    return made


def _fitting(text: str) -> str:
    data = text.encode()
    if not data or len(data) > _LONGEST_ID or text.startswith(_HASHED):
        return _HASHED + hashlib.sha256(data).hexdigest()
    return text


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
