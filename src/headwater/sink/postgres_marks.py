"""Marks: which slices of which batch a copy has, in a table beside it that readers may look at, too.

A slice is named by the data (see `slices`): a partition of a topic up to an offset. So the marks also tell
how far a copy is, as of the very transaction in which it came there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from headwater.sink.contract import Batch
from headwater.sink.postgres_table import quoted
from headwater.sink.slices import Slice, found_in

_TABLE = "{}.headwater_slices"
_DDL = f"""
CREATE TABLE IF NOT EXISTS {_TABLE} (
  copy text, pipeline text, topic text, part integer, ends bigint NOT NULL, query text NOT NULL,
  batch bigint NOT NULL, written_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (copy, pipeline, topic, part))
"""
_IS_SET = f"""
SELECT 1 FROM {_TABLE} WHERE copy = %(copy)s AND pipeline = %(pipeline)s AND topic = %(topic)s
AND part = %(part)s AND query = %(query)s AND batch = %(batch)s
"""
_SET = f"""
INSERT INTO {_TABLE} VALUES
(%(copy)s, %(pipeline)s, %(topic)s, %(part)s, %(ends)s, %(query)s, %(batch)s, now())
ON CONFLICT (copy, pipeline, topic, part) DO UPDATE SET ends = EXCLUDED.ends, query = EXCLUDED.query,
batch = EXCLUDED.batch, written_at = EXCLUDED.written_at
"""


@dataclass(frozen=True)
class Mark:
    """That one slice of a batch is written."""

    schema: str
    row: dict[str, Any]

    def is_set(self, connection: Any) -> bool:
        """Whether it is."""
        return connection.execute(_in(self.schema, _IS_SET), self.row).fetchone() is not None

    def set(self, connection: Any) -> None:
        """Say so, in the transaction that wrote it."""
        connection.execute(_in(self.schema, _SET), self.row)


@dataclass(frozen=True)
class Marks:
    """The marks of a batch; it has none when its rows do not keep to slices of their own."""

    copy: str
    pipeline: str
    query: str
    batch: int
    slices: Sequence[Slice]

    @classmethod
    def of_batch(cls, copy: str, rows: DataFrame, batch: Batch) -> "Marks":
        """Found in the rows of a batch."""
        found = found_in(rows, batch.number)
        return cls(copy, batch.pipeline, batch.query, batch.number, found.slices if found else ())

    @property
    def schema(self) -> str:
        """The schema in which they stand: the copy's."""
        return self.copy.partition(".")[0]

    @property
    def ddl(self) -> str:
        """The SQL that makes their table."""
        return _in(self.schema, _DDL)

    def of(self, partition: int) -> Mark | None:
        """The mark of one task's slice."""
        if not self.slices:
            return None
        topic, part, ends = self.slices[partition]
        batch = {"copy": self.copy, "pipeline": self.pipeline, "query": self.query, "batch": self.batch}
        return Mark(self.schema, batch | {"topic": topic, "part": part, "ends": ends})


def _in(schema: str, sql: str) -> str:
    return sql.format(quoted(schema))
