"""Lateness: which records of a rehearsed batch were late, found as production finds them."""

from collections.abc import Mapping

from pyspark.sql import SparkSession

from headwater.app import Pipeline
from headwater.errors import BadPipeline, BadRehearsal
from headwater.log.late_letter import LateLetter
from headwater.run.late import LateRows, Stretch
from headwater.run.witness import Told
from headwater.settings import Settings

_ALL = (0, 2**62)


class Lateness:
    """The late records of one pipeline; one that diverts is refused if they could not be told."""

    def __init__(self, pipeline: Pipeline, spark: SparkSession, settings: Settings, *, diverts: bool) -> None:
        self._pipeline, self._given = pipeline, (pipeline.name, pipeline, spark, settings)
        self._partitions = {one.topic.name: range(one.topic.partitions) for one in pipeline.sources}
        self._rows = LateRows(*self._given) if diverts else None

    def find(self, told: Mapping[str, Told], watermark: int) -> list[LateLetter]:
        """Those of a batch of which the workers told, when it dropped what was behind that watermark."""
        if not any(one.behind for one in told.values()):
            return []
        self._rows = self._rows or self._opened()
        ranges = {topic: dict.fromkeys(self._partitions[topic], _ALL) for topic in told}
        return list(self._rows.find(Stretch(ranges, watermark, told)))

    def _opened(self) -> LateRows:
        try:
            return LateRows(*self._given)
        except BadPipeline as error:
            raise BadRehearsal(
                f"pipeline {self._pipeline.name!r} may have dropped rows, and nobody can tell which",
                detail=error.message,
                hint="rehearse it without rows behind the watermark, or move that step behind the window",
            ) from error
