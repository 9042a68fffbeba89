"""The parent of Spark's Python workers: what each of them needs is imported before they are forked.

A worker of PySpark's own daemon imports pyarrow and the pipeline's modules by itself, each worker again
and before the first record. Forked from here they have them at once. (Pandas they do without: see
`pandas_later`.) What was imported is kept from the garbage collector: looking through it, every worker would
make copies of memory that they share.
"""

import gc

import pyarrow as pa  # noqa: F401 - imported for the workers
import pyspark.sql.conversion
import pyspark.sql.pandas.serializers
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import headwater.run.decode  # noqa: F401
from headwater.run.pandas_later import look_now

if __name__ == "__main__":
    look_now()
    gc.freeze()
    manager()
