"""Steps: which steps of ours a pipeline's function meets, found by calling it once on no rows.

A pipeline that meets one runs on columnar state (run/columnar.py): its function is then called for every
batch. Spark's own operators with state would start anew in each of those calls, and count per batch without a
word. They are refused here, by name.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark_types

from headwater.app import Pipeline
from headwater.errors import BadPipeline, BadStep, HeadwaterError
from headwater.process.event_time import Refire
from headwater.process.stage import BATCH, PAST, SPOKE_IN, WINDOW, Step, on
from headwater.run.carried import CARRIED, RECORD_TYPE, schema_with_record
from headwater.run.catalyst import each, nodes
from headwater.run.decode import record_column
from headwater.run.lineage import Gate, marked, ours
from headwater.run.plan import applied, blamed

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,99}")
_WITH_STATE = {
    "Aggregate": "groupBy, or another aggregation",
    "Deduplicate": "dropDuplicates",
    "DeduplicateWithinWatermark": "dropDuplicatesWithinWatermark",
    "Distinct": "distinct",
    "Except": "a difference of sets",
    "Intersect": "an intersection of sets",
    "Window": "a window function",
    "Sort": "a sort",
    "GlobalLimit": "a limit",
    "Offset": "an offset",
    "FlatMapGroupsInPandas": "applyInPandas",
    "FlatMapGroupsInArrow": "applyInArrow",
    "FlatMapCoGroupsInPandas": "cogroup",
    "FlatMapCoGroupsInArrow": "cogroup",
    "FlatMapGroupsInPandasWithState": "applyInPandasWithState",
    "TransformWithState": "transformWithState",
    "TransformWithStateInPySpark": "transformWithState",
}
_BOTH_SIDES = {"Join": "a join of two streams"}
_SAID = "_headwater_step"


@dataclass(frozen=True)
class Met:
    """A step that was met: the name that its state stands under, and the rows that it gets."""

    name: str
    step: Step
    schema: spark_types.StructType
    says: spark_types.StructType

    @property
    def said_schema(self) -> spark_types.StructType:
        """The columns of what it says, and the batch in which it did."""
        spoke = spark_types.StructField(SPOKE_IN, spark_types.LongType())
        return spark_types.StructType([*self.says.fields, spoke])

    @property
    def state_schema(self) -> spark_types.StructType:
        """The columns of its state: those of its rows, and the batch that each came with."""
        return spark_types.StructType(
            [*self.schema.fields, spark_types.StructField(BATCH, spark_types.LongType())]
        )


@dataclass(frozen=True)
class Steps:
    """The steps of a pipeline by name, in the order in which its function meets them, and what it returns."""

    met: tuple[Met, ...]
    output: spark_types.StructType

    def of(self, name: str) -> Met:
        """One of them."""
        return next(one for one in self.met if one.name == name)


class Names:
    """Names for steps: their own, or by kind and place."""

    def __init__(self) -> None:
        self.given: list[str] = []

    def name(self, step: Step) -> str:
        """The name of the next step."""
        same = sum(one.startswith(f"{step.kind}-") for one in self.given)
        name = step.name or f"{step.kind}-{same + 1}"
        if not _NAME.fullmatch(name):
            raise BadStep(
                f"{name!r} cannot be the name of a step",
                hint="use small letters, digits, dash and underscore; it names a folder",
            )
        if name in self.given:
            raise BadStep(
                f"two steps of a function are called {name!r}",
                hint='their state stands under their names: name="…"',
            )
        self.given.append(name)
        return name


class _Recorder:
    """The stage on which steps are met: each says nothing, in the columns that it would have."""

    def __init__(self, spark: SparkSession) -> None:
        self.met: list[Met] = []
        self.inputs: list[DataFrame] = []
        self._spark, self._names = spark, Names()

    def play(self, step: Step, rows: DataFrame) -> DataFrame:
        name = self._names.name(step)
        nothing = said_nothing(step, rows)
        self.met.append(Met(name, step, rows.schema, nothing.schema))
        self.inputs.append(rows)
        return nothing


def said_nothing(step: Step, rows: DataFrame) -> DataFrame:
    """No rows, in the columns of a step's answer; they are known again as ours further up in the plan."""
    schema = step.answer(None, rows, PAST).schema
    hidden = [
        spark_types.StructField(CARRIED, RECORD_TYPE),
        spark_types.StructField(_SAID, spark_types.NullType()),
    ]
    nothing = rows.sparkSession.createDataFrame([], spark_types.StructType([*schema.fields, *hidden]))
    return nothing.drop(CARRIED, _SAID)


