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
    """A session on this machine, whatever the settings say, until its block ends; it has two slots."""
    settings = Settings.load()
    options = {**_OPTIONS, **settings.spark_options}
    here = replace(settings, spark_master=None, spark_options=options)
    spark = session(here, name, slots=2)
    try:
        yield spark
    finally:
        close(spark)
