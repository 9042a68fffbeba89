"""The slices of one batch, agreed with what earlier tries of it have recorded.

A batch that was written in part must be finished in the same slices. The scheme is recorded in the
sink's group before the first slice is written, and again in every marker, so that a try with another
function or other settings notices. When the scheme changes between two batches, every writer of
the old one is fenced first: a zombie of it could no longer be recognised by the new slices.
"""

from datetime import timedelta

from pyspark.sql import DataFrame

from headwater.clock import Deadline
from headwater.errors import SinkAhead, SlicesChanged, UnknownTopic
from headwater.log.connection import Connection
from headwater.log.topics import Topics
from headwater.sink.contract import Batch
from headwater.sink.markers import SLICES, WHOLE, Marker, Markers, Place
from headwater.sink.slices import Slices, found_in, numbered
from headwater.sink.transactions import fence

_AGAIN = timedelta(hours=1)
_RECORDED: dict[str, Deadline] = {}


def agree(rows: DataFrame, batch: Batch, markers: Markers, connection: Connection) -> Slices:
    """The slices in which this batch is written, now and whenever it is tried again."""
    recorded = markers.read([WHOLE]).get(WHOLE)
    wanted = found_in(rows, batch.number) or numbered("hash", _count(rows, recorded), batch.number)
    if recorded is not None and recorded.scheme == wanted.scheme:
        known, topics = markers.read({one.place for one in wanted.slices}), set(recorded.topics)
    else:
        known, topics = _changed(wanted, recorded, batch, markers, connection), set()
    refuse_passed(known, batch, markers.group)
    if not set(wanted.topics) <= topics or _is_due(markers.group):
        _record(wanted, topics, batch, markers)
    return wanted


def refuse_passed(known: dict[Place, Marker], batch: Batch, group: str) -> None:
    """SinkAhead when this checkpoint has already written a later batch."""
    latest = max((one.batch for one in known.values() if one.query == batch.query), default=-1)
    if latest > batch.number:
        raise SinkAhead(
            f"batch {batch.number} of pipeline {batch.pipeline!r} comes after batch {latest}",
            detail=f"recorded in the consumer group {group!r}",
            hint="is the pipeline running twice, or was an old copy of its checkpoint restored? "
            "with a new checkpoint it begins again, and writes again",
        )


def _changed(
    wanted: Slices, recorded: Marker | None, batch: Batch, markers: Markers, connection: Connection
) -> dict[Place, Marker]:
    """Go over to another scheme, unless this batch is half written in the old one."""
    old = _old_places(recorded, connection)
    for place in old:
        fence(batch.settings, markers.group, place)
    markers.make_room(len(wanted.slices) if wanted.scheme != "source" else 0)
    known = markers.read_settled(old | {one.place for one in wanted.slices})
    mine = [one for one in known.values() if (one.query, one.batch) == (batch.query, batch.number)]
    begun = {one.scheme for one in mine} - {wanted.scheme}
    if begun:
        raise SlicesChanged(
            f"batch {batch.number} of pipeline {batch.pipeline!r} was written in part, cut by "
            f"{', '.join(begun)}, and is now cut by {wanted.scheme}",
            hint="run the pipeline as it was until this batch is through, then change it",
        )
    return known


def _record(wanted: Slices, topics: set[str], batch: Batch, markers: Markers) -> None:
    """Say which scheme is in force; again from time to time, because old offsets expire."""
    everywhere = tuple(sorted(topics | set(wanted.topics)))
    markers.set(WHOLE, batch.number, Marker(batch.query, batch.number, wanted.scheme, everywhere))
    _RECORDED[markers.group] = Deadline(_AGAIN)


def _is_due(group: str) -> bool:
    return group not in _RECORDED or _RECORDED[group].passed


def _old_places(recorded: Marker | None, connection: Connection) -> set[Place]:
    """Every place at which a writer of the recorded scheme may stand."""
    if recorded is None:
        return set()
    count = int(recorded.scheme.partition("/")[2] or 0)
    places = {Place(SLICES, number + 1) for number in range(count)}
    for topic in set(recorded.topics) - {SLICES}:
        places |= {Place(topic, one) for one in range(_partitions(topic, connection))}
    return places


def _partitions(topic: str, connection: Connection) -> int:
    try:
        return Topics(connection).partitions(topic)
    except UnknownTopic:  # a source that is gone has no writers
        return 0


def _count(rows: DataFrame, recorded: Marker | None) -> int:
    """How many slices rows are shuffled into: what was recorded, else as many as there are task slots."""
    if recorded is not None and recorded.scheme.startswith("hash/"):
        return int(recorded.scheme.partition("/")[2])
    return max(1, rows.sparkSession.sparkContext.defaultParallelism)
