"""Sides: the source of a copy, and the copy, as a comparison asks them.

A source tells a digest for each key, as of one moment, and afterwards which other states a key has had
since. A copy tells its rows. Neither is held still: see `compare` for how a difference is told from a
delay.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Protocol

from headwater.clock import Deadline
from headwater.verify.canonical import Digest, Row

Key = tuple[Any, ...]
OnProgress = Callable[[str, int], None]
"""What is being read, and how many rows of it have been."""


class Source(Protocol):
    """What a copy must be equal to."""

    @property
    def is_exact(self) -> bool:
        """Whether it tells every state of a key, so that one more look at a row is enough."""

    def digests(self, progress: OnProgress) -> dict[Key, Digest]:
        """The digest of every row that there is now."""

    def await_copy(self, deadline: Deadline) -> int:
        """Wait until the copy has taken in all that was there; tells how much it still lacks."""

    def newer(self, keys: Collection[Key]) -> Iterator[tuple[Key, Digest | None]]:
        """States of these keys since `digests`, or since this was last asked; None for no row."""

    def rows(self, keys: Collection[Key]) -> Mapping[Key, Row]:
        """The rows of these keys as they are now."""


class Copy(Protocol):
    """What is compared with its source."""

    def all(self) -> Iterator[tuple[Key, Row]]:
        """Every row."""

    def some(self, keys: Collection[Key]) -> Iterator[tuple[Key, Row]]:
        """The rows of these keys, as far as they are there."""
