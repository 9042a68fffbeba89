"""Lineage: which record a row was made of, at the place where Spark may drop it for being late.

Spark drops a row in front of an operator with state, when the row's window ended (or its event happened) at
or before the watermark. What stands between the topic and that operator is the user's own, any steps that
keep rows apart: filters, columns, windows, explosions, joins with tables. Here that part of a plan is
taken as it is, and one more column is led through it: the record.

The plan is one of a bounded past, not of a stream; the event time carries the mark that Spark's own
watermark would have left on it, so that Spark itself finds the windows.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headwater.errors import BadPipeline
from headwater.run.carried import CARRIED
from headwater.run.catalyst import each

_MARK = "spark.watermarkDelayMs"
_BY_KEY = {"Aggregate"}
_BY_ROW = {"Deduplicate", "DeduplicateWithinWatermark", "Distinct"}
_OF_THE_USER = {"FlatMapGroupsInPandasWithState": "timeout", "TransformWithStateInPySpark": "timeMode"}
_WITH_STATE = {"Join", *_BY_KEY, *_BY_ROW, *_OF_THE_USER}


@dataclass(frozen=True)
class Gate:
    """A place where late rows are dropped: the plan in front of it, and the column that decides."""

    plan: Any
    column: Any


def marked(rows: DataFrame, event_time: str) -> DataFrame:
    """The rows with the mark that a watermark leaves on the event time; how long it waits is no matter."""
    return rows.withMetadata(event_time, {_MARK: 0}) if event_time in rows.columns else rows


def gates(rows: DataFrame) -> list[Gate]:
    """Where Spark drops late rows: in front of the first operators with state."""
    return list(_gates(rows._jdf.queryExecution().analyzed()))  # noqa: SLF001


def _gates(node: Any) -> Iterator[Gate]:
    children = each(node.children())
    for child in children:
        yield from _gates(child)
    if not _has_state(node):
        return
    for child in children:
        column = _decides(node, child)
        if column is not None and not any(_has_state(one) for one in ours(child)):
            yield Gate(child, column)


def _has_state(node: Any) -> bool:
    name = node.nodeName()
    if name not in _WITH_STATE:
        return False
    streams = [child for child in each(node.children()) if any(ours(child))]
    return len(streams) > (1 if name == "Join" else 0)


def ours(node: Any) -> Iterator[Any]:
    """The nodes above our topics' rows, in the order from the top."""
    below = [one for child in each(node.children()) for one in ours(child)]
    if below or _carried(node) is not None:
        yield node
        yield from below


def _decides(node: Any, child: Any) -> Any | None:
    name = node.nodeName()
    if name in _OF_THE_USER and "EventTime" not in str(getattr(node, _OF_THE_USER[name])()):
        return None
    columns = each(node.groupingExpressions() if name in _BY_KEY else child.output())
    return next((one for one in columns if _is_marked(one)), None)


def _is_marked(expression: Any) -> bool:
    is_column = expression.nodeName() == "AttributeReference"
    return is_column and bool(expression.metadata().contains(_MARK))


def _carried(node: Any) -> Any | None:
    columns = node.output()
    if CARRIED not in columns.mkString(" "):  # one question for all of them; each costs a way to Java
        return None
    return next((one for one in each(columns) if one.name() == CARRIED), None)


class Carrier:
    """Leads the record through a plan, node by node."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        jvm: Any = spark._jvm  # noqa: SLF001 - plans are Java's
        self._jvm = jvm
        self._plans = jvm.org.apache.spark.sql.catalyst.plans.logical

    def at(self, gate: Gate) -> DataFrame:
        """The rows in front of a gate: the `record` each was made of, and what decides, as `closes`."""
        plan, record = self._led(gate.plan)
        both = self._plans.Project(self._seq([record, gate.column]), plan)
        made = self._jvm.org.apache.spark.sql.classic.Dataset.ofRows(self._spark._jsparkSession, both)  # noqa: SLF001
        return DataFrame(made, self._spark).toDF("record", "closes")

    def _led(self, node: Any) -> tuple[Any, Any]:
        """A plan that has the record among its columns, and that column."""
        found = _carried(node)
        if found is not None:
            return node, found
        match node.nodeName():
            case "Project":
                below, record = self._led(node.child())
                plan = self._plans.Project(node.projectList().appended(record), below)
            case "Expand":
                below, record = self._led(node.child())
                lists = [one.appended(record) for one in each(node.projections())]
                plan = self._plans.Expand(self._seq(lists), node.output().appended(record), below)
            case "Union":
                plan = node.withNewChildren(
                    self._seq([self._at_the_end(one) for one in each(node.children())])
                )
            case _:
                plan = node.withNewChildren(self._seq([self._if_ours(one) for one in each(node.children())]))
        found = _carried(plan)
        if found is None:
            raise _hidden(node.nodeName())
        return plan, found

    def _at_the_end(self, child: Any) -> Any:
        """A union's columns are matched by their places."""
        plan, record = self._led(child)
        return self._plans.Project(child.output().appended(record), plan)

    def _if_ours(self, child: Any) -> Any:
        return self._led(child)[0] if any(ours(child)) else child

    def _seq(self, found: list[Any]) -> Any:
        return self._jvm.PythonUtils.toSeq(found)


def _hidden(operator: str) -> BadPipeline:
    return BadPipeline(
        f"nobody can tell which record a row behind {operator} was made of, so it cannot be diverted",
        hint=f"move {operator} behind the window, or write late=Drop()",
    )
