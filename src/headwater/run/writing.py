"""Writing: rows into a folder of a step's state, and what was seen of them on the way.

One job writes the rows and counts them; nothing is read again to know what a folder holds.
"""

from typing import NamedTuple
from uuid import uuid4

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from headwater.process.stage import BATCH, BEGINNING, Step
from headwater.run.manifest import LARGE, Folder
from headwater.run.shelf import Shelf

_FORM = {"compression": "lz4", "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false"}


class Written(NamedTuple):
    """A folder, if it has rows, and how many rows have missed a window."""

    folder: Folder | None
    late: int


def written(step: Step, rows: DataFrame, number: int, passed: int, name: str, shelf: Shelf) -> Written:
    """Write the rows of a batch that are not behind the watermark, and count those that missed a window."""
    behind = F.lit((passed or BEGINNING) * 1000)
    found = rows.where(step.time().isNotNull()).withColumn(BATCH, F.lit(number).cast("bigint"))
    is_kept, is_late = step.closes() > behind, step.closes_first() <= behind
    return _written(found, step.time(), is_kept, name, shelf, late=is_late)


def merged(
    rows: DataFrame, time: Column, size: int, least: int | None, name: str, shelf: Shelf
) -> Folder | None:
    """Write so many rows of several folders into one, without those that cannot matter any more."""
    matters = F.lit(True) if least is None else time > least
    return _written(rows.coalesce(1 + size // LARGE), time, matters, name, shelf).folder


def spoken(answer: DataFrame, name: str, shelf: Shelf) -> Folder | None:
    """Write what a step has said; how long it is remembered hangs on its windows' ends."""
    return _written(answer, F.unix_micros("window.end"), F.lit(True), name, shelf).folder


def _written(
    rows: DataFrame, time: Column, kept: Column, name: str, shelf: Shelf, *, late: Column | None = None
) -> Written:
    seen, at = Observation(f"state-{uuid4().hex}"), F.when(kept, time)
    missing = F.count_if(F.lit(False) if late is None else late)
    counts = {"kept": F.count_if(kept), "late": missing, "oldest": F.min(at), "newest": F.max(at)}
    watched = rows.observe(seen, *(value.alias(one) for one, value in counts.items())).where(kept)
    watched.write.mode("overwrite").options(**_FORM).parquet(shelf.place(name))
    told = seen.get
    if not told["kept"]:
        shelf.remove(name)
        return Written(None, told["late"])
    folder = Folder(name, told["kept"], shelf.bytes_of(name), told["oldest"], told["newest"])
    return Written(folder, told["late"])
