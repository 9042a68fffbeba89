"""Rows: what a batch answers, as plain Python in an order in which it can be compared."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame


def plain_rows(rows: DataFrame) -> list[dict[str, Any]]:
    """The rows as dicts, sorted by their columns; instants are in UTC."""
    return [_plain(one) for one in _sorted(rows.toArrow()).to_pylist()]


def _sorted(rows: pa.Table) -> pa.Table:
    names = [one.name for one in rows.schema if not pa.types.is_nested(one.type)]
    return rows.sort_by([(one, "ascending") for one in names]) if names else rows


def _plain(value: Any) -> Any:
    match value:
        case datetime() if value.tzinfo:
            return value.astimezone(UTC)
        case dict():
            return {name: _plain(one) for name, one in value.items()}
        case list():
            return [_plain(one) for one in value]
    return value
