"""Which plans run in real time, by Spark's own word, before anything is started.

The plan is made as real-time mode makes it (its own aggregation, no adaptive execution), and each operator
above a source is held against Spark's own list of those that it allows. So what is refused here Spark would
refuse too, only later, when the first batch is planned, and by the name of a class.
"""

from collections.abc import Iterator
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from headwater.run.catalyst import each, nodes
from headwater.run.realtime_refusals import READ_TWICE, Refusal, by_message, by_operator, by_output

_ALLOWED = "org$apache$spark$sql$execution$streaming$runtime$RealTimeModeAllowlist$$isAllowed"
_AS_IN_REAL_TIME = {
    "spark.sql.streaming.useStreamlineAggregator": "true",
    "spark.sql.adaptive.enabled": "false",
}
_EMPTY = '{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}'
_SOURCE = "StreamingRelation"


def refusals(rows: DataFrame, output: str = "update") -> list[Refusal]:
    """What keeps the plan from running in real time, each thing once; empty when it can."""
    try:
        found = [by_operator(name) for name in _not_allowed(rows)]
    except PySparkException as error:  # it cannot even be planned
        return [by_message(str(error))]
    if _reads_twice(rows):
        found.append(READ_TWICE)
    if output != "update" and _aggregates(rows):
        found.append(by_output(output))
    return list(dict.fromkeys(found or _told(rows)))


def shuffle_partitions(rows: DataFrame) -> int:
    """The partitions of all shuffles between the sources and the output: each has a task all the time."""
    shuffles = [
        one for one in _above_sources(_planned(rows).executedPlan()) if _name(one) == "ShuffleExchange"
    ]
    return sum(one.outputPartitioning().numPartitions() for one in shuffles)


def _not_allowed(rows: DataFrame) -> list[str]:
    """The operators that Spark does not allow, by class."""
    is_allowed = getattr(_object(_runtime(rows), "RealTimeModeAllowlist"), _ALLOWED)
    names = [_name(one) for one in _above_sources(_planned(rows).sparkPlan()) if not is_allowed(one)]
    if any("Session" in name for name in names):  # its aggregation is not the real-time one
        return [name for name in names if not name.endswith("Aggregate")]
    return names


def _planned(rows: DataFrame) -> Any:
    """A batch of the plan as real-time mode would have it; planned in a copy of the session, not run."""
    jvm, runtime = _jvm(rows), _runtime(rows)
    session = rows.sparkSession._jsparkSession.cloneSession()  # noqa: SLF001
    for option, value in _AS_IN_REAL_TIME.items():
        session.conf().set(option, value)
    some_id, execution = jvm.java.util.UUID.randomUUID, _object(runtime, "IncrementalExecution")
    metadata = _object(jvm.org.apache.spark.sql.execution.streaming.checkpointing, "OffsetSeqMetadata")
    defaults = [getattr(execution, f"$lessinit$greater$default${number}")() for number in (12, 13, 14)]
    return runtime.IncrementalExecution(
        *(session, _analysed(rows), _update(rows), "<unknown>", some_id(), some_id(), 0),
        *(jvm.scala.Option.empty(), metadata.apply(_EMPTY), _object(runtime, "WatermarkPropagator").noop()),
        *(False, *defaults, False, True),
    )


def _reads_twice(rows: DataFrame) -> bool:
    leaves = [one for one in each(_analysed(rows).collectLeaves()) if one.isStreaming()]
    return any(one == other for index, one in enumerate(leaves) for other in leaves[:index])


def _aggregates(rows: DataFrame) -> bool:
    return any(_name(one) == "Aggregate" and one.isStreaming() for one in nodes(_analysed(rows)))


def _told(rows: DataFrame) -> Iterator[Refusal]:
    """What Spark says of the plan as a whole, in the output mode of real time."""
    checker = _object(_jvm(rows).org.apache.spark.sql.catalyst.analysis, "UnsupportedOperationChecker")
    for check in (checker.checkForStreaming, checker.checkAdditionalRealTimeModeConstraints):
        try:
            check(_analysed(rows), _update(rows))
        except PySparkException as error:
            yield by_message(str(error))


def _above_sources(plan: Any) -> list[Any]:
    """The operators that a row of a stream passes; those of static tables are run before."""
    return [one for one in nodes(plan) if any(_name(other) == _SOURCE for other in list(nodes(one))[1:])]


def _name(node: Any) -> str:
    return str(node.getClass().getSimpleName()).removesuffix("Exec")


def _jvm(rows: DataFrame) -> Any:
    return rows.sparkSession._jvm  # noqa: SLF001


def _runtime(rows: DataFrame) -> Any:
    return _jvm(rows).org.apache.spark.sql.execution.streaming.runtime


def _object(package: Any, name: str) -> Any:
    """A Scala object: a class of its own with one instance."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")


def _analysed(rows: DataFrame) -> Any:
    return rows._jdf.queryExecution().analyzed()  # noqa: SLF001


def _update(rows: DataFrame) -> Any:
    return _jvm(rows).org.apache.spark.sql.streaming.OutputMode.Update()
