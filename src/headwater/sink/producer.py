"""The producer under a slice: how it is opened quickly, and how it takes blocks of records.

Opening costs what connecting costs, about 15 ms. By default it costs 55 or 500 instead: the client waits
before it connects a second time, and a question that it could not ask at once it asks again after half
a second, unless `init_transactions` is called again.
"""

import gc
from datetime import timedelta
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Producer

from headwater.clock import Deadline
from headwater.errors import RecordTooLarge
from headwater.log.connection import Connection, raise_for, translated
from headwater.settings import Settings

TRANSACTION = timedelta(minutes=10)
"""How long a slice may take; a broker allows 15 minutes unless told otherwise."""

_TRY = 0.05
_AT_ONCE = 20_000
_WAITING = 200_000
"""Records that may wait to be sent; the client's own limit is far above it, so it is never full."""

_BYTES = 256_000_000


class QuickProducer(Producer):
    """A producer whose `init_transactions` does not sit out the client's half second."""

    def init_transactions(self, timeout: float = -1) -> None:
        """Open the id: fence older producers and settle their transactions."""
        deadline = Deadline(timedelta(seconds=timeout))
        while True:
            try:
                return super().init_transactions(_TRY)
            except KafkaException as error:
                if not error.args[0].retriable() or deadline.passed:
                    raise


def transaction_time(settings: Settings) -> timedelta:
    """How long a transaction may be open: Kafka's own option, or ten minutes."""
    given = settings.kafka_options.get("transaction.timeout.ms")
    return timedelta(milliseconds=int(given)) if given else TRANSACTION


def open_producer(connection: Connection, identifier: str, time: timedelta) -> QuickProducer:
    """A transactional producer, not yet initialised; keys go where Java's clients put them."""
    config = connection.config(
        transactional_id=identifier,
        transaction_timeout_ms=time // timedelta(milliseconds=1),
        partitioner="murmur2_random",
        reconnect_backoff_ms=4,
        linger_ms=20,
        batch_size=1_000_000,
        queue_buffering_max_messages=1_000_000,
        queue_buffering_max_kbytes=2_000_000,
    )
    with translated(connection):
        return QuickProducer(config)


class Sender:
    """Takes blocks with the columns `key` and `value` and appends their records, in order."""

    def __init__(self, producer: Any, topic: str, connection: Connection) -> None:
        self._producer = producer
        self._topic = topic
        self._connection = connection
        self._bytes = 0

    def send(self, block: pa.RecordBatch) -> int:
        """Append a block's records; tells how many."""
        for start in range(0, block.num_rows, _AT_ONCE):
            part = block.slice(start, _AT_ONCE)
            self._wait_for_room(part)
            self._append(part)
        return int(block.num_rows)

    def _wait_for_room(self, part: pa.RecordBatch) -> None:
        """Never let the client's buffer be full: what it refuses would be overtaken by the rest."""
        self._bytes += part.nbytes
        if self._bytes > _BYTES:
            self._producer.flush()
            self._bytes = part.nbytes
        while len(self._producer) > _WAITING:
            self._producer.poll(0.01)
        self._producer.poll(0)

    def _append(self, part: pa.RecordBatch) -> None:
        keys, values = part.column("key").to_pylist(), part.column("value").to_pylist()
        gc.disable()  # thousands of small objects that live for a moment
        try:
            records = [{"key": key, "value": value} for key, value in zip(keys, values, strict=True)]
            taken = self._producer.produce_batch(self._topic, records)
        finally:
            gc.enable()
        if taken != len(records):
            self._refuse(next(one for one in records if "_error" in one))

    def _refuse(self, record: dict[str, Any]) -> None:
        error: KafkaError = record["_error"]
        if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            raise RecordTooLarge(
                f"a record of {len(record['value'] or b''):,} bytes is too large for topic {self._topic!r}",
                hint="nothing of its slice was written; raise message.max.bytes in kafka_options "
                "and max.message.bytes of the topic, or keep large things elsewhere",
            )
        raise_for(error, self._connection, topic=self._topic)
