"""Keyed: how the rows of a copy are told apart, and which of two is newer.

Each change of a key has a position, and a copy keeps the one with the greatest: a write that is not newer
than what is there changes nothing. So it does not matter how often changes are written, in which order, or by
whom; a batch that is tried again and a whole log that is replayed both end in the same rows.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from headwater.errors import ColumnsMismatch, SpecError
from headwater.log.formats.changes import OPERATION, POSITION

KEPT_POSITION = "_position"
"""What a copy calls the position beside a row's own columns, where it needs a name."""

DELETED = "_headwater_deleted"
_VERSION = (
    "a table's changes have it after upserts; for other rows, name a column that grows with every change of "
    'a key: version="…"'
)
_KEYS = (
    *(spark.StringType, spark.IntegralType, spark.DecimalType, spark.BooleanType, spark.BinaryType),
    *(spark.DateType, spark.TimestampType, spark.TimestampNTZType),
)
_VALUES = (*_KEYS, spark.FloatType, spark.DoubleType, spark.DayTimeIntervalType)


Keys = Collection[tuple[Any, ...]]
"""Keys of rows, each with the values of its columns in the order of the sink's `key`."""

Row = dict[str, Any]
"""A row by its columns."""


@dataclass(frozen=True)
class Keyed:
    """How rows are told apart, by `keys`, and which of two is newer, by `version`."""

    keys: tuple[str, ...]
    version: str = POSITION

    @classmethod
    def of(cls, key: str | Sequence[str], version: str, sink: str) -> "Keyed":
        """The columns as a user names them."""
        keys = (key,) if isinstance(key, str) else tuple(key)
        if not keys or len(set(keys)) < len(keys) or version in keys:
            raise SpecError(
                f"the copy {sink!r} cannot be keyed by {', '.join(keys) or 'nothing'}",
                hint='name the columns of the key, each once, as in key="id"',
            )
        return cls(keys, version)

    def columns(self, rows: spark.StructType) -> spark.StructType:
        """The columns that a copy has: the rows' own, without those that say what happened to them."""
        return spark.StructType([one for one in rows.fields if one.name not in (OPERATION, POSITION)])

    def check(self, rows: spark.StructType, sink: str) -> None:
        """ColumnsMismatch for rows that cannot be kept by key."""
        if why := next(self._complaints(rows), None):
            said, hint = why
            raise ColumnsMismatch(
                f"the copy {sink!r} {said}", detail=f"rows: {rows.simpleString()}", hint=hint
            )

    def _complaints(self, rows: spark.StructType) -> Iterator[tuple[str, str]]:
        kinds = {one.name: one.dataType for one in rows.fields}
        if len(kinds) < len(rows.fields):
            yield "gets a column twice", "give each a name of its own: .alias(…)"
        if KEPT_POSITION in kinds:
            yield f"has a {KEPT_POSITION} of its own", "give the column another name: .alias(…)"
        for name in self.keys:
            if name not in kinds or name in (OPERATION, POSITION):
                yield f"is keyed by {name!r}, which is no column", ""
            elif not isinstance(kinds[name], _KEYS):
                yield f"is keyed by {name!r}, a {kinds[name].simpleString()}", "use a plain value as a key"
        if not isinstance(kinds.get(self.version), spark.IntegralType | spark.TimestampType):
            yield (
                f"has no {self.version!r}, a number or an instant that tells which row of a key is newer",
                _VERSION,
            )
        for name, kind in kinds.items():
            if not _is_kept(kind):
                yield f"cannot keep column {name!r}, a {kind.simpleString()}", "cast it to another type"

    def changes(self, rows: DataFrame) -> DataFrame:
        """The rows as a task needs them: the copy's columns, the position, and whether the key is gone."""
        names = self.columns(rows.schema).names
        gone = F.col(OPERATION) == "delete" if OPERATION in rows.columns else F.lit(False)
        return rows.select(
            *(F.col(f"`{one}`") for one in names),
            self._position(rows).alias(KEPT_POSITION),
            F.coalesce(gone, F.lit(False)).alias(DELETED),
        )

    def _position(self, rows: DataFrame) -> Column:
        version = F.col(f"`{self.version}`")
        is_instant = isinstance(rows.schema[self.version].dataType, spark.TimestampType)
        return F.unix_micros(version) if is_instant else version.cast("long")


def _is_kept(kind: spark.DataType) -> bool:
    match kind:
        case spark.StructType():
            return all(_is_kept(one.dataType) for one in kind.fields)
        case spark.ArrayType():
            return _is_kept(kind.elementType)
        case spark.MapType():
            return isinstance(kind.keyType, _KEYS) and _is_kept(kind.valueType)
    return isinstance(kind, _VALUES)
