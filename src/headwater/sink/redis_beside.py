"""A copy in Redis built anew: under another prefix, then put over the old rows, key by key.

Readers ask for `orders:7`, now and for ever, so there is nothing to point elsewhere: when the new rows, at
`orders~new:7`, are as new as the log, each takes the place of the old one in a single step of Redis, and
rows that the new copy lacks go. A reader finds the old row or the new one, whole, and never none. Nothing of
the new copy is removed before all is done, so a switch that was cut short is done again from its beginning.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as spark

from headwater.sink.by_key import tried
from headwater.sink.redis_reading import RedisRows, beginning
from headwater.sink.redis_store import Form, reading

if TYPE_CHECKING:
    from headwater.sink.redis import RedisSink

_AT_ONCE = 500
_PUT = "for at = 3, #ARGV do redis.call('COPY', ARGV[2] .. ARGV[at], ARGV[1] .. ARGV[at], 'REPLACE') end"
_REMOVE = "for at = 2, #ARGV do redis.call('UNLINK', ARGV[1] .. ARGV[at]) end"
_LACKING = """
local found = {}
for at = 2, #ARGV do
  if redis.call('EXISTS', ARGV[1] .. ARGV[at]) == 0 then found[#found + 1] = ARGV[at] end
end
return found
"""


@dataclass(frozen=True)
class RedisBeside:
    """The copy beside the one under the prefix `old`, written by `sink`."""

    url: str = field(repr=False)
    old: str
    form: Form
    keys: tuple[str, ...]
    sink: "RedisSink"

    @property
    def is_begun(self) -> bool:
        """Whether any of it is there."""
        return any(next(self._new(kind).names(), None) for kind in (":", "~deleted:"))

    def switch(self, columns: spark.StructType) -> None:
        """Put its rows over the old ones, and remove those that it lacks."""
        tried(self._count)
        rows, deleted = self._old(":"), self._old("~deleted:")
        new_rows, new_deleted = self._new(":"), self._new("~deleted:")
        deleted.put(new_deleted)
        rows.remove(self._ours(new_rows.lacking(rows.names()), columns))
        rows.put(new_rows)
        deleted.remove(new_deleted.lacking(deleted.names()))

    def drop(self) -> None:
        """Remove what is left of it."""
        for kind in (":", "~deleted:"):
            self._new(kind).remove(self._new(kind).names())

    def _count(self) -> None:
        """From now on, batches that were begun before are refused."""
        with reading(self.url) as client:
            client.incr(f"{self.old}~switches")

    def _old(self, kind: str) -> "_Names":
        return _Names(self.url, self.old + kind)

    def _new(self, kind: str) -> "_Names":
        return _Names(self.url, f"{self.old}~new{kind}")

    def _ours(self, names: Iterable[bytes], columns: spark.StructType) -> Iterator[bytes]:
        """Those that are rows of the old copy; a copy whose prefix begins with this one has its own."""
        keys, start = spark.StructType([columns[one] for one in self.keys]), f"{self.old}:".encode()
        rows = RedisRows(self.url, self.old, self.form, keys, self.keys)
        return (name[len(start) :] for name in rows.among(start + one for one in names))


@dataclass(frozen=True)
class _Names:
    """The keys whose names begin in one way, each told by how it goes on."""

    url: str = field(repr=False)
    start: str

    def names(self) -> Iterator[bytes]:
        with reading(self.url) as client:
            yield from (one[len(self.start.encode()) :] for one in beginning(client, self.start))

    def put(self, others: "_Names") -> None:
        """Copy the others here, over those that have the same name."""
        for part in _parts(others.names()):
            self._run(_PUT, [others.start, *part])

    def remove(self, names: Iterable[bytes]) -> None:
        for part in _parts(names):
            self._run(_REMOVE, part)

    def lacking(self, names: Iterable[bytes]) -> Iterator[bytes]:
        """Those that are not here."""
        for part in _parts(names):
            yield from self._run(_LACKING, part)

    def _run(self, script: str, words: Sequence[Any]) -> Any:
        return tried(partial(self._once, script, words))

    def _once(self, script: str, words: Sequence[Any]) -> Any:
        with reading(self.url) as client:
            return client.register_script(script)(args=[self.start, *words])


def _parts(names: Iterable[bytes]) -> Iterator[list[bytes]]:
    wanted = iter(names)
    while part := list(islice(wanted, _AT_ONCE)):
        yield part
