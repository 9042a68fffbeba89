"""Ranges: the keys in their order, cut into a few stretches, each with a count and a checksum for both sides.

A checksum is the sum of its rows' digests, so it does not depend on the order in which rows are read.
"""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass

from headwater.verify.canonical import DIGEST_BYTES, Digest
from headwater.verify.sides import Key

MOST = 16
_MODULUS = 1 << (8 * DIGEST_BYTES)


@dataclass
class Stretch:
    """One stretch of keys, from `first` on: how many rows each side has there, and their checksums."""

    first: Key | None
    rows: int = 0
    copied: int = 0
    sum: int = 0
    copied_sum: int = 0

    @property
    def is_equal(self) -> bool:
        """Whether both sides have the same rows here."""
        return (self.rows, self.sum) == (self.copied, self.copied_sum)

    @property
    def checksums(self) -> tuple[str, str]:
        """Those of the source and of the copy, in hexadecimal digits."""
        return f"{self.sum:032x}", f"{self.copied_sum:032x}"


class Ranges:
    """All stretches; both sides are told row by row."""

    def __init__(self, source: Mapping[Key, Digest]) -> None:
        keys = sorted(source)
        size = max(1, -(-len(keys) // MOST))
        self._firsts = keys[size::size]
        self.stretches = [Stretch(one) for one in (keys[0] if keys else None, *self._firsts)]
        for key, digest in source.items():
            self.source(key, None, digest)

    def source(self, key: Key, before: Digest | None, now: Digest | None) -> None:
        """The source has another row of a key than it had."""
        one = self._of(key)
        one.rows += (now is not None) - (before is not None)
        one.sum = (one.sum + _number(now) - _number(before)) % _MODULUS

    def copy(self, key: Key, before: Digest | None, now: Digest | None) -> None:
        """The copy has."""
        one = self._of(key)
        one.copied += (now is not None) - (before is not None)
        one.copied_sum = (one.copied_sum + _number(now) - _number(before)) % _MODULUS

    def whole(self) -> Stretch:
        """All stretches as one."""
        found = Stretch(self.stretches[0].first)
        for one in self.stretches:
            found.rows, found.copied = found.rows + one.rows, found.copied + one.copied
            found.sum = (found.sum + one.sum) % _MODULUS
            found.copied_sum = (found.copied_sum + one.copied_sum) % _MODULUS
        return found

    def _of(self, key: Key) -> Stretch:
        return self.stretches[bisect_right(self._firsts, key)]


def _number(digest: Digest | None) -> int:
    return int.from_bytes(digest or b"")
