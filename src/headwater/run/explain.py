"""Explain: what will run, before it runs.

The operators with state, the guarantee of each output and why, and whether the pipeline could run in
real time. Nothing is started and no broker is asked: Spark only analyses the plan.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headwater.app import Pipeline
from headwater.errors import BadPipeline
from headwater.process.event_time import NONE, Adaptive, Divert, Punctuated, Refire
from headwater.run.catalyst import each, nodes
from headwater.run.plan import blamed, rows_of
from headwater.run.realtime import Refusal, refusals, refused
from headwater.run.sources import rows_for_steps
from headwater.run.steps import Steps, steps_of
from headwater.settings import Settings
from headwater.sink.contract import Sink
from headwater.sink.kafka import KafkaSink

NOWHERE = {"kafka.bootstrap.servers": "127.0.0.1:9"}
_STATEFUL = {
    "Aggregate": "aggregation",
    "Deduplicate": "deduplication",
    "DeduplicateWithinWatermark": "deduplication within the watermark",
    "Distinct": "deduplication",
    "Join": "stream-stream join",
    "FlatMapGroupsWithState": "state of the user's own",
    "FlatMapGroupsInPandasWithState": "state of the user's own",
    "TransformWithState": "state of the user's own",
    "TransformWithStateInPySpark": "state of the user's own",
    "SessionWindow": "session window",
}
_IN_TRANSACTIONS = (
    "each slice of a batch is one Kafka transaction that also commits the batch's number; "
    "a batch that is tried again skips the slices that are there"
)
_WHY = {
    "exactly-once": "a batch is written under its number; one that is tried again leaves what is there",
    "at-least-once": "a batch that is tried again is written again: readers may see rows twice",
    "at-most-once": "a batch is marked before it is written: one that was cut short is not tried again, "
    "and its rows may be missing",
}


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """What will run for one pipeline, on which engine; `refusals` say what keeps it from real time."""

    pipeline: str
    engine: str
    reads: tuple[str, ...]
    writes: tuple[dict[str, str], ...]
    latency: str
    output: str
    watermark: str
    late: str
    stateful: tuple[str, ...]
    refusals: tuple[str, ...]
    plan: str


def explain(pipeline: Pipeline, spark: SparkSession, settings: Settings) -> Explanation:
    """The pipeline as it will run; BadPipeline when it cannot."""
    steps = steps_of(pipeline, spark.newSession())
    if steps is not None:
        return _on_columnar_state(pipeline, spark.newSession(), settings, steps)
    against = _against_real_time(pipeline, spark.newSession(), settings)
    if pipeline.latency == "real-time" and against:
        raise refused(pipeline, against)
    rows = rows_of(pipeline, spark.newSession(), settings, NOWHERE, {})
    with blamed(pipeline):
        _check_output(pipeline, rows)
    why = "what it does, Spark's own operators do"
    return _explained(pipeline, rows, f"native: {why}", tuple(_stateful(rows)), against)


def _on_columnar_state(
    pipeline: Pipeline, spark: SparkSession, settings: Settings, steps: Steps
) -> Explanation:
    """A pipeline with steps of ours: the plan that is shown is the streaming query's, which reads."""
    rows = rows_for_steps(steps, pipeline, spark, settings, NOWHERE, {})
    named = ", ".join(f"{one.step.kind} ({one.name})" for one in steps.met)
    against = Refusal(operator=named, why="runs on columnar state, in batches", instead="keep it in batches")
    return _explained(pipeline, rows, f"columnar state: Spark has no {named}", (named,), [against])


def _explained(
    pipeline: Pipeline, rows: DataFrame, engine: str, stateful: tuple[str, ...], against: list[Refusal]
) -> Explanation:
    return Explanation(
        pipeline=pipeline.name,
        engine=engine,
        reads=tuple(one.topic.name for one in pipeline.sources),
        writes=tuple(
            {"sink": one.name, "guarantee": one.guarantee, "why": _why(one)} for one in pipeline.sinks
        ),
        latency=pipeline.latency,
        output=pipeline.output,
        watermark=_watermark(pipeline),
        late=_late(pipeline),
        stateful=stateful,
        refusals=tuple(f"{one.operator}: {one.why}; instead: {one.instead}" for one in against),
        plan=rows._jdf.queryExecution().analyzed().toString().strip(),  # noqa: SLF001
    )


def _against_real_time(pipeline: Pipeline, spark: SparkSession, settings: Settings) -> list[Refusal]:
    """What keeps the pipeline from real time, were it asked to run so."""
    try:
        rows = rows_of(pipeline, spark, settings, NOWHERE, {}, latency="real-time")
    except BadPipeline as error:
        return [Refusal(operator="source", why=error.message, instead=error.hint)]
    return refusals(rows, pipeline.output if pipeline.latency == "real-time" else "update")


def _watermark(pipeline: Pipeline) -> str:
    """How it is moved, and what would hold it back."""
    spec, grace = pipeline.watermark, pipeline.late.grace if pipeline.late else NONE
    match spec:
        case None:
            return ""
        case Adaptive(quantile=share, at_least=least, at_most=most):
            text = f"as far behind the newest event as {share:.4g} of the rows need, {least} to {most}"
        case Punctuated(column=column):
            text = f"as far as every partition says it is, in {column}"
        case _:
            text = f"{spec.delay + grace} behind the newest event"
    more = f", and {grace} of grace" if grace and isinstance(spec, Adaptive | Punctuated) else ""
    slowest = " of the slowest topic" if len(pipeline.sources) > 1 else ""
    silent = f"; an input that is silent for {spec.idle} is left out" if spec.idle is not None else ""
    return f"{text}{more}{slowest}{silent}"


def _late(pipeline: Pipeline) -> str:
    match pipeline.late:
        case None:
            return ""
        case Divert(topic=topic):
            return f"diverted to {topic}, each record once, with the windows that it missed"
        case Refire(within=within):
            return f"by up to {within}, its window speaks again; later, dropped and counted"
        case _:
            return "dropped and counted"


def _why(sink: Sink) -> str:
    is_ours = isinstance(sink, KafkaSink) and sink.guarantee == "exactly-once"
    return _IN_TRANSACTIONS if is_ours else _WHY[sink.guarantee]


def _check_output(pipeline: Pipeline, rows: DataFrame) -> None:
    """Let Spark judge the plan in its output mode, as it will when the query starts."""
    jvm: Any = rows.sparkSession._jvm  # noqa: SLF001
    mode = jvm.org.apache.spark.sql.catalyst.streaming.InternalOutputModes.apply(pipeline.output)
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    checker.checkForStreaming(rows._jdf.queryExecution().analyzed(), mode)  # noqa: SLF001


def _stateful(rows: DataFrame) -> Iterator[str]:
    for node in nodes(rows._jdf.queryExecution().analyzed()):  # noqa: SLF001
        name = node.nodeName()
        streams = [one for one in each(node.children()) if one.isStreaming()]
        if name in _STATEFUL and len(streams) >= (2 if name == "Join" else 1):
            yield _STATEFUL[name]