class Gatekeeper:
    """The stage on which a step says where its late rows are dropped: at the end of their windows."""

    def __init__(self) -> None:
        self.gates: list[Gate] = []

    def play(self, step: Step, rows: DataFrame) -> DataFrame:
        """Note the gate, and let no row pass."""
        plan = step.windows(rows)._jdf.queryExecution().analyzed()  # noqa: SLF001
        window = next(one for one in each(plan.output()) if one.name() == WINDOW)
        self.gates.append(Gate(plan, window))
        return said_nothing(step, rows)


def steps_of(pipeline: Pipeline, spark: SparkSession) -> Steps | None:
    """The steps of ours that a pipeline meets; None when there are none, and Spark alone runs it."""
    if pipeline.function is None or pipeline.watermark is None:  # a step needs both, and says so itself
        _refuse_refire(pipeline)
        return None
    recorder = _Recorder(spark)
    try:
        with on(recorder), blamed(pipeline):
            rows = applied(pipeline, spark, _empty(pipeline, spark))
    except HeadwaterError as error:
        if recorder.met or isinstance(error, BadStep):
            raise
        return None  # whatever it is, it is told when Spark makes the plan
    if not recorder.met:
        _refuse_refire(pipeline)
        return None
    _check(pipeline, recorder.met)
    for one in recorder.inputs:
        _refuse_said(pipeline, one)
    for one in (*recorder.inputs, rows):
        _refuse(pipeline, one)
    return Steps(tuple(recorder.met), rows.schema)


def _refuse_refire(pipeline: Pipeline) -> None:
    if isinstance(pipeline.late, Refire):
        raise BadPipeline(
            f"the windows of pipeline {pipeline.name!r} are Spark's own, and cannot fire again",
            hint="rows.transform(windowed, Tumbling(…), …) has windows that can; or write late=Grace(…)",
        )


def _empty(pipeline: Pipeline, spark: SparkSession) -> list[DataFrame]:
    found = []
    for source in pipeline.sources:
        rows = spark.createDataFrame([], schema_with_record(source.topic))
        if source.record:
            rows = rows.withColumn("_record", record_column())
        found.append(marked(rows.drop(CARRIED), source.topic.event_time or ""))
    return found


def _check(pipeline: Pipeline, met: list[Met]) -> None:
    if pipeline.latency == "real-time" or pipeline.output != "append":
        what = 'latency="real-time"' if pipeline.latency == "real-time" else f'output="{pipeline.output}"'
        raise BadPipeline(
            f"pipeline {pipeline.name!r} runs on columnar state, which has no {what}",
            hint="leave it out; what a step says, and when, is the step's own matter",
        )
    for one in met if isinstance(pipeline.late, Refire) else ():
        if not one.step.can_refire:
            raise BadPipeline(
                f"{one.name} of pipeline {pipeline.name!r} cannot speak again when late rows come",
                hint='late=Refire(…) is for windowed, of sessions with panes="retracting"; Grace(…) waits',
            )


def _refuse(pipeline: Pipeline, rows: DataFrame) -> None:
    for operator in _with_state(rows._jdf.queryExecution().analyzed()):  # noqa: SLF001
        raise BadPipeline(
            f"{operator} stands beside a step of ours in pipeline {pipeline.name!r}, "
            "and would begin anew in every batch",
            hint="let one pipeline do one of them, and another read what it writes",
        )


def _refuse_said(pipeline: Pipeline, rows: DataFrame) -> None:
    plan = rows._jdf.queryExecution().analyzed()  # noqa: SLF001
    if any(column.name() == _SAID for node in nodes(plan) for column in each(node.output())):
        raise BadPipeline(
            f"a step of ours reads what another one says in pipeline {pipeline.name!r}",
            hint="let one pipeline do one of them, and another read what it writes",
        )


def _with_state(plan: Any) -> Iterator[str]:
    for node in nodes(plan):
        name = node.nodeName()
        live = sum(any(ours(child)) for child in each(node.children()))
        if name in _WITH_STATE and live:
            yield _WITH_STATE[name]
        if name in _BOTH_SIDES and live > 1:
            yield _BOTH_SIDES[name]
