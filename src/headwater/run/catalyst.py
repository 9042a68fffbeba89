"""Catalyst: Spark's plans, walked from Python."""

from collections.abc import Iterator
from typing import Any


def nodes(plan: Any) -> Iterator[Any]:
    """A plan's operators, each before those that it reads from."""
    yield plan
    for one in each(plan.children()):
        yield from nodes(one)


def each(sequence: Any) -> list[Any]:
    """Scala's sequence as a list."""
    return [sequence.apply(index) for index in range(sequence.size())]
