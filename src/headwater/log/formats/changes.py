"""Changes: Debezium's envelope, read into the one general form that a captured table has.

Nothing is guessed: a value that the database did not send (it lies out of line and did not change), or an
event that is no change of a row, is undecodable, with the reason. The column `position` is the record's place
in the log, which its bytes do not tell: pipelines fill it in.
"""

import base64
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec
from pyspark.sql import types as spark

from headwater.clock import EPOCH
from headwater.log.formats.change_values import MICROSECOND, NOT_SENT, Values, arrays, is_wide
from headwater.log.formats.codec import Row, fitting, undecodable
from headwater.log.schema import python_type
from headwater.log.topic import Topic

OPERATION, POSITION = "operation", "position"
OPERATIONS = {"r": "read", "c": "insert", "u": "update", "d": "delete"}
_LETTERS = {name: letter for letter, name in OPERATIONS.items()}
_NO_ROWS = {
    "t": "the table was truncated, which no row tells: rebuild its copies",
    "m": "it is a message of the database's own, and no change of a row",
}
_SIGNS = (
    NOT_SENT.encode(),
    base64.b64encode(NOT_SENT.encode()),
    ",".join(map(str, NOT_SENT.encode())).encode(),  # in arrays of int, bigint and date
    b"4364e40f-03bc-316f-8cb3-164467f133c7",  # in arrays of uuid: java.util.UUID.nameUUIDFromBytes
)
_LET_IT = "ALTER TABLE … REPLICA IDENTITY FULL lets it"
_NOT_SENT = f"a value that did not change lies out of line, and the database did not send it: {_LET_IT}"
_NOT_SURE = (
    "an array is null, or did not change and the database did not send it, which a connector writes alike: "
    f"{_LET_IT}"
)


class _Source(msgspec.Struct):
    ts_us: int
    lsn: int | None = None
    file: str | None = None
    pos: int | None = None


class _Transaction(msgspec.Struct):
    id: str
    total_order: int


class ChangesCodec:
    """The changes of one captured table."""

    def __init__(self, topic: Topic) -> None:
        columns = topic.spark_schema
        self._topic, self._row = topic, topic.row
        self._fit = fitting(topic)
        self._key, self._keys = python_type(columns["key"].dataType), _kind(columns, "key").names
        self._arrays = arrays(_kind(columns, "after"))
        self._transaction = python_type(columns["transaction"].dataType)
        self._usual = _Envelope(columns)
        self._wide = _Envelope(columns, wide=True) if is_wide(_kind(columns, "after")) else None

    def decode(self, data: bytes) -> Row:
        """The change in these bytes."""
        try:
            return self._read(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError, OverflowError) as error:
            raise undecodable(self._topic, str(error)) from error

    def encode(self, value: object) -> bytes:
        """The envelope of a change, as a connector would have written it."""
        row: Any = self._fit(value)
        at = (row.committed_at - EPOCH) // MICROSECOND
        told = row.transaction and {"id": row.transaction.id, "total_order": row.transaction.place}
        return msgspec.json.encode(
            {
                "before": row.before and self._usual.before.told(row.before),
                "after": row.after and self._usual.after.told(row.after),
                "source": {"ts_us": at, **_place(row.source_position)},
                "transaction": told,
                "op": _LETTERS.get(row.operation, row.operation),
            }
        )

    def _read(self, data: bytes) -> Row:
        try:
            return self._change(self._usual, data)
        except msgspec.ValidationError:
            if self._wide is not None:
                with suppress(msgspec.ValidationError):
                    return self._change(self._wide, data)
            raise

    def _change(self, envelope: "_Envelope", data: bytes) -> Row:
        found: Any = envelope.decode(data)
        self._check(found, data)
        source, within = found.source, found.transaction
        before = None if found.before is None else envelope.before.of(found.before)
        after = None if found.after is None else envelope.after.of(found.after)
        row = before if after is None else after
        return self._row(
            key=self._key(**{name: getattr(row, name) for name in self._keys}),
            before=before,
            after=after,
            operation=OPERATIONS[found.op],
            source_position=_said(source),
            committed_at=EPOCH + source.ts_us * MICROSECOND,
            transaction=within and self._transaction(id=_id(source, within.id), place=within.total_order),
        )

    def _check(self, found: Any, data: bytes) -> None:
        """Undecodable when the event does not tell a whole row."""
        if found.op not in OPERATIONS:
            raise undecodable(self._topic, _NO_ROWS.get(found.op, f"{found.op!r} is no operation on a row"))
        if any(sign in data for sign in _SIGNS):
            raise undecodable(self._topic, _NOT_SENT)
        if found.after is None and found.before is None:
            raise undecodable(self._topic, "it has no row, neither before nor after")
        if self._is_unsure(found):
            raise undecodable(self._topic, _NOT_SURE)

    def _is_unsure(self, found: Any) -> bool:
        """Whether a null may stand for an array that was not sent; with REPLICA IDENTITY FULL, all are."""
        if found.op != "u" or found.before is not None or found.source.lsn is None:
            return False
        return any(getattr(found.after, name) is None for name in self._arrays)


class _Envelope:
    """What Debezium puts around a row, and the row within; `wide` also knows the rarer forms."""

    def __init__(self, columns: spark.StructType, *, wide: bool = False) -> None:
        self.before = Values(_kind(columns, "before"), wide=wide)
        self.after = Values(_kind(columns, "after"), wide=wide)
        struct = msgspec.defstruct(
            "Envelope",
            [
                ("op", str),
                ("source", _Source),
                ("before", self.before.wire | None, None),
                ("after", self.after.wire | None, None),
                ("transaction", _Transaction | None, None),
            ],
        )
        self.decode = msgspec.json.Decoder(struct).decode


def _kind(columns: spark.StructType, name: str) -> spark.StructType:
    found = columns[name].dataType
    assert isinstance(found, spark.StructType)  # noqa: S101 - Table made it so
    return found


def _said(source: _Source) -> str | None:
    """The database's own word for the place: a number in the WAL (0/1A2B), or a binlog's file and place."""
    if source.lsn is not None:
        return f"{source.lsn >> 32:X}/{source.lsn & 0xFFFFFFFF:X}"
    return None if source.file is None else f"{source.file}:{source.pos}"


def _place(said: str | None) -> Mapping[str, Any]:
    if said is None:
        return {}
    if "/" in said:
        high, _, low = said.partition("/")
        return {"lsn": (int(high, 16) << 32) + int(low, 16)}
    file, _, at = said.rpartition(":")
    return {"file": file, "pos": int(at)}


def _id(source: _Source, said: str) -> str:
    """PostgreSQL's transactions are told with a place in the WAL, another one for each change."""
    return said.partition(":")[0] if source.lsn is not None else said
