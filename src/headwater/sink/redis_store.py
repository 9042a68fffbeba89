"""Redis as a task reaches it: a chunk of changes in one round trip, compared and written by one script.

Redis runs a script as a whole, so nobody comes between the comparison and the write. Positions are compared
as text, because a number of Lua's has 53 bits. What was deleted leaves its position under
`<prefix>~deleted:<key>`, which expires: until then an older change cannot bring the row back.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache, partial
from typing import Any, Literal

import msgspec
from pyspark.sql import types as spark

from headwater.errors import SinkRefused, SinkUnreachable
from headwater.sink.by_key import Change, tried
from headwater.sink.keyed import KEPT_POSITION
from headwater.sink.plain import in_json, text

Form = Literal["hash", "json"]
_MILLISECOND = timedelta(milliseconds=1)
_WITHIN, _CONNECT_WITHIN = 30.0, 5.0
_FULL = "OOM command not allowed"  # as a script says it, within an error of its own
_SCRIPT = """
local prefix, form, ttl, remembered = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]

local function newer(this, that)
  return not that or #this > #that or (#this == #that and this > that)
end

local function position(row)
  if form == 'hash' then return redis.call('HGET', row, '_position') end
  local known = redis.call('GET', row)
  return known and string.match(known, '^{"_position":(%d+)')
end

if (redis.call('GET', prefix .. '~switches') or '0') ~= ARGV[5] then
  return 'switched'
end

-- Redis refuses this when its memory is full, and nothing that a script does after its first write.
redis.call('SETRANGE', prefix .. '~room', 0, '')

local at = 6
while ARGV[at] do
  local id, this, count = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2])
  local row, deleted = prefix .. ':' .. id, prefix .. '~deleted:' .. id
  if newer(this, position(row)) and newer(this, redis.call('GET', deleted)) then
    redis.call('DEL', row)
    if count == 0 then
      redis.call('SET', deleted, this, 'PX', remembered)
    else
      redis.call('DEL', deleted)
      if form == 'hash' then
        redis.call('HSET', row, unpack(ARGV, at + 3, at + 2 + count))
      else
        redis.call('SET', row, ARGV[at + 3])
      end
      if ttl > 0 then redis.call('PEXPIRE', row, ttl) end
    end
  end
  at = at + 3 + count
end
"""


@dataclass(frozen=True, kw_only=True)
class RedisStore:
    """Writes what a task has to a Redis."""

    url: str = field(repr=False)
    prefix: str
    form: Form
    columns: spark.StructType
    keys: tuple[str, ...]
    ttl: timedelta | None
    remembered: timedelta
    switches: int = 0
    """How often the copy had been switched when the batch was begun."""

    def __call__(self, chunks: Iterator[Sequence[Change]]) -> None:
        """Write all chunks, each again while Redis cannot be reached."""
        told, head = self._teller(), self._head
        for chunk in chunks:
            words = [word for change in chunk for word in told(change)]
            if tried(partial(_run, self.url, [*head, *words])) is not None:
                raise SinkUnreachable(
                    f"the copy {self.prefix!r} was switched", hint="the batch is written into the new one"
                )

    @property
    def _head(self) -> list[Any]:
        ttl = 0 if self.ttl is None else self.ttl // _MILLISECOND
        return [self.prefix, self.form, ttl, self.remembered // _MILLISECOND, self.switches]

    def _teller(self) -> Any:
        """What the script is told of a change: the key, the position, how many words follow, and these."""
        row = (_as_hash if self.form == "hash" else _as_json)(self.columns)
        names = [text(self.columns[one].dataType) for one in self.keys]

        def told(change: Change) -> list[Any]:
            parts = [turn(value) for turn, value in zip(names, change.key, strict=True)]
            words = [] if change.row is None else row(change)
            return [joined(parts), change.position, len(words), *words]

        return told


def joined(parts: Sequence[bytes]) -> bytes:
    """A key's name: its one column as it is, or several with colons between, and none within."""
    if len(parts) == 1:
        return parts[0]
    return b":".join(one.replace(b"%", b"%25").replace(b":", b"%3A") for one in parts)


def _as_hash(columns: spark.StructType) -> Any:
    turns = [(one.name, text(one.dataType)) for one in columns.fields]

    def words(change: Change) -> list[Any]:
        found: list[Any] = [KEPT_POSITION, change.position]
        for name, turn in turns:
            value = (change.row or {})[name]
            if value is not None:
                found += [name, turn(value)]
        return found

    return words


def _as_json(columns: spark.StructType) -> Any:
    turn = in_json(columns)
    return lambda change: [msgspec.json.encode({KEPT_POSITION: change.position, **turn(change.row)})]


def _run(url: str, words: list[Any]) -> Any:
    with _translated():
        return _script(url)(args=words)


def switches(url: str, prefix: str) -> int:
    """How often a rebuild has switched a copy."""
    with reading(url) as client:
        return int(client.get(f"{prefix}~switches") or 0)


@contextmanager
def reading(url: str) -> Iterator[Any]:
    """A client to read with; what Redis says in the block is an error of ours."""
    with _translated():
        yield _client(url)


@cache
def _script(url: str) -> Any:
    """The script at a Redis."""
    return _client(url).register_script(_SCRIPT)


@cache
def _client(url: str) -> Any:
    """A client that this process keeps."""
    from redis import Redis  # noqa: PLC0415 - only workers that write there load it
    from redis.backoff import NoBackoff  # noqa: PLC0415
    from redis.retry import Retry  # noqa: PLC0415

    retry, connect = Retry(NoBackoff(), 0), _CONNECT_WITHIN
    try:
        return Redis.from_url(url, socket_timeout=_WITHIN, socket_connect_timeout=connect, retry=retry)
    except ValueError:  # which would say the URL's parts, the password perhaps among them
        raise SinkRefused(
            "the URL of Redis cannot be read", hint="write redis://:password@host:6379/0"
        ) from None


@contextmanager
def _translated() -> Iterator[None]:
    """What Redis says, as an error of ours; its URL is in none of them."""
    from redis import exceptions as redis  # noqa: PLC0415

    away = (redis.ConnectionError, redis.TimeoutError, redis.ReadOnlyError, redis.OutOfMemoryError)
    try:
        yield
    except (redis.AuthenticationError, redis.AuthorizationError) as error:
        raise SinkRefused(
            "Redis refuses us", detail=str(error), hint="is its URL's password right?"
        ) from error
    except away as error:
        raise SinkUnreachable("Redis cannot be written to", detail=str(error)) from error
    except redis.RedisError as error:
        if _FULL in str(error):
            raise SinkUnreachable(
                "Redis has no room", detail=str(error), hint="the pipeline goes on when it has"
            ) from error
        raise SinkRefused("Redis refuses what it is given", detail=str(error)) from error
