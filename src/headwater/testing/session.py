"""A session of Spark for tests: it starts in a few seconds and needs no broker."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from pyspark.sql import SparkSession

from headwater.run.session import close, session
from headwater.settings import Settings

_OPTIONS = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
"""Small data never pays for Java's second compiler."""


@contextmanager
def quick_session(name: str = "rehearsal") -> Iterator[SparkSession]:
    """A session that ends with its block; two tasks run at once."""
    settings = Settings.load()
    options = {**_OPTIONS, **settings.spark_options}
    spark = session(replace(settings, spark_options=options), name, slots=2)
    try:
        yield spark
    finally:
        close(spark)
