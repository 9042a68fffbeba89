"""Measures that people ask for, as columns for `agg` behind any of Spark's windows.

Only those that Spark does not say as plainly itself: percentiles (`F.approx_percentile`) and distinct counts
(`F.approx_count_distinct`) are Spark's own. All work batch by batch: what is kept of a window between two
batches is a number or a sketch, never its rows.
"""

from datetime import timedelta

from pyspark.sql import Column
from pyspark.sql import functions as F

from headwater.errors import BadPipeline

MINUTE = timedelta(minutes=1)


def rate(window: timedelta, per: timedelta = MINUTE) -> Column:
    """How many rows came for each `per`, in a window of that length."""
    if window <= timedelta(0):
        raise BadPipeline("a rate needs a window that is longer than nothing")
    return F.count(F.lit(1)) * F.lit(per / window)


def share(condition: Column) -> Column:
    """Which share of the rows a condition holds for, from 0 to 1; where it is null, it does not hold."""
    return F.count_if(condition) / F.count(F.lit(1))


def top(column: Column | str, n: int, *, among: int = 10_000) -> Column:
    """The `n` most frequent values with their counts, most frequent first: an array of `item` and `count`.

    Exact while a window has no more than `among` distinct values. With more, counts are estimates, and a
    value is named only if it is certain to belong there: there may be fewer than `n`, and even none.
    """
    if not 0 < n <= among:
        raise BadPipeline(f"the top {n} among {among} values cannot be had", hint="0 < n <= among")
    named = F.col(column) if isinstance(column, str) else column
    return F.call_function("approx_top_k", named, F.lit(n), F.lit(among))
