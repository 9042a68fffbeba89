"""RedisSink: a copy in Redis, one key for each row, as a hash or as JSON.

Row 7 of the copy `orders` stands at `orders:7`, with its position in the field `_position`. Which of two
changes is newer, Redis decides itself (see `redis_store`). A row that was deleted is not there at all; its
position is remembered elsewhere for a while.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from headwater import embedded
from headwater.embedded.server import recorded
from headwater.errors import SinkUnreachable, SpecError
from headwater.log.formats.changes import POSITION
from headwater.settings import Settings
from headwater.sink.by_key import tried, write_by_key
from headwater.sink.contract import Batch, Guarantee
from headwater.sink.keyed import Keyed, Keys, Row
from headwater.sink.redis_beside import RedisBeside
from headwater.sink.redis_reading import RedisRows
from headwater.sink.redis_store import Form, RedisStore, switches

REMEMBERED = timedelta(days=7)
"""For how long a copy knows that a key was deleted, and when."""

_HINT = "start one with `headwater up --with redis`, or name yours: HEADWATER_REDIS=redis://…"


@dataclass(frozen=True)
class RedisSink:
    """A copy in Redis, under `prefix` (its name, unless told otherwise).

    With a `ttl`, a row goes when it was not written for so long. `version` names the column that tells which
    row of a key is newer, for rows that are not a table's changes. Without a `url` it is the Redis of the
    settings, or the embedded one.
    """

    name: str
    key: str | Sequence[str] = field(kw_only=True)
    form: Form = field(default="hash", kw_only=True)
    ttl: timedelta | None = field(default=None, kw_only=True)
    prefix: str | None = field(default=None, kw_only=True)
    url: str | None = field(default=None, kw_only=True, repr=False)
    version: str = field(default=POSITION, kw_only=True)

    guarantee: Final[Guarantee] = field(default="exactly-once", init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.key, str):
            object.__setattr__(self, "key", tuple(self.key))
        _ = self.keyed
        if self.form not in ("hash", "json"):
            raise SpecError(f"the copy {self.name!r} cannot be a {self.form!r}", hint="known: hash, json")
        if self.ttl is not None and self.ttl < timedelta(milliseconds=1):
            raise SpecError(f"the ttl of the copy {self.name!r} must be a millisecond or more")

    @property
    def keyed(self) -> Keyed:
        """How its rows are told apart."""
        return Keyed.of(self.key, self.version, self.name)

    def check(self, columns: StructType) -> None:
        """Refuse rows that cannot be kept by key."""
        self.keyed.check(columns, self.name)

    def write(self, rows: DataFrame, batch: Batch) -> None:
        """Write one batch; what is not newer than the copy changes nothing."""
        url, prefix = self._url(batch.settings), self.prefix or self.name
        store = RedisStore(
            url=url,
            prefix=prefix,
            form=self.form,
            columns=self.keyed.columns(rows.schema),
            keys=self.keyed.keys,
            ttl=self.ttl,
            remembered=REMEMBERED,
            switches=tried(lambda: switches(url, prefix)),
        )
        write_by_key(rows, self.keyed, self.name, store)

    def read(self, columns: StructType, settings: Settings, keys: Keys | None = None) -> Iterator[Row]:
        """The rows of the copy, or of some keys."""
        given = (self.prefix or self.name, self.form, columns, self.keyed.keys)
        rows = RedisRows(self._url(settings), *given)
        return rows.all() if keys is None else rows.some(keys)

    def beside(self, settings: Settings) -> RedisBeside:
        """The copy that a rebuild makes: under another prefix, until its rows are put over those here."""
        old = self.prefix or self.name
        new = replace(self, prefix=f"{old}~new")
        return RedisBeside(self._url(settings), old, self.form, self.keyed.keys, new)

    def _url(self, settings: Settings) -> str:
        url = self.url or embedded.redis_url(settings)
        if url is None:
            missing = SinkUnreachable if recorded("redis", settings) else SpecError
            raise missing(f"no Redis is there for the copy {self.name!r}", hint=_HINT)
        return url
