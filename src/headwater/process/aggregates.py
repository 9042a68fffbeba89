"""Aggregates: what a step counts, sums or finds, as PySpark's own aggregates with a name.

A measure is written as for `agg`: `F.count("*").alias("payments")`. A step needs its name and its aggregate
apart, because it computes some of them over a window of Spark's and names the result itself.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame

from headwater.errors import BadStep


class Measure(NamedTuple):
    """An aggregate, and the column that it becomes.

    `adds_up` tells that the measure over a stretch is exactly the one up to its end less the one up to its
    beginning. Counts do. Sums do not: of fractions they differ in the last digit, of nulls they are null.
    """

    name: str
    value: Column
    adds_up: bool


def measures_of(rows: DataFrame, kind: str, columns: Sequence[Column], taken: Sequence[str]) -> list[Measure]:
    """The measures of a step, each with a name that none of its columns has."""
    found = [_measure(rows, kind, one) for one in columns]
    names = [one.name for one in found]
    for name in names:
        if name in taken or names.count(name) > 1:
            raise BadStep(
                f"{kind} would have two columns {name!r}", hint="give the measure another name with .alias(…)"
            )
    if not found:
        raise BadStep(f"{kind} has no measure", hint='measures=[F.count("*").alias("payments")]')
    return found


def _measure(rows: DataFrame, kind: str, column: Column) -> Measure:
    """Spark's alias, taken apart: Python shows neither of its halves."""
    java: Any = column
    alias = java._jc.node()  # noqa: SLF001
    jvm: Any = rows.sparkSession._jvm  # noqa: SLF001
    if alias.getClass().getSimpleName() != "Alias":
        raise BadStep(f"a measure of {kind} has no name: {column!r}", hint='F.sum("amount").alias("total")')
    made: Any = Column  # a class, whatever its decorator says
    value = made(jvm.org.apache.spark.sql.Column(alias.child()))
    return Measure(alias.name().head(), value, _adds_up(alias.child()))


def _adds_up(node: Any) -> bool:
    is_function = node.getClass().getSimpleName() == "UnresolvedFunction"
    return is_function and not node.isDistinct() and node.functionName() in {"count", "count_if"}
