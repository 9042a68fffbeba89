"""Rows of a copy in Redis read back: all of them, or those of some keys.

Prefixes may begin with one another (`orders`, `orders:old`), so a row belongs to a copy only if its name
is what its own key makes of the prefix.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import Any

import msgspec
from pyspark.sql import types as spark

from headwater.sink.plain import text
from headwater.sink.redis_store import Form, joined, reading
from headwater.sink.restored import from_json, from_text

_AT_ONCE = 500
_SPECIAL = re.compile(r"([\\*?\[\]])")


class RedisRows:
    """The rows of a copy under a prefix."""

    def __init__(
        self, url: str, prefix: str, form: Form, columns: spark.StructType, keys: tuple[str, ...]
    ) -> None:
        self._url, self._prefix, self._form = url, prefix, form
        self._row = (_from_hash if form == "hash" else _from_json)(columns)
        self._texts = [(one, text(columns[one].dataType)) for one in keys]

    def all(self) -> Iterator[dict[str, Any]]:
        """Every row."""
        with reading(self._url) as client:
            names = beginning(client, f"{self._prefix}:")
            yield from (row for _, row in self._rows(client, names))

    def among(self, names: Iterable[bytes]) -> Iterator[bytes]:
        """Those of these keys that are rows of this copy."""
        with reading(self._url) as client:
            yield from (name for name, _ in self._rows(client, names))

    def some(self, keys: Collection[tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
        """The rows of these keys."""
        names = [one for one, _ in self._texts]
        with reading(self._url) as client:
            wanted = (self._name(dict(zip(names, one, strict=True))) for one in keys)
            yield from (row for _, row in self._rows(client, wanted))

    def _rows(self, client: Any, names: Iterable[bytes]) -> Iterator[tuple[bytes, dict[str, Any]]]:
        wanted = iter(names)
        while part := list(islice(wanted, _AT_ONCE)):
            pipe = client.pipeline(transaction=False)
            for name in part:
                pipe.hgetall(name) if self._form == "hash" else pipe.get(name)
            for name, found in zip(part, pipe.execute(raise_on_error=False), strict=True):
                if found and not isinstance(found, Exception) and name == self._name(row := self._row(found)):
                    yield name, row

    def _name(self, row: dict[str, Any]) -> bytes:
        values = [(turn, row[name]) for name, turn in self._texts]
        if any(value is None for _, value in values):
            return b""  # somebody else's
        return b"%s:%s" % (self._prefix.encode(), joined([turn(value) for turn, value in values]))


def beginning(client: Any, start: str) -> Iterator[bytes]:
    """The names of all keys that begin so; one may come twice while keys come and go."""
    found: Iterator[bytes] = client.scan_iter(match=_SPECIAL.sub(r"\\\1", start) + "*", count=_AT_ONCE)
    return found


def _from_hash(columns: spark.StructType) -> Any:
    turns = [(one.name, one.name.encode(), from_text(one.dataType)) for one in columns.fields]

    def row(found: dict[bytes, bytes]) -> dict[str, Any]:
        return {name: turn(found[field]) if field in found else None for name, field, turn in turns}

    return row


def _from_json(columns: spark.StructType) -> Any:
    turn = from_json(columns)
    return lambda found: turn(msgspec.json.decode(found))
