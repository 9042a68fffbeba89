"""Letter: a record that could not be used, as it stands in `<topic>.dead`.

Its key and value are the original bytes, its headers the original ones, and beside them stand ours: why
it died, where it stood and who gave it up. Queues and pipelines write the same form, so that one
command lists, shows and resends both.

Letters are kept for ever. The original is gone after its topic's retention, and then the letter is the only
copy: it is a person who decides that it may go.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Self

from headwater import clock
from headwater.clock import EPOCH
from headwater.log.record import Record
from headwater.log.topics import Topics

Headers = Sequence[tuple[str, bytes | None]]
SUFFIX = ".dead"
PREFIX = "headwater."
RESENT_FROM = f"{PREFIX}resent-from"
_NAMES = ("reason", "pipeline", "queue", "tries", "topic", "partition", "offset", "timestamp", "dead-at")
_OF_LATE_ONES = ("event-at", "watermark", "missed")
_OURS = {f"{PREFIX}{name}" for name in (*_NAMES, *_OF_LATE_ONES)}
_NEEDED = {f"{PREFIX}{name}" for name in ("topic", "partition", "offset", "timestamp", "dead-at")}
_LONGEST_REASON = 1000
_ROOM_FOR_HEADERS = 10_000
_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, kw_only=True)
class Letter:
    """A dead record: what it was, where it stood, and why it was given up."""

    topic: str
    partition: int
    offset: int
    timestamp: datetime
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    reason: str
    pipeline: str = ""
    queue: str = ""
    tries: int | None = None
    dead_at: datetime = field(default_factory=clock.now)

    @property
    def identity(self) -> tuple[str, int, int, datetime]:
        """What tells this record from every other, also of a topic that was made anew."""
        return self.topic, self.partition, self.offset, self.timestamp

    def written_headers(self) -> list[tuple[str, bytes | None]]:
        """The original headers, then ours."""
        ours = [
            (f"{PREFIX}{name}", text.encode(errors="replace")) for name, text in self._said().items() if text
        ]
        return [*_original(self.headers), *ours]

    def _said(self) -> dict[str, str]:
        return {
            "reason": self.reason[:_LONGEST_REASON],
            "pipeline": self.pipeline,
            "queue": self.queue,
            "tries": "" if self.tries is None else str(self.tries),
            "topic": self.topic,
            "partition": str(self.partition),
            "offset": str(self.offset),
            "timestamp": self.timestamp.isoformat(timespec="milliseconds"),
            "dead-at": self.dead_at.isoformat(timespec="milliseconds"),
        }

    @classmethod
    def read(cls, record: Record) -> Self | None:
        """The letter in a record of a dead topic; None for a record that is no letter."""
        said = {name: (value or b"").decode(errors="replace") for name, value in record.headers}
        if not said.keys() >= _NEEDED:
            return None
        try:
            return cls(**cls._from(record, {name.removeprefix(PREFIX): text for name, text in said.items()}))
        except (KeyError, ValueError):  # somebody else's idea of our headers
            return None

    @classmethod
    def _from(cls, record: Record, said: Mapping[str, str]) -> dict[str, Any]:
        return {
            "topic": said["topic"],
            "partition": int(said["partition"]),
            "offset": int(said["offset"]),
            "timestamp": datetime.fromisoformat(said["timestamp"]),
            "key": record.key,
            "value": record.data,
            "headers": _original(record.headers),
            "reason": said.get("reason", ""),
            "pipeline": said.get("pipeline", ""),
            "queue": said.get("queue", ""),
            "tries": int(said["tries"]) if "tries" in said else None,
            "dead_at": datetime.fromisoformat(said["dead-at"]),
        }


def dead_topic(topic: str) -> str:
    """The topic of another's dead letters."""
    return f"{topic}{SUFFIX}"


def prepare(topics: Topics, topic: str, place: str = "") -> int:
    """Make the topic for the letters of another, if it is missing; tells how large a letter may be."""
    source, place = topics.describe(topic), place or dead_topic(topic)
    largest = int(source.config["max.message.bytes"]) + _ROOM_FOR_HEADERS
    if place not in topics.names():
        config = {"retention.ms": "-1", "max.message.bytes": str(largest)}
        topics.ensure(place, source.partitions, config)
    elif int(topics.describe(place).config["max.message.bytes"]) < largest:
        topics.alter(place, config={"max.message.bytes": str(largest)})  # the source takes larger ones by now
    return largest


def resent_headers(letter: Letter, record: Record) -> list[tuple[str, bytes | None]]:
    """The headers of a record that goes back to its topic: its own, and where it comes from."""
    kept = [one for one in letter.headers if one[0] != RESENT_FROM]
    return [*kept, (RESENT_FROM, f"{record.topic}[{record.partition}]@{record.offset}".encode())]


def instant(milliseconds: int) -> datetime:
    """A moment of the log's clock."""
    return EPOCH + milliseconds * _MILLISECOND


def _original(headers: Iterable[tuple[str, bytes | None]]) -> list[tuple[str, bytes | None]]:
    return [(name, value) for name, value in headers if name not in _OURS]
