"""Table: a captured table as a frozen spec, and the topic of its changes.

The change stream has one general form, whatever the database: `key`, `before` and `after` as structs,
`operation` (read, insert, update, delete; a read is a row of a snapshot), `position` (the place in the log,
which grows with every change of a key), `source_position` (the database's own word for it), `committed_at`
and `transaction` (its id, and the change's place in it). `upserts` makes of it what a sink keeps: the table's
own columns, `operation` and `position`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from headwater.capture.database import Database
from headwater.errors import SpecError
from headwater.log.formats.change_values import check_columns
from headwater.log.formats.changes import OPERATION, POSITION
from headwater.log.schema import parse_schema
from headwater.log.topic import Topic

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\.[A-Za-z_][A-Za-z0-9_]*")
_AROUND = (
    f"{OPERATION} string NOT NULL, {POSITION} long, source_position string, committed_at timestamp NOT NULL, "
    "transaction struct<id: string, place: long>"
)
TAKEN = (OPERATION, POSITION)
"""Names that `upserts` adds to a table's own columns."""


@dataclass(frozen=True)
class Table:
    """A table of a database: `schema.table` in PostgreSQL, `database.table` in MariaDB.

    `schema` names the columns that pipelines use, in Spark's types; others are passed over. `key` is the
    table's primary key, or a unique one: a column or several. `partitions` are those of the topic of its
    changes; every change of a key stands in the same one, in the order of the commits.
    """

    database: Database
    name: str
    schema: str = field(kw_only=True)
    key: str | Sequence[str] = field(kw_only=True)
    partitions: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.key, str):
            object.__setattr__(self, "key", tuple(self.key))
        if not _NAME.fullmatch(self.name):
            raise SpecError(
                f"{self.name!r} cannot be the name of a table",
                hint='name it with its schema, as in Table(SHOP, "public.orders", …)',
            )
        self._check_key()
        for name in TAKEN:
            if name in self.columns.names:
                raise SpecError(f"table {self.name!r} has a column {name!r}, a name that is taken")
        check_columns(self.columns, self.name)
        _ = self.changes

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns of its key."""
        return (self.key,) if isinstance(self.key, str) else tuple(self.key)

    @cached_property
    def columns(self) -> spark.StructType:
        """Its columns as Spark sees them."""
        return parse_schema(self.schema)

    @cached_property
    def changes(self) -> Topic:
        """The topic of its changes: compacted, so that it always holds the newest row of every key."""
        every, keys = self.columns.fields, [self.columns[one] for one in self.keys]
        before, after = _struct(every), _struct(every, strict=True)
        return Topic(
            f"{self.database.name}.{self.name}",
            schema=f"key {_struct(keys)} NOT NULL, before {before}, after {after}, {_AROUND}",
            event_time="committed_at",
            partitions=self.partitions,
            compacted=True,
            format="changes",
        )

    def _check_key(self) -> None:
        if not self.keys:
            raise SpecError(
                f"table {self.name!r} has no key",
                hint="changes of a row without a key cannot be told apart: name its primary key",
            )
        for one in self.keys:
            if one not in self.columns.names:
                raise SpecError(
                    f"key {one!r} is not a column of table {self.name!r}",
                    hint=f"its columns: {', '.join(self.columns.names)}",
                )


def upserts(changes: DataFrame) -> DataFrame:
    """A table's changes as the rows that a sink keeps by key; one whose operation is delete goes."""
    row = F.coalesce("after", "before")
    return changes.select(row.alias("row"), OPERATION, POSITION).select("row.*", OPERATION, POSITION)


def _struct(columns: Sequence[spark.StructField], *, strict: bool = False) -> str:
    """The DDL of a struct; `before` may lack what NOT NULL demands, for a delete can tell the key alone."""
    told = [
        f"`{one.name}`: {one.dataType.simpleString()}{' NOT NULL' * (strict and not one.nullable)}"
        for one in columns
    ]
    return f"struct<{', '.join(told)}>"
