"""The sink contract: write this batch, by this number; writing it twice leaves one.

A sink is a frozen spec with a name, an honest guarantee and two methods. `check` sees the columns of
the function's answer before anything runs and refuses what could never be written. `write` gets the
rows of one batch and the batch's identity: when a batch is tried again (after a crash, on another
machine), the number is the same and so are the rows, though not their order or their partitions.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from headwater.settings import Settings
from headwater.sink.keyed import Keyed, Keys, Row

Guarantee = Literal["at-most-once", "at-least-once", "exactly-once"]
REBUILD = "-rebuild"
"""What the name of a pipeline ends with while it builds copies anew."""

GUARANTEES: tuple[Guarantee, ...] = ("at-most-once", "at-least-once", "exactly-once")


@dataclass(frozen=True)
class Batch:
    """Which batch of which pipeline (`app.pipeline`): the same when it is tried again.

    Numbers count from 0 within one checkpoint, and `query` is that checkpoint's own id: what an older
    checkpoint of the same pipeline wrote under a number is another batch.
    """

    pipeline: str
    number: int
    query: str
    settings: Settings = field(repr=False)


@runtime_checkable
class Sink(Protocol):
    """An output of a pipeline."""

    @property
    def name(self) -> str:
        """What tells this output from the pipeline's others of its kind, the same for ever."""

    @property
    def guarantee(self) -> Guarantee:
        """How often a row arrives when batches are tried again."""

    def check(self, columns: StructType) -> None:
        """Refuse columns that cannot be written, before anything runs."""

    def write(self, rows: DataFrame, batch: Batch) -> int | None:
        """Write one batch; when it was written before under the same number, leave it as it is.

        An output that refuses single rows for good makes dead letters of them and tells how many.
        """


class Beside(Protocol):
    """A copy that is built beside the one that readers find, to take its place."""

    @property
    def sink(self) -> Sink:
        """What writes it."""

    @property
    def is_begun(self) -> bool:
        """Whether any of it is there."""

    def switch(self, columns: StructType) -> None:
        """Let readers find it, whole, in the place of the other; done twice, it is done once."""

    def drop(self) -> None:
        """Remove it, and what switches have left of older copies."""


@runtime_checkable
class KeyedSink(Sink, Protocol):
    """An output that keeps the newest row of every key, can be read, and can be built anew."""

    @property
    def keyed(self) -> Keyed:
        """How its rows are told apart."""

    def read(self, columns: StructType, settings: Settings, keys: Keys | None = None) -> Iterator[Row]:
        """The rows that it keeps, or those of some keys; the same row may come twice while it changes."""

    def beside(self, settings: Settings) -> Beside:
        """The copy that a rebuild makes."""
