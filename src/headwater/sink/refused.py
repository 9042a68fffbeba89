"""Refused rows: what an output will never take, as dead letters of that output, each once.

The letters stand in `<output>.dead`. They are written in one transaction with a marker that names the
batch, after the batch's other rows. A batch that is tried again has the same rows refused again and finds
the marker.
"""

from collections.abc import Sequence
from typing import NamedTuple

from headwater import clock
from headwater.log.connection import Connection
from headwater.log.letter import Letter, dead_topic
from headwater.log.member import Partition
from headwater.log.topics import Topics
from headwater.log.transfer import Transfer
from headwater.sink.contract import Batch
from headwater.sink.markers import WHOLE, Marker, Markers

LARGEST = 20_000_000
"""Bytes of the largest letter; a row that has more is cut."""

_ROOM_FOR_HEADERS = 10_000


class Refused(NamedTuple):
    """A row that an output refused: its key and what it would have been there, its position, and why."""

    key: str
    position: int
    value: bytes
    reason: str


def bury(refused: Sequence[Refused], batch: Batch, sink: str) -> int:
    """Write the letters of a batch, unless they are there; tells how many rows were refused."""
    if not refused:
        return 0
    connection, group = Connection(batch.settings), f"{batch.pipeline}.to.{sink}"
    markers, marker = Markers(connection, group), Marker(batch.query, batch.number, "refused")
    markers.make_room(0)
    _make(Topics(connection), dead_topic(sink))
    with Transfer(connection, f"{group}.dead", group=group, largest=LARGEST) as transfer:
        if markers.read_settled([WHOLE]).get(WHOLE) != marker:
            with transfer.transaction({Partition(*WHOLE): batch.number + 1}, said=marker.text):
                for one in refused:
                    _append(transfer, one, batch, sink)
    return len(refused)


def _make(topics: Topics, place: str) -> None:
    if place not in topics.names():
        topics.ensure(place, 1, {"retention.ms": "-1", "max.message.bytes": str(LARGEST)})


def _append(transfer: Transfer, one: Refused, batch: Batch, sink: str) -> None:
    letter = Letter(
        topic=sink,
        partition=0,
        offset=one.position,
        timestamp=clock.now(),
        key=one.key.encode(),
        value=one.value[: LARGEST - _ROOM_FOR_HEADERS],
        reason=one.reason,
        pipeline=batch.pipeline,
    )
    headers = letter.written_headers()
    transfer.append(dead_topic(sink), key=letter.key, value=letter.value, headers=headers, partition=0)
