"""Writing one slice of a batch in one Kafka transaction, on the executors.

The transaction holds the slice's records and its marker, so both are there or neither. Its id is the
slice's, so the broker lets one writer live for each slice: opening a producer fences every older
one and settles what that left open. Then, and only then, the marker is looked at, and a slice that is
there already is not written again.

Producers are kept from batch to batch in the Python worker. A kept one needs no look: the marker is the
first thing that it sends, before a row is taken from the input, and the broker refuses it
when any other writer was opened since. Then it is thrown away and the slice begins anew.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import chain
from typing import Self

import pyarrow as pa
from confluent_kafka import KafkaException
from pyspark import TaskContext

from headwater.clock import Deadline
from headwater.errors import HeadwaterError, OutcomeUnknown, SlicesChanged, TransactionAborted, WriterFenced
from headwater.log.connection import Connection
from headwater.log.transaction import Transactions
from headwater.settings import Settings
from headwater.sink.markers import Marker, Markers, Place, group_client
from headwater.sink.producer import Sender, open_producer, transaction_time
from headwater.sink.slices import Slice

Blocks = Iterator[pa.RecordBatch]
SETTLE_WITHIN = timedelta(seconds=60)
_KEPT = 32
"""Producers that a worker keeps: each has threads and connections of its own."""

_WRITERS: "OrderedDict[tuple[str, str], SliceWriter]" = OrderedDict()


@dataclass(frozen=True)
class Job:
    """What the tasks of one batch share."""

    settings: Settings = field(repr=False)
    topic: str
    group: str
    slices: tuple[Slice, ...]
    marker: Marker
    encode: Callable[[Blocks], Blocks]

    def __call__(self, blocks: Blocks) -> Blocks:
        """Write the slice of this task; gives the number of records, zero when they were there."""
        written = write_slice(self, TaskContext.get().partitionId(), blocks)  # type: ignore[union-attr]
        yield pa.RecordBatch.from_pydict({"written": [written]})


class SliceWriter:
    """A producer that is the only one of its slice, until another is opened."""

    def __init__(self, settings: Settings, group: str, place: Place) -> None:
        self._connection = connection = Connection(settings)
        self._group = group
        self._time = transaction_time(settings)
        self._over = Deadline(self._time)
        identifier = transactional_id(group, place)
        self._producer = open_producer(connection, identifier, self._time)
        self._transactions = Transactions(self._producer, identifier, connection, SETTLE_WITHIN)
        self.last = Markers(connection, group).read_settled([place]).get(place)

    def begun(self, slice_: Slice, marker: Marker) -> Self:
        """Begin with the marker, which proves that no other writer was opened; not if it is there already."""
        if self.last != marker:
            self._over = Deadline(self._time)
            self._transactions.begin()
            group = group_client(self._connection, self._group).consumer_group_metadata()
            self._transactions.add_offsets([marker.at(slice_.place, slice_.end)], group)
        return self

    def write(self, topic: str, blocks: Blocks, marker: Marker) -> int:
        """Append the blocks and commit; on any error nothing of it is there."""
        sender = Sender(self._producer, topic, self._connection)
        try:
            with self._transactions.translated():
                written = sum(sender.send(one) for one in blocks)
            self._transactions.commit()
        except WriterFenced as error:
            self._blame_time(error)
            raise
        finally:
            self._abort_if_open()
        self.last = marker
        return written

    def _blame_time(self, error: WriterFenced) -> None:
        """A broker fences a writer, too, whose transaction has run for too long."""
        if self._over.passed:
            raise TransactionAborted(
                f"a slice took longer than the {self._time.total_seconds():.0f} s of its transaction",
                hint="read fewer records in a batch, or raise transaction.timeout.ms in kafka_options "
                "(and transaction.max.timeout.ms on the broker)",
            ) from error

    def _abort_if_open(self) -> None:
        if self._transactions.is_open:  # where this fails, the slice's next writer settles it
            with suppress(HeadwaterError, KafkaException):
                self._transactions.abort()


def write_slice(job: Job, partition: int, blocks: Blocks) -> int:
    """Write what one task has, once; tells how many records it wrote.

    An empty slice needs no transaction and no marker: it is as empty when it is tried again. A slice that
    is there already is read to its end all the same, because the state behind it is saved only then.
    """
    filled = (one for one in job.encode(blocks) if one.num_rows)
    first = next(filled, None)
    if first is None:
        return 0
    number = _number(first, partition)
    slice_ = job.slices[number]
    same = (_of_slice(one, number) for one in chain([first], filled))
    writer, written = _claimed(job, slice_), 0
    if writer.last == job.marker:
        deque(same, maxlen=0)
    else:
        writer, written = _settled(writer, job, slice_, same)
    _keep(writer, job, slice_)
    return written


def _settled(writer: SliceWriter, job: Job, slice_: Slice, blocks: Blocks) -> tuple[SliceWriter, int]:
    """Write, and where the answer to the commit did not come, ask a new writer what became of it."""
    try:
        return writer, writer.write(job.topic, blocks, job.marker)
    except OutcomeUnknown:
        writer = SliceWriter(job.settings, job.group, slice_.place)
        if writer.last != job.marker:
            raise
        return writer, 0


def _claimed(job: Job, slice_: Slice) -> SliceWriter:
    """The slice's only writer, with a transaction begun unless the slice is there already."""
    kept = _WRITERS.pop(_key(job, slice_), None)
    if kept is not None:
        with suppress(HeadwaterError, KafkaException):  # fenced, or broken, since the last batch
            return kept.begun(slice_, job.marker)
    return SliceWriter(job.settings, job.group, slice_.place).begun(slice_, job.marker)


def _keep(writer: SliceWriter, job: Job, slice_: Slice) -> None:
    _WRITERS[_key(job, slice_)] = writer
    while len(_WRITERS) > _KEPT:
        _WRITERS.popitem(last=False)


def _key(job: Job, slice_: Slice) -> tuple[str, str]:
    return str(job.settings.kafka), transactional_id(job.group, slice_.place)


def _number(block: pa.RecordBatch, partition: int) -> int:
    """Which slice a task has: shuffled rows carry its number themselves."""
    return int(block.column("slice")[0].as_py()) if "slice" in block.schema.names else partition


def _of_slice(block: pa.RecordBatch, number: int) -> pa.RecordBatch:
    """The block, when all of it is of one slice; Spark may put shuffled partitions together."""
    if "slice" in block.schema.names:
        found = block.column("slice").to_numpy()  # (pyarrow.compute is 10 MB of every worker)
        if (found != number).any():
            raise SlicesChanged(f"rows of several slices came in one task: {number}, {set(found)}")
    return block


def fence(settings: Settings, group: str, place: Place) -> None:
    """Fence every writer of a slice, and settle what it left open."""
    SliceWriter(settings, group, place)


def transactional_id(group: str, place: Place) -> str:
    """The id that one slice of one sink has for ever."""
    return f"{group}/{place.topic}/{place.partition}"
