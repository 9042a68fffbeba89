"""Calls: side effects, one for each row, with a key that tells a repetition from a new call.

A service cannot take part in our transaction, so a batch that is tried again calls again: at least
once, honestly. What makes it once is the other side: it gets an idempotency key that is the same at
every try, and does nothing for a key that it knows. The key is made from the data: from the columns
named in `by`, or else from the batch, the row's content and its number among equal rows.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headwater.errors import CallFailed, ColumnsMismatch, HeadwaterError
from headwater.sink.contract import Batch, Guarantee
from headwater.sink.failures import as_raised_in_tasks

Call = Callable[[Row, str], object]
_CONTENT = "_headwater_content"


@dataclass(frozen=True)
class Calls:
    """A function that is called with each row and its idempotency key, on the executors."""

    function: Call
    name: str = field(kw_only=True)
    by: tuple[str, ...] = field(default=(), kw_only=True)

    guarantee: Final[Guarantee] = field(default="at-least-once", init=False)

    def __post_init__(self) -> None:
        given = (self.by,) if isinstance(self.by, str) else self.by
        object.__setattr__(self, "by", tuple(given))

    def check(self, columns: StructType) -> None:
        """Refuse rows that lack a column of the key."""
        for one in self.by:
            if one not in columns.names:
                raise ColumnsMismatch(
                    f"the calls {self.name!r} are keyed by {one!r}, which is no column",
                    detail=f"rows: {columns.simpleString()}",
                )

    def write(self, rows: DataFrame, batch: Batch) -> None:
        """Call the function for every row; its first error fails the batch."""
        if self.by:
            root = f"{batch.pipeline}.to.{self.name}"
            told = rows.withColumn(_CONTENT, _content(self.by))
        else:
            root = f"{batch.pipeline}.to.{self.name}/{batch.query}/{batch.number}"
            content = rows.withColumn(_CONTENT, _content(tuple(rows.columns)))
            told = content.repartition(_CONTENT)  # equal rows must meet to be counted
        with as_raised_in_tasks():
            told.foreachPartition(partial(_call_all, self.function, self.name, root, not self.by))


def _content(columns: tuple[str, ...]) -> Column:
    """What a row says, as text: the same for equal rows, whatever their types."""
    named = F.struct(*(F.col(f"`{one}`") for one in columns))
    return F.to_json(named, {"ignoreNullFields": "false", "timeZone": "UTC"})


def _call_all(function: Call, name: str, root: str, is_counted: bool, rows: Iterable[Row]) -> None:
    seen: Counter[bytes] = Counter()
    for row in rows:
        content = hashlib.sha256(row[_CONTENT].encode()).digest()
        key = idempotency_key(root, content, seen[content])
        seen[content] += is_counted
        try:
            function(_without_content(row), key)
        except HeadwaterError:
            raise
        except Exception as error:
            raise CallFailed(
                f"a call of {name!r} failed: {type(error).__name__}: {error}", hint="the batch is tried again"
            ) from error


def idempotency_key(root: str, content: bytes, ordinal: int) -> str:
    """The key of one call: 32 hexadecimal digits."""
    return hashlib.sha256(b"\0".join([root.encode(), content, str(ordinal).encode()])).hexdigest()[:32]


def _without_content(row: Row) -> Row:
    names: list[Any] = [one for one in row.__fields__ if one != _CONTENT]
    return Row(*names)(*(row[one] for one in names))
