"""Judge: which records of a topic are good, what their columns are, and what is wrong with the others.

A block of records is decoded at one go. When anything in it is bad, the same block is gone through
record by record with the topic's own codec, so that a record's fate never hangs on its neighbours.
Bad is what the codec cannot read, what Spark's types cannot hold, a record without its key or its event
time, one without a value, and, where a pipeline says so, an event from the future. A schema registry that is
away makes no record bad: its error goes up.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import msgspec
import pyarrow as pa

from headwater import embedded
from headwater.clock import EPOCH
from headwater.errors import Undecodable, UnknownSchema
from headwater.log.formats import codec_for
from headwater.log.formats.codec import Row
from headwater.log.formats.framing import SchemaText
from headwater.log.schema import fits_decimal
from headwater.log.schemas import open_schemas
from headwater.log.topic import PLAIN, Topic
from headwater.run.columns import column
from headwater.settings import Settings

if TYPE_CHECKING:
    from headwater.log.registry import Schemas

BAD = (
    msgspec.MsgspecError,
    Undecodable,
    pa.ArrowException,
    ValueError,  # text or a number that Arrow does not take, bytes that are no text
    OverflowError,
    RecursionError,
)
"""What bytes can do to a decoder. No RegistryError is among them."""

_LAST_ID = 2**31 - 1  # registries count in 32 bits, and some fail over a larger number


class Judged(NamedTuple):
    """The columns of some records, null where one is bad, and the reasons, if there are any."""

    columns: list[pa.Array]
    reasons: list[str] | None


@dataclass(frozen=True)
class RegistryAddress:
    """How executors reach the registry: found out where the settings' own folder is."""

    url: str | None = field(default=None, repr=False)
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, topic: Topic, settings: Settings) -> Self:
        """The registry of these settings; nothing for a topic that needs none."""
        if topic.format in PLAIN:
            return cls()
        return cls(embedded.registry_url(settings), tuple(sorted(settings.registry_options.items())))

    def open(self) -> "KnownSchemas":
        """A client of it."""
        return KnownSchemas(open_schemas(Settings(registry=self.url, registry_options=dict(self.options))))


class KnownSchemas:
    """A registry that is asked once for an id that it does not hold: a thousand bad records may name it."""

    def __init__(self, schemas: "Schemas") -> None:
        self._schemas = schemas
        self.unknown: set[int] = set()
        self.register = schemas.register

    def schema(self, schema_id: int) -> SchemaText:
        """The schema of an id; UnknownSchema when there is none."""
        if schema_id > _LAST_ID or schema_id in self.unknown:
            raise UnknownSchema(f"the registry holds no such schema: schema {schema_id}")
        try:
            return self._schemas.schema(schema_id)
        except UnknownSchema:
            self.unknown.add(schema_id)
            raise


class Judge:
    """One topic's records, judged."""

    def __init__(self, topic: Topic, registry: RegistryAddress, future: timedelta | None = None) -> None:
        self._registry = registry
        self._ahead = Ahead(topic, future) if future is not None and topic.event_time else None
        self._known: KnownSchemas | None = None
        self._codec = codec_for(topic, self._open)
        self._read = _fast_json(topic) if topic.format == "json" else self._codec.decode
        self._columns = [column(one) for one in topic.spark_schema.fields]
        self._needed = {name: role for role, name in _needed(topic).items()}
        self._at = [topic.spark_schema.names.index(name) for name in self._needed]
        self._blank = topic.row(**dict.fromkeys(topic.spark_schema.names))
        self._misfit = fits_decimal(topic.spark_schema)

    def forget(self) -> None:
        """Ask again for schemas that the registry did not hold."""
        if self._known is not None:
            self._known.unknown.clear()

    def columns(self, values: pa.Array, appended: pa.Array | None = None) -> Judged:
        """The columns of these values; `appended` is when each was written, in milliseconds since 1970."""
        if values.null_count:
            return self._one_by_one(values, appended)
        try:
            made = self._made(list(map(self._read, values.to_pylist())))
        except BAD:
            return self._one_by_one(values, appended)
        if any(made[at].null_count for at in self._at):
            return self._one_by_one(values, appended)
        if self._ahead is not None and self._ahead.any(made, appended):
            return self._one_by_one(values, appended)
        return Judged(made, None)

    def _one_by_one(self, values: pa.Array, appended: pa.Array | None) -> Judged:
        judged = [self._judge(one) for one in values.to_pylist()]
        if self._ahead is not None and appended is not None:
            judged = [
                (self._blank, said) if not why and (said := self._ahead.said(row, at)) else (row, why)
                for (row, why), at in zip(judged, appended.to_pylist(), strict=True)
            ]
        try:
            made = self._made([row for row, _ in judged])
        except BAD:
            judged = [(row, why) if why else self._fitted(row) for row, why in judged]
            made = self._made([row for row, _ in judged])
        return Judged(made, [why for _, why in judged])

    def _judge(self, value: bytes | None) -> tuple[Row, str]:
        """The row and no reason, or a blank row and what is wrong."""
        if value is None:
            return self._blank, "it has no value"
        try:
            row = self._codec.decode(value)
        except Undecodable as error:
            return self._blank, error.message
        for name, role in self._needed.items():
            if getattr(row, name) is None:
                return self._blank, f"its {role} {name!r} is null"
        return row, ""

    def _fitted(self, row: Row) -> tuple[Row, str]:
        try:
            self._made([row])
        except BAD as error:
            return self._blank, self._misfit(row) or str(error)
        return row, ""

    def _made(self, rows: Sequence[Row]) -> list[pa.Array]:
        return [make(rows) for make in self._columns]

    def _open(self) -> KnownSchemas:
        self._known = self._registry.open()
        return self._known


class Ahead:
    """Event times that are further ahead of the log's own clock than an honest clock can be."""

    def __init__(self, topic: Topic, future: timedelta) -> None:
        self._name = topic.event_time or ""
        self._at = topic.spark_schema.names.index(self._name)
        self._millis = future // timedelta(milliseconds=1)
        self._said = f"its event time {self._name!r} is more than {future} ahead of when it was written"

    def any(self, columns: Sequence[pa.Array], appended: pa.Array | None) -> bool:
        """Whether there is one among these rows."""
        if appended is None:
            return False
        events = columns[self._at].view(pa.int64()).to_numpy()
        return bool((events > (appended.to_numpy() + self._millis) * 1000).any())

    def said(self, row: Row, appended: int) -> str:
        """What is wrong with the row, if it is one."""
        event: datetime = getattr(row, self._name)
        since = event.replace(tzinfo=event.tzinfo or UTC) - EPOCH
        return self._said if since > timedelta(milliseconds=appended + self._millis) else ""


@lru_cache(maxsize=64)
def judge_of(topic: Topic, registry: RegistryAddress, future: timedelta | None = None) -> Judge:
    """The judge of a topic, made once in a process: learning schemas costs a question for each."""
    return Judge(topic, registry, future)


def _needed(topic: Topic) -> dict[str, str]:
    roles = {"event time": topic.event_time, "key": topic.key}
    return {role: name for role, name in roles.items() if name is not None}


def _fast_json(topic: Topic) -> Any:
    """The codec's own decoder into rows that the garbage collector does not count."""
    fast = msgspec.defstruct(topic.row.__name__, [], bases=(topic.row,), frozen=True, gc=False)
    return msgspec.json.Decoder(fast).decode
