"""Writing: rows into a folder of a step's state, and what was seen of them on the way.

One job writes the rows and counts them; nothing is read again to know what a folder holds.
"""

from typing import NamedTuple
from uuid import uuid4

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from headwater.process.stage import BATCH, BEGINNING, Step
from headwater.run.manifest import Folder
from headwater.run.shelf import Shelf


class Written(NamedTuple):
    """A batch's folder, if it has rows, and how many rows of the batch were late."""

    folder: Folder | None
    late: int


def written(step: Step, rows: DataFrame, number: int, watermark: int, name: str, shelf: Shelf) -> Written:
    """Write the rows of a batch that are not behind the watermark; count the others."""
    is_open = step.closes() > (watermark * 1000 if watermark else BEGINNING * 1000)
    found = rows.where(step.time().isNotNull())
    return _written(step, found, is_open, name, shelf, batch=number)


def merged(step: Step, rows: DataFrame, least: int | None, name: str, shelf: Shelf) -> Folder | None:
    """Write rows of several folders into one, without those that cannot matter any more."""
    matters = F.lit(True) if least is None else step.time() > least
    return _written(step, rows.coalesce(1), matters, name, shelf).folder


def _written(
    step: Step, rows: DataFrame, kept: Column, name: str, shelf: Shelf, *, batch: int | None = None
) -> Written:
    seen = Observation(f"state-{uuid4().hex}")
    time = F.when(kept, step.time())
    counts = {
        "kept": F.count_if(kept),
        "all": F.count(F.lit(1)),
        "oldest": F.min(time),
        "newest": F.max(time),
    }
    watched = rows.observe(seen, *(value.alias(one) for one, value in counts.items())).where(kept)
    if batch is not None:
        watched = watched.withColumn(BATCH, F.lit(batch).cast("bigint"))
    watched.write.mode("overwrite").parquet(shelf.place(name), compression="lz4")
    told = seen.get
    if not told["kept"]:
        shelf.remove(name)
        return Written(None, told["all"])
    folder = Folder(name, told["kept"], shelf.bytes_of(name), told["oldest"], told["newest"])
    return Written(folder, told["all"] - told["kept"])
