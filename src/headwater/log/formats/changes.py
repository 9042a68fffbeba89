"""Changes: Debezium's envelope, read into the one general form that a captured table has.

It is JSON as our connectors write it: decimals and instants as text, so that nothing is rounded on the way.
Nothing is guessed: a value that the database did not send (it lies out of line and did not change), or an
event that is no change of a row, is undecodable, with the reason. The column `position` is the record's place
in the log, which its bytes do not tell: pipelines fill it in.
"""

import base64
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

import msgspec
from pyspark.sql import types as spark

from headwater.clock import EPOCH
from headwater.errors import SpecError
from headwater.log.formats.codec import Row, fitting, undecodable
from headwater.log.schema import python_type
from headwater.log.topic import Topic

OPERATION, POSITION = "operation", "position"
NOT_SENT = "headwater:not-sent"
"""What the connector writes for a value that the database did not send."""

OPERATIONS = {"r": "read", "c": "insert", "u": "update", "d": "delete"}
_LETTERS = {name: letter for letter, name in OPERATIONS.items()}
_NO_ROWS = {
    "t": "the table was truncated, which no row tells: rebuild its copies",
    "m": "it is a message of the database's own, and no change of a row",
}
_SIGNS = (NOT_SENT.encode(), base64.b64encode(NOT_SENT.encode()))
_NOT_SENT = (
    "a value that did not change lies out of line, and the database did not send it: "
    "ALTER TABLE … REPLICA IDENTITY FULL lets it"
)
_MICROSECOND = timedelta(microseconds=1)
Turn = Callable[[Any], Any]
"""From a value as the envelope has it to one of the row, or back; it is never given null."""


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
        self._before, self._after = _Struct(_kind(columns, "before")), _Struct(_kind(columns, "after"))
        self._transaction = python_type(columns["transaction"].dataType)
        envelope = msgspec.defstruct(
            "Envelope",
            [
                ("op", str),
                ("source", _Source),
                ("before", self._before.wire | None, None),
                ("after", self._after.wire | None, None),
                ("transaction", _Transaction | None, None),
            ],
        )
        self._decode = msgspec.json.Decoder(envelope).decode

    def decode(self, data: bytes) -> Row:
        """The change in these bytes."""
        try:
            found: Any = self._decode(data)
            return self._change(found, data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError, OverflowError) as error:
            raise undecodable(self._topic, str(error)) from error

    def encode(self, value: object) -> bytes:
        """The envelope of a change, as a connector would have written it."""
        row: Any = self._fit(value)
        at = (row.committed_at - EPOCH) // _MICROSECOND
        told = row.transaction and {"id": row.transaction.id, "total_order": row.transaction.place}
        return msgspec.json.encode(
            {
                "before": row.before and self._before.told(row.before),
                "after": row.after and self._after.told(row.after),
                "source": {"ts_us": at, **_place(row.source_position)},
                "transaction": told,
                "op": _LETTERS.get(row.operation, row.operation),
            }
        )

    def _change(self, found: Any, data: bytes) -> Row:
        if found.op not in OPERATIONS:
            raise undecodable(self._topic, _NO_ROWS.get(found.op, f"{found.op!r} is no operation on a row"))
        if _SIGNS[0] in data or _SIGNS[1] in data:
            raise undecodable(self._topic, _NOT_SENT)
        if found.after is None and found.before is None:
            raise undecodable(self._topic, "it has no row, neither before nor after")
        source, within = found.source, found.transaction
        before = None if found.before is None else self._before.of(found.before)
        after = None if found.after is None else self._after.of(found.after)
        row = before if after is None else after
        return self._row(
            key=self._key(**{name: getattr(row, name) for name in self._keys}),
            before=before,
            after=after,
            operation=OPERATIONS[found.op],
            source_position=_said(source),
            committed_at=EPOCH + source.ts_us * _MICROSECOND,
            transaction=within and self._transaction(id=_id(source, within.id), place=within.total_order),
        )


class _Struct:
    """A struct of the row and the one that the envelope has in its place."""

    def __init__(self, kind: spark.StructType) -> None:
        self._row: Any = python_type(kind)
        self._turns = [(one.name, _read(one.dataType)) for one in kind.fields]
        self._writes = [(one.name, _write(one.dataType)) for one in kind.fields]
        self._is_same = not any(turn for _, turn in self._turns)
        fields = [_field(one) for one in kind.fields]
        self.wire: Any = self._row if self._is_same else msgspec.defstruct("Wire", fields, kw_only=True)

    def of(self, wire: Any) -> Any:
        """The row's struct."""
        if self._is_same:
            return wire
        return self._row(**{name: _turned(turn, getattr(wire, name)) for name, turn in self._turns})

    def told(self, row: Any) -> dict[str, Any]:
        """The envelope's struct."""
        return {name: _turned(turn, getattr(row, name)) for name, turn in self._writes}


def check_columns(kind: spark.StructType, table: str) -> None:
    """SpecError for types that no column of a database arrives in."""
    for one in kind.fields:
        inner = one.dataType.elementType if isinstance(one.dataType, spark.ArrayType) else one.dataType
        if isinstance(inner, spark.StructType | spark.MapType | spark.ArrayType):
            raise SpecError(
                f"column {one.name!r} of table {table!r} cannot be {one.dataType.simpleString()}",
                hint="JSON arrives as text: declare it as string, and open it with F.from_json",
            )


def _kind(columns: spark.StructType, name: str) -> spark.StructType:
    found = columns[name].dataType
    assert isinstance(found, spark.StructType)  # noqa: S101 - Table made it so
    return found


def _field(column: spark.StructField) -> tuple[str, Any] | tuple[str, Any, Any]:
    kind = _wire(column.dataType)
    return (column.name, kind | None, None) if column.nullable else (column.name, kind)


def _wire(kind: spark.DataType) -> Any:
    match kind:
        case spark.DateType():
            return str
        case spark.TimestampNTZType():
            return datetime
        case spark.ArrayType():
            return list[_wire(kind.elementType) | None]  # type: ignore[misc]
    return python_type(kind)


def _read(kind: spark.DataType) -> Turn | None:
    """Dates end in a Z, and so do instants of a clock without a zone."""
    match kind:
        case spark.DateType():
            return lambda text: date.fromisoformat(text.removesuffix("Z"))
        case spark.TimestampNTZType():
            return lambda moment: moment.replace(tzinfo=None)
        case spark.ArrayType():
            return _each(_read(kind.elementType))
    return None


def _write(kind: spark.DataType) -> Turn | None:
    match kind:
        case spark.DateType():
            return lambda day: f"{day.isoformat()}Z"
        case spark.TimestampNTZType():
            return lambda moment: moment.replace(tzinfo=UTC)
        case spark.ArrayType():
            return _each(_write(kind.elementType))
    return None


def _each(turn: Turn | None) -> Turn | None:
    if turn is None:
        return None
    return lambda values: [_turned(turn, one) for one in values]


def _turned(turn: Turn | None, value: Any) -> Any:
    return value if turn is None or value is None else turn(value)


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
