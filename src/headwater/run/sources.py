"""Sources: several topics as one stream, and each as a table again.

A pipeline on columnar state is one streaming query, so that all its topics make one batch. Where there are
several, each row is a struct beside the empty structs of the others.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater.app import Pipeline
from headwater.log.topic import Topic
from headwater.run.lineage import marked
from headwater.run.plan import decoded, records_of
from headwater.run.progress import Offsets
from headwater.run.steps import Steps
from headwater.run.witness import Watch
from headwater.settings import Settings


def as_one(pipeline: Pipeline, tables: list[DataFrame]) -> DataFrame:
    """The topics' rows as one DataFrame."""
    if len(tables) == 1:
        return tables[0]
    names = [one.table for one in pipeline.sources]
    parts = [
        rows.select(
            *(
                (F.struct("*") if one == name else F.lit(None).cast(other.schema)).alias(one)
                for one, other in zip(names, tables, strict=True)
            )
        )
        for name, rows in zip(names, tables, strict=True)
    ]
    return reduce(DataFrame.unionAll, parts)


def tables_of(pipeline: Pipeline, rows: DataFrame) -> list[DataFrame]:
    """Each topic's rows among those of a batch, with the mark on its event time."""
    if len(pipeline.sources) == 1:
        return [marked(rows, pipeline.sources[0].topic.event_time or "")]
    found = []
    for one in pipeline.sources:
        mine = rows.where(F.col(one.table).isNotNull()).select(f"{one.table}.*")
        found.append(marked(mine, one.topic.event_time or ""))
    return found


def rows_for_steps(
    steps: Steps,
    pipeline: Pipeline,
    spark: SparkSession,
    settings: Settings,
    kafka: Mapping[str, str],
    starts: Offsets,
    *,
    watch: Callable[[Topic], Watch] | None = None,
    ticks: str | None = None,
) -> DataFrame:
    """The streaming DataFrame of a pipeline with steps of ours: its topics, decoded, as one."""
    raws = records_of(pipeline, spark, kafka, starts, ticks=ticks)
    return rows_for_steps_from(steps, pipeline, settings, raws, watch=watch)


def rows_for_steps_from(
    steps: Steps,
    pipeline: Pipeline,
    settings: Settings,
    raws: Sequence[DataFrame],
    *,
    watch: Callable[[Topic], Watch] | None = None,
) -> DataFrame:
    """The same, of records from anywhere that have the columns of Spark's Kafka source."""
    for sink in pipeline.sinks:
        sink.check(steps.output)
    return as_one(pipeline, decoded(pipeline, settings, raws, watch=watch))
