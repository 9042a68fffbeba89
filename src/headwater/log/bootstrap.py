"""Bootstrap: the current value of every key, then every change, from a compacted topic.

The snapshot is the log from its beginning up to the ends E that the partitions had when it began;
the changes are the log from E on. So no record is missed and none is seen twice, whoever writes
meanwhile. The cleaner may remove an old record under the snapshot only when a newer one of that
key stands in the log: before E it is in the snapshot, after E it is among the changes.

One danger is left: a value that was read and whose tombstone is cleaned away before it is read. Kafka
keeps a tombstone for `delete.retention.ms` after the value under it was cleaned. So whoever is
never further behind than that cannot miss one; a snapshot that took half of it (the cleaner's own
pass takes its time too), or a follower that falls that far behind, is told so (BootstrapTooSlow).
"""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Self

from headwater import clock
from headwater.clock import Deadline
from headwater.errors import BootstrapTooSlow, KeyMissing
from headwater.log.connection import Connection
from headwater.log.positions import Beginning, Positions
from headwater.log.reader import Reader
from headwater.log.record import Decode, Record
from headwater.log.topics import Topics


class Bootstrap:
    """`snapshot` holds the last record of each living key; iterating gives every change after it."""

    def __init__(self, connection: Connection, topic: str, decode: Decode) -> None:
        state = Topics(connection).describe(topic)
        self._kept = timedelta(milliseconds=int(state.config["delete.retention.ms"]))
        self._topic = topic
        in_time = Deadline(self._kept / 2)
        starts = Positions(connection).resolve(topic, range(state.partitions), Beginning())
        with Reader(connection, topic, decode, starts=starts, follow=False) as past:
            self.snapshot: Mapping[bytes, Record] = _fold(past)
        if in_time.passed:
            raise self._too_slow("the snapshot took longer than half the time")
        self.ends = past.ends
        """The offset in each partition that divides the snapshot from the changes."""
        self._changes = Reader(connection, topic, decode, starts=past.ends, follow=True, grows=True)

    def __iter__(self) -> Iterator[Record]:
        for record in self._changes:
            if record.is_append_time and clock.now() - record.appended_at > self._kept:
                raise self._too_slow("the follower is further behind than the time")
            yield record

    def _too_slow(self, what: str) -> BootstrapTooSlow:
        return BootstrapTooSlow(
            f"{what} that tombstones of topic {self._topic!r} are kept ({self._kept})",
            detail="a deletion may have been cleaned away unseen",
            hint=f"begin again; `headwater topics alter {self._topic} --set delete.retention.ms=…` helps",
        )

    def close(self) -> None:
        """Let go of the broker."""
        self._changes.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _fold(records: Iterator[Record] | Reader) -> dict[bytes, Record]:
    living: dict[bytes, Record] = {}
    for record in records:
        key = record.key
        if key is None:
            raise KeyMissing(f"{record!r} has no key, so it is nobody's current value")
        living.pop(key, None)
        if record.data is not None:
            living[key] = record
    return living
