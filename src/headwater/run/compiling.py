"""Compiling: whether Spark writes Java for a query, or interprets it.

Spark writes a query's constants into the code that it generates. One with a batch number or a watermark in
it is compiled anew for every batch, some 100 ms, which only pays where there is much to read.
"""

from pyspark.sql import SparkSession

SMALL = 20_000
"""Records for which it does not pay."""

_CHOICES = (
    ("spark.sql.codegen.wholeStage", "true", "false"),
    ("spark.sql.codegen.factoryMode", "FALLBACK", "NO_CODEGEN"),
)


def compiles(spark: SparkSession, records: int | None) -> None:
    """Let a session's next queries be compiled if they read that many records, or nobody knows how many."""
    for name, large, small in _CHOICES:
        spark.conf.set(name, large if records is None or records > SMALL else small)
