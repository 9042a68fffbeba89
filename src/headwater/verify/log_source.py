"""The log as a source: the changes of a table, folded to the newest row of every key.

It tells every state that a key has had, and a pipeline's group tells how far the copy has come, so it
needs no patience beyond that. Changes that are dead letters are no states: no copy has them either.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any

import msgspec

from headwater.capture.table import Table
from headwater.clock import Deadline, wait_until
from headwater.errors import RecordError
from headwater.log.connection import Connection
from headwater.log.formats import codec_for
from headwater.log.log import Log
from headwater.log.member import Partition
from headwater.log.positions import Positions
from headwater.log.reader import Reader
from headwater.log.schemas import open_schemas
from headwater.settings import Settings
from headwater.verify.canonical import Digest, Row, digest_of
from headwater.verify.sides import Key, OnProgress

_TELL_EVERY = 1000


class LogSource:
    """A table's changes in the log, and the pipeline (`app.pipeline`) that keeps a copy of it."""

    is_exact = True

    def __init__(self, table: Table, label: str, settings: Settings) -> None:
        self._topic, self._keys, self._label = table.changes, table.keys, label
        self._digest = digest_of(table.columns)
        self._settings, self._connection = settings, Connection(settings)
        self._at: dict[int, int] = {}

    def digests(self, progress: OnProgress) -> dict[Key, Digest]:
        """The digest of every row, as of the log's end now."""
        found: dict[Key, Digest] = {}
        count = 0
        for count, (key, row) in enumerate(self._states(self._firsts()), start=1):
            if row is None:
                found.pop(key, None)
            else:
                found[key] = self._digest(row)
            if count % _TELL_EVERY == 0:
                progress("the log", count)
        progress("the log", count)
        return found

    def await_copy(self, deadline: Deadline) -> int:
        """Wait until the pipeline's group stands where the log ended; tells how many records it lacks."""
        log, topic = Log.open(self._settings), self._topic.name
        wanted = {Partition(topic, one): end for one, end in self._at.items() if end > 0}

        def lacks() -> int:
            done = log.groups.committed(self._label)
            return sum(max(0, end - done.get(where, 0)) for where, end in wanted.items())

        wait_until(lambda: not lacks(), timedelta(seconds=deadline.left), pause=0.2)
        return lacks()

    def newer(self, keys: Collection[Key]) -> Iterator[tuple[Key, Digest | None]]:
        """Every state of these keys from where the log was last read to its end now."""
        for key, row in self._states(self._at):
            if key in keys:
                yield key, None if row is None else self._digest(row)

    def rows(self, keys: Collection[Key]) -> Mapping[Key, Row]:
        """The newest rows of these keys; reads the log once more."""
        wanted, found = set(keys), dict[Key, Row]()
        for key, row in self._states(self._firsts()):
            if key in wanted:
                found.pop(key, None)
                found |= {} if row is None else {key: row}
        return found

    def _firsts(self) -> dict[int, int]:
        partitions = range(Log.open(self._settings).topics.partitions(self._topic.name))
        return Positions(self._connection).first(self._topic.name, partitions)

    def _states(self, starts: Mapping[int, int]) -> Iterator[tuple[Key, Row | None]]:
        """Each change's key and row, or None where it has gone; partition by partition in their order."""
        decode = codec_for(self._topic, lambda: open_schemas(self._settings)).decode
        with Reader(self._connection, self._topic.name, decode, starts=starts, follow=False) as reader:
            for record in reader:
                with suppress(RecordError):  # a dead letter
                    if (change := record.value) is not None:
                        yield self._state(change)
            self._at = dict(reader.ends)

    def _state(self, change: Any) -> tuple[Key, Row | None]:
        key = tuple(getattr(change.key, one) for one in self._keys)
        return key, None if change.after is None else msgspec.structs.asdict(change.after)
