"""Ticks: a record now and then that wakes a pipeline whose topics are silent, so that event time goes on.

Spark runs a batch when there is something to read. A pipeline with `idle=` therefore reads one more topic, of
its own, that holds nothing but such wake-up calls. They are left out before anything is decoded.
"""

from datetime import timedelta

from headwater.log.connection import Connection
from headwater.log.log import Log
from headwater.log.topics import Topics
from headwater.settings import Settings

_PREFIX = "headwater.ticks."
_KEPT = timedelta(hours=1)


def ticks_of(label: str) -> str:
    """The topic of a pipeline's ticks (`app.pipeline`)."""
    return f"{_PREFIX}{label}"


def are_ticks(topic: str) -> bool:
    """Whether a topic holds ticks."""
    return topic.startswith(_PREFIX)


class Ticks:
    """The wake-up calls of one pipeline."""

    def __init__(self, label: str, settings: Settings) -> None:
        self.topic = ticks_of(label)
        self._settings = settings
        millis = str(_KEPT // timedelta(milliseconds=1))
        Topics(Connection(settings)).ensure(self.topic, 1, {"retention.ms": millis})

    def send(self) -> None:
        """Wake it up."""
        with Log.open(self._settings).writer() as writer:
            writer.append_bytes(self.topic, b"")
