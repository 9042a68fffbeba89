"""Account: on time + late + dead = all, checked by the rehearsal itself and not by its author.

Each record has one fate. What the driver knows of them (judged bad, found late) is held against what the
workers saw, and against what Spark says that it dropped: two counts that come about in different ways.
"""

from collections.abc import Iterable
from typing import NamedTuple

from headwater.errors import RowsUnaccounted

Place = tuple[str, int, int]
"""Topic, partition, offset."""


class Counts(NamedTuple):
    """How many records came in, and what became of them."""

    fed: int
    on_time: int
    late: int
    dead: int


class Account:
    """The fates of a rehearsal's records."""

    def __init__(self) -> None:
        self._good: set[Place] = set()
        self._late: set[Place] = set()
        self._dead = 0

    @property
    def counts(self) -> Counts:
        """The account as it stands."""
        good, late = len(self._good), len(self._late)
        return Counts(good + self._dead, good - late, late, self._dead)

    def fed(self, good: Iterable[Place], dead: int) -> None:
        """Records came in."""
        self._good.update(good)
        self._dead += dead

    def saw(self, good: int, by_workers: int | None) -> None:
        """The workers saw all good ones, once for each time that the pipeline reads them."""
        if by_workers is not None and (by_workers % good if good else by_workers):
            raise _unaccounted(f"of {good} good rows, the workers saw {by_workers}")

    def late(self, places: Iterable[Place], dropped: int) -> None:
        """Records that were late in a batch, and how many rows Spark says that it dropped from it."""
        found = list(places)
        if bool(found) != bool(dropped):
            raise _unaccounted(f"Spark dropped {dropped} rows of a batch, and {len(found)} were found late")
        for one in found:
            if one not in self._good or one in self._late:
                raise _unaccounted("{}[{}]@{} was late twice, or never came in".format(*one))
            self._late.add(one)


def _unaccounted(detail: str) -> RowsUnaccounted:
    return RowsUnaccounted(
        "on time and late and dead are not all",
        detail=detail,
        hint="this is an error of Headwater, or of a step that makes its own state; please report it",
    )
