"""Again: a pipeline's function over its topics from their beginning, into other outputs.

It is the same pipeline under another name, with a checkpoint and a group of its own, so it can be ended at
any moment and goes on later. Dead and late records of the past are not written once more.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from headwater.app import App, Pipeline
from headwater.errors import UnknownGroup
from headwater.log.connection import Connection
from headwater.log.log import Log
from headwater.log.member import Partition
from headwater.log.positions import Positions
from headwater.process.event_time import Divert, Drop, Grace
from headwater.run.history import History
from headwater.run.plan import rows_of
from headwater.run.query import checkpoint
from headwater.run.standing import Places
from headwater.run.steps import steps_of
from headwater.run.supervise import Supervisor
from headwater.settings import Settings
from headwater.sink.contract import REBUILD, Sink

_NOWHERE = {"kafka.bootstrap.servers": "127.0.0.1:9"}
_LOOK_EVERY = 0.2


class Again:
    """A pipeline's topics, read again; `rows` counts what was read here."""

    def __init__(self, app: App, pipeline: Pipeline, spark: SparkSession, settings: Settings) -> None:
        self.label = f"{app.label(pipeline)}{REBUILD}"
        self.rows = 0
        self._app, self._pipeline = app.name, _from_the_beginning(pipeline)
        self._spark, self._settings = spark, settings
        self._log, self._positions = Log(settings), Positions(Connection(settings))
        self._history = History(checkpoint(self.label, settings), spark)

    @property
    def is_begun(self) -> bool:
        """Whether it has ever run."""
        return self._history.exists

    def columns(self, sinks: Sequence[Sink]) -> StructType:
        """The columns of its rows, if these outputs can have them."""
        pipeline = replace(self._pipeline, writes=tuple(sinks))
        steps = steps_of(pipeline, self._spark.newSession())
        if steps is not None:
            return steps.output
        return rows_of(pipeline, self._spark.newSession(), self._settings, _NOWHERE, {}).schema

    @contextmanager
    def into(self, sinks: Sequence[Sink]) -> Iterator[Supervisor]:
        """The query under way; at the end of the block it finishes the batch in hand."""
        app = App(self._app, replace(self._pipeline, writes=tuple(sinks)))
        running = Supervisor(app, self._spark, self._settings, rebuilds=True)
        running.start()
        try:
            yield running
        finally:
            running.stop()
            running.join()
            self.rows += sum(one.rows for one in running.figures)

    def reach(self, running: Supervisor, ends: Places) -> Iterator[int]:
        """How many records are still to be read up to there, again and again until there are none."""
        settled = self._log.groups.committed(self.label)
        while lacks := _distance(settled | _read_by(running), ends):
            for error in running.errors:
                raise error
            yield lacks
            time.sleep(_LOOK_EVERY)

    def ends(self) -> Places:
        """Where its topics end now."""
        asked = self._topics().items()
        return _flat({one: self._positions.end(one, parts, committed=True) for one, parts in asked})

    def firsts(self) -> Places:
        """Where they begin."""
        return _flat({one: self._positions.first(one, parts) for one, parts in self._topics().items()})

    def forget(self) -> None:
        """Remove its checkpoint and its groups."""
        self._history.forget()
        for group in self._log.groups.names():
            if group == self.label or group.startswith(f"{self.label}.to."):
                with suppress(UnknownGroup):
                    self._log.groups.delete(group)

    def _topics(self) -> dict[str, range]:
        names = [one.topic.name for one in self._pipeline.sources]
        return {one: range(self._log.topics.partitions(one)) for one in names}


def _from_the_beginning(pipeline: Pipeline) -> Pipeline:
    late = pipeline.late
    if isinstance(late, Divert):
        late = Grace(late.grace) if late.grace else Drop()
    reads = [replace(one, start="beginning") for one in pipeline.sources]
    name = f"{pipeline.name}{REBUILD}"
    return replace(pipeline, name=name, reads=reads, late=late, dead_limit=None, every=None)


def _read_by(running: Supervisor) -> Places:
    """Up to where a query has read and written."""
    (one,) = running.pipelines
    newest = list(one.history)[-1:]
    return _flat({topic: ends for found in newest for topic, ends in found.ends.items()})


def _distance(places: Places, ends: Places) -> int:
    return sum(max(0, end - places.get(where, 0)) for where, end in ends.items())


def _flat(found: Mapping[str, Mapping[int, int]]) -> Places:
    return {Partition(topic, part): at for topic, places in found.items() for part, at in places.items()}
