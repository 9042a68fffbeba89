"""Shelf: where columnar state stands, beside the checkpoint, on whatever file system Hadoop knows.

    columnar/manifests/<batch>.json              written once: of two drivers, the first decides
    columnar/steps/<step>/<batch>-<try>/         Parquet, rows that were written together

A try writes into a folder of its own, so that two drivers cannot spoil each other's, and a folder counts
when a manifest names it. A manifest is written as Spark writes its own offset log: whole or not at all, never
twice.
"""

from collections.abc import Iterable
from typing import Any
from uuid import uuid4

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark_types

from headwater.run.manifest import Folder, Manifest

KEPT = 100
"""Manifests that are kept, as many as Spark keeps of its own batches; folders stay for the last two."""

_EXISTS = "FileAlreadyExistsException"


class Shelf:
    """The columnar state of one pipeline, under its checkpoint."""

    def __init__(self, checkpoint: str, spark: SparkSession) -> None:
        jvm: Any = spark._jvm  # noqa: SLF001 - Hadoop's file systems are Java's
        self._jvm, self._spark = jvm, spark
        self._root = f"{checkpoint}/columnar"
        configuration = spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
        self._files = self._path("").getFileSystem(configuration)
        manager = jvm.org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
        self._manager = manager.create(self._path("manifests"), configuration)
        self._manager.mkdirs(self._path("manifests"))

    @property
    def newest(self) -> int | None:
        """The last batch that was decided."""
        return max(self._manifests(), default=None)

    def manifest(self, batch: int) -> Manifest | None:
        """What was decided of a batch; None when nothing was, or when it was forgotten."""
        place = self._path(f"manifests/{batch}.json")
        if batch < 0 or not self._files.exists(place):
            return None
        stream = self._files.open(place)
        try:
            return Manifest.read(str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")))
        finally:
            stream.close()

    def decide(self, manifest: Manifest) -> Manifest:
        """Write a manifest down; if another driver was first, what that one decided."""
        place = self._path(f"manifests/{manifest.batch}.json")
        try:
            stream = self._manager.createAtomic(place, False)
            stream.write(bytearray(manifest.written()))
            stream.close()
        except Py4JJavaError as error:
            found = self.manifest(manifest.batch) if _EXISTS in str(error.java_exception) else None
            if found is None:
                raise
            return found
        return manifest

    def name(self, step: str, batch: int) -> str:
        """A folder of a step that nobody else writes."""
        return f"steps/{step}/{batch}-{uuid4().hex[:8]}"

    def place(self, name: str) -> str:
        """Where a folder is."""
        return f"{self._root}/{name}"

    def bytes_of(self, name: str) -> int:
        """How large a folder is."""
        return int(self._files.getContentSummary(self._path(name)).getLength())

    def read(self, folders: tuple[Folder, ...], schema: spark_types.StructType) -> DataFrame:
        """The rows of some folders; columns that an older folder lacks are null."""
        if not folders:
            return self._spark.createDataFrame([], schema)
        return self._spark.read.schema(schema).parquet(*(self.place(one.name) for one in folders))

    def remove(self, name: str) -> None:
        """Remove a folder."""
        self._files.delete(self._path(name), True)

    def sweep(self, newest: Manifest, before: Manifest | None, said: Iterable[Folder]) -> None:
        """Remove what no batch reads any more: neither the newest one nor the one before it."""
        alive = {one.name for manifest in (newest, before) if manifest for one in manifest.folders}
        alive |= {one.name for one in said}  # the next manifest will name it
        for step in self._names("steps"):
            for one in self._names(f"steps/{step}"):
                name = f"steps/{step}/{one}"
                if name not in alive and int(one.partition("-")[0]) <= newest.batch:
                    self.remove(name)
        for batch in self._manifests():
            if batch <= newest.batch - KEPT:
                self.remove(f"manifests/{batch}.json")

    def _manifests(self) -> list[int]:
        names = (one.partition(".") for one in self._names("manifests"))
        return [int(name) for name, _, kind in names if kind == "json" and name.isdigit()]

    def _names(self, folder: str) -> list[str]:
        place = self._path(folder)
        if not self._files.exists(place):
            return []
        return [str(one.getPath().getName()) for one in self._files.listStatus(place)]

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._root}/{name}" if name else self._root)
