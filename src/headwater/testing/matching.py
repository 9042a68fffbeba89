"""Matching: the rows that a transcript expects against those that were found, and the difference in words.

An expected row names the columns that matter; others are not compared. Rows have no order.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any

from headwater.testing.moments import moment, shown

Row = Mapping[str, Any]
_CONTAINED = "reason"
"""The column of which a part is enough: people write it, and may write it better tomorrow."""


def difference(expected: Sequence[Row], found: Sequence[Row], day: date) -> str:
    """What is expected and missing, and what is there and not expected; nothing when they agree."""
    left, missing = list(found), list[Row]()
    for row in sorted(expected, key=len, reverse=True):  # who says more has fewer to choose from
        match = next((one for one in left if _fits(row, one, day)), None)
        if match is None:
            missing.append(row)
        else:
            left.remove(match)
    lines = [f"expected, and not there:  {said(one, day)}" for one in missing]
    lines += [f"there, and not expected:  {said(one, day)}" for one in left]
    return "\n".join(lines)


def said(value: Any, day: date) -> str:
    """A value as a transcript would write it."""
    match value:
        case Mapping():
            text = "{" + ", ".join(f"{name}: {said(one, day)}" for name, one in value.items()) + "}"
        case list():
            text = "[" + ", ".join(said(one, day) for one in value) + "]"
        case datetime():
            text = shown(value, day)
        case bool() | None:
            text = {True: "true", False: "false", None: "null"}[value]
        case float() if value.is_integer():
            text = str(int(value))
        case bytes():
            text = value.decode(errors="backslashreplace")
        case _:
            text = str(value)
    return text


def _fits(expected: Row, found: Row, day: date) -> bool:
    return all(name in found and _same(name, one, found[name], day) for name, one in expected.items())


def _same(name: str, expected: Any, found: Any, day: date) -> bool:
    match found:
        case _ if expected is None or found is None or isinstance(found, bool):
            is_same = expected is found
        case datetime():
            is_same = moment(str(expected), day) == moment(found.isoformat(), day)
        case float():
            is_number = isinstance(expected, int | float)
            is_same = is_number and math.isclose(expected, found, rel_tol=1e-9, abs_tol=1e-12)
        case Mapping():
            is_same = isinstance(expected, Mapping) and _fits(expected, found, day)
        case list():
            is_same = _same_list(name, expected if isinstance(expected, list) else [expected], found, day)
        case str() if name == _CONTAINED:
            is_same = str(expected) in found
        case _:
            is_same = said(expected, day) == said(found, day)
    return is_same


def _same_list(name: str, expected: list[Any], found: list[Any], day: date) -> bool:
    return len(expected) == len(found) and all(
        _same(name, one, two, day) for one, two in zip(expected, found, strict=True)
    )
