"""Compare: a source and its copy, both of which may change while they are read.

The law: a copy is in step when every key's row in it is a state that the source has had since the
comparison began. So every row is compared once, and where it differs it is only in doubt. It is looked at
again, on both sides, until the copy shows one of those states. A source that tells every state needs one
more look, made when the copy has taken in all that was there at the beginning; of another, states can be
missed between two looks, so it is asked again until the patience is over. What is still in doubt then, is
different.
"""

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

from headwater.clock import Deadline
from headwater.verify.canonical import Digest, Row
from headwater.verify.ranges import Ranges, Stretch
from headwater.verify.sides import Copy, Key, OnProgress, Source

Kind = Literal["missing", "unexpected", "different"]
_PAUSE = 0.25
_TELL_EVERY = 1000


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One row that is not the same; `columns` has what the source and the copy say."""

    key: Key
    kind: Kind
    columns: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What became of a comparison; `differences` are the first ones of `different`."""

    different: int
    differences: tuple[Difference, ...]
    looked_again: int
    behind: int
    ranges: tuple[Stretch, ...]
    whole: Stretch

    @property
    def is_equal(self) -> bool:
        """Whether the copy is what its source says."""
        return self.different == 0


class Comparison:
    """A source and a copy, compared once."""

    def __init__(
        self,
        source: Source,
        copy: Copy,
        digest: Callable[[Row], Digest],
        *,
        within: timedelta,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._source, self._copy, self._digest = source, copy, digest
        self._within, self._sleep = within, sleep
        self._told: dict[Key, Digest] = {}
        self._doubtful: dict[Key, Digest | None] = {}

    def run(self, columns: Mapping[str, Callable[[Any], Any]], show: int, progress: OnProgress) -> Verdict:
        """Compare; `columns` tell what of a value counts, and `show` how many differences are wanted."""
        self._told = self._source.digests(progress)
        deadline = Deadline(self._within)
        progress("until the copy has come so far", 0)
        behind = self._source.await_copy(deadline)
        ranges = Ranges(self._told)
        self._read_copy(ranges, progress)
        looked_again = len(self._doubtful)
        self._look_again(ranges, deadline)
        return Verdict(
            different=len(self._doubtful),
            differences=self._differences(sorted(self._doubtful)[:show], columns),
            looked_again=looked_again,
            behind=behind,
            ranges=tuple(ranges.stretches),
            whole=ranges.whole(),
        )

    def _read_copy(self, ranges: Ranges, progress: OnProgress) -> None:
        missing, count = set(self._told), 0
        for key, row in self._copy.all():
            is_there_twice = key not in missing if key in self._told else key in self._doubtful
            if is_there_twice:  # some systems tell a row again that changes while they are read
                continue
            missing.discard(key)
            digest = self._digest(row)
            ranges.copy(key, None, digest)
            if self._told.get(key) != digest:
                self._doubtful[key] = digest
            count += 1
            if count % _TELL_EVERY == 0:
                progress("the copy", count)
        progress("the copy", count)
        self._doubtful |= dict.fromkeys(missing)

    def _look_again(self, ranges: Ranges, deadline: Deadline) -> None:
        states: dict[Key, set[Digest | None]] = {one: {self._told.get(one)} for one in self._doubtful}
        while self._doubtful:
            is_last = self._source.is_exact or deadline.passed
            shown = {key: self._digest(row) for key, row in self._copy.some(self._doubtful)}
            for key, digest in self._source.newer(self._doubtful):
                states[key].add(digest)
            for key in [one for one in self._doubtful if shown.get(one) in states[one]]:
                ranges.copy(key, self._doubtful.pop(key), shown.get(key))
                ranges.source(key, self._told.get(key), shown.get(key))
            if is_last:
                return
            self._sleep(_PAUSE if self._doubtful else 0)

    def _differences(
        self, keys: Collection[Key], columns: Mapping[str, Callable[[Any], Any]]
    ) -> tuple[Difference, ...]:
        if not keys:
            return ()
        wanted, found = self._source.rows(keys), dict(self._copy.some(keys))
        return tuple(_difference(key, wanted.get(key), found.get(key), columns) for key in keys)


def _difference(
    key: Key, wanted: Row | None, found: Row | None, columns: Mapping[str, Callable[[Any], Any]]
) -> Difference:
    if wanted is None or found is None:
        return Difference(key=key, kind="missing" if found is None else "unexpected")
    pairs = {name: (wanted[name], found[name]) for name in columns}
    told = {name: one for name, one in pairs.items() if columns[name](one[0]) != columns[name](one[1])}
    return Difference(key=key, kind="different", columns=told)
