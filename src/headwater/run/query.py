"""Query: one pipeline as one of Spark's streaming queries, started, watched and stopped between batches."""

from queue import SimpleQueue
from threading import Event
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headwater.app import Pipeline
from headwater.run.columnar import Columnar
from headwater.run.gate import Gate
from headwater.run.progress import Progress
from headwater.run.realtime import in_real_time
from headwater.run.timekeeper import Timekeeper
from headwater.settings import Settings
from headwater.sink.contract import Batch

ENDED = None
"""What stands in the inbox after the last batch's progress."""

STOPPED = "stopped between two batches"
_START_WITHIN = 60.0
_QUERY_ID = "sql.streaming.queryId"


def checkpoint(label: str, settings: Settings) -> str:
    """Where a pipeline (`app.pipeline`) keeps its checkpoint."""
    return f"{settings.checkpoint_root}/{label.replace('.', '/')}"


class Query:
    """A pipeline under way; what it tells of its batches arrives in `inbox`."""

    def __init__(
        self,
        pipeline: Pipeline,
        label: str,
        settings: Settings,
        keeper: Timekeeper | None = None,
        engine: Columnar | None = None,
        gate: Gate | None = None,
    ) -> None:
        self.inbox: SimpleQueue[Progress | None] = SimpleQueue()
        self._pipeline = pipeline
        self._label = label
        self._settings = settings
        self._stopping = Event()
        self._written = self._committed = self._asked_at = -1
        self._keeper, self._engine, self._gate = keeper, engine, gate
        self._running: StreamingQuery | None = None
        self._has_started = Event()
        self._is_in_batches = True
        self._refused: dict[int, int] = {}

    def start(self, spark: SparkSession, rows: DataFrame, *, once: bool = False) -> None:
        """Start it on its checkpoint; with `once` it ends when it has read what is there now."""
        spark.streams.addListener(_Listener(self.inbox))
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", self._label)  # a fair share of slots
        if self._pipeline.latency == "real-time" and not once:
            writer = in_real_time(rows, self._pipeline, self._settings)
            self._is_in_batches = False
        else:
            writer = self._in_batches(rows, once=once)
        place = checkpoint(self._label, self._settings)
        self._running = writer.queryName(self._label).option("checkpointLocation", place).start()
        self._has_started.set()

    def _in_batches(self, rows: DataFrame, *, once: bool) -> DataStreamWriter:
        writer = rows.writeStream.outputMode(self._pipeline.output).foreachBatch(self._write)
        if once:
            return writer.trigger(availableNow=True)
        if self._pipeline.every is not None:
            return writer.trigger(processingTime=f"{self._pipeline.every.total_seconds()} seconds")
        return writer

    @property
    def is_active(self) -> bool:
        """Whether Spark still runs it."""
        return self._running is not None and self._running.isActive

    @property
    def failure(self) -> Exception | None:
        """Why it ended, unless it was asked to."""
        found = self._running.exception() if self._running is not None else None
        return None if found is None or STOPPED in str(found) else found

    def finish(self) -> None:
        """Let the batch in hand end, and begin no other."""
        if not self._stopping.is_set():
            self._asked_at = self._committed
            self._stopping.set()

    def refused(self, number: int) -> int:
        """How many rows its outputs have refused for good, up to a batch and since they were last asked."""
        return sum(self._refused.pop(one) for one in sorted(self._refused) if one <= number)

    def committed(self, number: int) -> None:
        """Know that a batch is whole: its outputs written, its number in the checkpoint."""
        self._committed = number

    @property
    def is_between_batches(self) -> bool:
        """Whether ending it now repeats nothing."""
        if not self._is_in_batches:
            return self._committed > self._asked_at
        return self._written <= self._committed

    def stop(self) -> None:
        """End it now."""
        if self._running is not None:
            self._running.stop()

    def _write(self, rows: DataFrame, number: int) -> None:
        if self._gate is not None:
            self._gate.wait()
        if self._stopping.is_set():  # the batch is planned, nothing of it is written: it runs next time
            raise InterruptedError(STOPPED)
        self._written = number
        query = rows.sparkSession.sparkContext.getLocalProperty(_QUERY_ID) or ""
        batch = Batch(self._label, number, query, self._settings)
        if self._engine is not None:
            self._write_all(self._engine.answer(rows, number), batch)
            self._engine.end(number)
            return
        if self._keeper is not None:
            self._keeper.begin(number)
        self._write_all(rows, batch)
        if self._keeper is not None:
            self._keeper.end(number, self._tracker)

    def _write_all(self, rows: DataFrame, batch: Batch) -> None:
        if len(self._pipeline.sinks) > 1:  # once computed, so that state is not touched twice
            rows = rows.persist()
        try:
            refused = sum(sink.write(rows, batch) or 0 for sink in self._pipeline.sinks)
        finally:
            if len(self._pipeline.sinks) > 1:
                rows.unpersist()
        self._refused[batch.number] = refused

    @property
    def _tracker(self) -> Any:
        """Spark's own keeper of this query's watermark."""
        if not self._has_started.wait(_START_WITHIN) or self._running is None:
            raise TimeoutError("the query that runs is not there")
        return self._running._jsq.streamingQuery().watermarkTracker()  # noqa: SLF001 - see ADR 11


class _Listener(StreamingQueryListener):
    """Puts what Spark tells into an inbox: its thread is shared by all queries and must not wait."""

    def __init__(self, inbox: "SimpleQueue[Progress | None]") -> None:
        self._inbox = inbox

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's names
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        self._inbox.put(Progress.of(event.progress))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: ARG002, N802
        self._inbox.put(ENDED)
