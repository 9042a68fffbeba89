"""History: what a query's checkpoint says of its batches, on whatever file system that is.

Spark writes a batch's plan before it runs it: where it ends in every topic, and the watermark that it runs
under. The newest hundred are kept.
"""

import json
from dataclasses import dataclass
from typing import Any, Protocol

from pyspark.sql import SparkSession

from headwater.run.progress import Offsets
from headwater.run.ticks import are_ticks

_VERSION = "v1"


@dataclass(frozen=True)
class Planned:
    """A batch as it was planned: its end in each topic, and the watermark (milliseconds since 1970)."""

    ends: Offsets
    watermark: int
    has_ticks: bool = False


class Batches(Protocol):
    """What is known of a query's batches."""

    def batch(self, number: int) -> Planned | None:
        """A batch; None when there is none, or when it was forgotten."""


class History:
    """The batches of one query."""

    def __init__(self, checkpoint: str, spark: SparkSession) -> None:
        jvm: Any = spark._jvm  # noqa: SLF001 - Hadoop's file systems are Java's
        self._jvm = jvm
        self._root = jvm.org.apache.hadoop.fs.Path(checkpoint)
        configuration = spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
        self._files = self._root.getFileSystem(configuration)

    @property
    def exists(self) -> bool:
        """Whether the query has ever run."""
        return bool(self._files.exists(self._place("metadata")))

    def forget(self) -> None:
        """Remove the checkpoint."""
        self._files.delete(self._root, True)

    @property
    def newest(self) -> int | None:
        """The number of the last batch that is whole."""
        if not self._files.exists(self._place("commits")):
            return None
        names = [str(one.getPath().getName()) for one in self._files.listStatus(self._place("commits"))]
        return max((int(one) for one in names if one.isdigit()), default=None)

    def batch(self, number: int) -> Planned | None:
        """A batch; None when there is none, or when it was forgotten."""
        place = self._place(f"offsets/{number}")
        if number < 0 or not self._files.exists(place):
            return None
        stream = self._files.open(place)
        try:
            return read(str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")))
        finally:
            stream.close()

    def _place(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, name)


def read(text: str) -> Planned:
    """A file of Spark's offset log."""
    version, metadata, *sources = text.splitlines()
    if version != _VERSION:
        raise ValueError(f"an offset log of version {version}")
    ends: dict[str, dict[int, int]] = {}
    for source in sources:
        for topic, places in json.loads(source).items() if source != "-" else ():
            ends[topic] = {int(partition): offset for partition, offset in places.items()}
    has_ticks = any(are_ticks(topic) for topic in ends)
    watermark = int(json.loads(metadata)["batchWatermarkMs"])
    return Planned({topic: at for topic, at in ends.items() if not are_ticks(topic)}, watermark, has_ticks)
