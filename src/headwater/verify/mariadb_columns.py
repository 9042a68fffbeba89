"""Columns of a MariaDB, asked for in the form in which capture tells them.

A row of bits is told as bytes, the lowest first, where a client has the highest first; so it is asked for as
text. docs/reference/column-types.md has them all.
"""

from typing import Any

from pyspark.sql import types as spark

from headwater.capture.table import Table

_BITS = (
    "SELECT column_name, numeric_precision FROM information_schema.columns "
    "WHERE table_schema = %s AND table_name = %s AND data_type = 'bit'"
)


def forms(connection: Any, table: Table) -> dict[str, str]:
    """The expression for each column that is not read as it is."""
    with connection.cursor() as cursor:
        cursor.execute(_BITS, table.name.split("."))
        bits = dict(cursor.fetchall())
    binary = [one.name for one in table.columns.fields if isinstance(one.dataType, spark.BinaryType)]
    return {one: f"LPAD(BIN(`{one}`), {bits[one]}, '0')" for one in binary if one in bits}
