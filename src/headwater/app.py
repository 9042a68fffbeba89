"""App and Pipeline: the values that the runner, the linter, the tests and the console all read.

A Pipeline binds a plain PySpark function (or SQL) to the topics that it reads and the sinks that it
writes. It is checked when it is made and needs neither a broker nor a Spark session: importing an app
starts nothing.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

from headwater.capture.outbox import Outbox
from headwater.capture.table import Table
from headwater.errors import BadPipeline
from headwater.log.topic import Topic
from headwater.process.event_time import NONE, Adaptive, Divert, Late, Punctuated, Watermark
from headwater.sink.contract import GUARANTEES, Sink

Latency = Literal["micro-batch", "real-time"]
Output = Literal["append", "update", "complete"]
Start = Literal["beginning", "end"]
_CHOICES: dict[str, tuple[str, ...]] = {
    "latency": ("micro-batch", "real-time"),
    "output": ("append", "update", "complete"),
}
_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_-]{0,99}")


@dataclass(frozen=True)
class Source:
    """A topic as a pipeline reads it: from where, and whether with the record around the row.

    `start` counts once, when the pipeline first runs; afterwards it goes on where it stopped. With
    `record=True` the rows have one more column, `_record`: the record's key, partition, offset and
    timestamp.
    """

    topic: Topic
    start: Start = field(default="beginning", kw_only=True)
    record: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        _check_choice("a source's start", self.start, ("beginning", "end"))
        if self.record and "_record" in self.topic.spark_schema.names:
            raise BadPipeline(f"topic {self.topic.name!r} has a column _record of its own")

    @property
    def table(self) -> str:
        """Its name in SQL: the topic's, with an underscore for what SQL would have to quote."""
        return re.sub(r"\W", "_", self.topic.name)


@dataclass(frozen=True)
class Pipeline:
    """A function from the rows of its topics to the rows of its outputs, and how it is to run.

    The function gets one DataFrame for each of `reads`, in order, and returns one; with `sql`, the
    topics are tables. `batch` bounds the records of one micro-batch, `every` spaces batches out (in real
    time it is their length), and `dead_limit` stops the pipeline when more records than that were dead
    letters since it started.
    """

    name: str
    function: Callable[..., Any] | None = field(default=None)
    sql: str | None = field(default=None, kw_only=True)
    reads: Sequence[Topic | Table | Source] = field(kw_only=True)
    writes: Sink | Sequence[Sink] = field(kw_only=True)
    watermark: Watermark | None = field(default=None, kw_only=True)
    late: Late | None = field(default=None, kw_only=True)
    latency: Latency = field(default="micro-batch", kw_only=True)
    output: Output = field(default="append", kw_only=True)
    every: timedelta | None = field(default=None, kw_only=True)
    batch: int = field(default=1_000_000, kw_only=True)
    dead_limit: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "reads", tuple(self.reads))
        if isinstance(self.writes, Sequence):
            object.__setattr__(self, "writes", tuple(self.writes))
        _check_name("pipeline", self.name)
        self._check_logic()
        self._check_sources()
        self._check_sinks()
        self._check_event_time()
        self._check_numbers()
        for field_name, choices in _CHOICES.items():
            _check_choice(f"{field_name} of pipeline {self.name!r}", getattr(self, field_name), choices)
        self._check_real_time()

    @property
    def sources(self) -> tuple[Source, ...]:
        """What it reads, each as a Source."""
        return tuple(_source(one) for one in self.reads)

    @property
    def sinks(self) -> tuple[Sink, ...]:
        """What it writes."""
        return tuple(self.writes) if isinstance(self.writes, Sequence) else (self.writes,)

    @property
    def waits(self) -> timedelta:
        """How far its watermark stays behind the newest event: the delay and the grace."""
        return (self.watermark.delay if self.watermark else NONE) + (self.late.grace if self.late else NONE)

    @property
    def late_topic(self) -> str | None:
        """Where its late rows go, if they are diverted."""
        return self.late.topic if isinstance(self.late, Divert) else None

    @property
    def future(self) -> timedelta | None:
        """How far an event may be ahead of the log's clock."""
        return self.watermark.future if self.watermark else None

    def _check_logic(self) -> None:
        if (self.function is None) == (self.sql is None):
            raise BadPipeline(
                f"pipeline {self.name!r} needs a function or SQL, one of them",
                hint='Pipeline("name", function, …) or Pipeline("name", sql="SELECT …", …)',
            )
        if self.function is not None and not callable(self.function):
            raise BadPipeline(f"the function of pipeline {self.name!r} cannot be called: {self.function!r}")

    def _check_sources(self) -> None:
        for one in self.reads:
            if not isinstance(one, Topic | Table | Source):
                raise BadPipeline(
                    f"pipeline {self.name!r} cannot read {one!r}", hint="it reads Topics and captured Tables"
                )
        names = [one.topic.name for one in self.sources]
        if not names:
            raise BadPipeline(f"pipeline {self.name!r} reads nothing", hint="reads=[TOPIC]")
        _check_twice(f"pipeline {self.name!r} reads", names)

    def _check_sinks(self) -> None:
        for one in self.sinks:
            if not isinstance(one, Sink):
                raise BadPipeline(
                    f"pipeline {self.name!r} cannot write to {one!r}", hint="writes=KafkaSink(TOPIC)"
                )
            _check_choice(f"the guarantee of {one.name!r}", one.guarantee, GUARANTEES)
        if not self.sinks:
            raise BadPipeline(f"pipeline {self.name!r} writes nothing", hint="writes=KafkaSink(TOPIC)")
        for kind in {type(one) for one in self.sinks}:  # two systems may each have a copy of that name
            same = [one.name for one in self.sinks if type(one) is kind]
            _check_twice(f"pipeline {self.name!r} writes", same)

    def _check_event_time(self) -> None:
        if self.watermark is not None:
            for one in self.sources:
                if one.topic.event_time is None:
                    raise BadPipeline(
                        f"pipeline {self.name!r} has a watermark, but topic {one.topic.name!r} no event time",
                        hint='name its column: Topic(…, event_time="paid_at")',
                    )
                self._check_punctuation(one.topic)
        if (self.watermark is None) != (self.late is None):
            lacks = "late" if self.late is None else "watermark"
            raise BadPipeline(
                f"pipeline {self.name!r} has no {lacks}=",
                hint="a watermark decides which rows are late, late= what becomes of them: "
                "watermark=Bounded(timedelta(seconds=30)), late=Drop()",
            )

        taken = {*(one.topic.name for one in self.sources), *(one.name for one in self.sinks)}
        if self.late_topic in taken:
            raise BadPipeline(
                f"pipeline {self.name!r} reads or writes the topic of its late rows, {self.late_topic!r}",
                hint="late letters have a topic of their own",
            )

    def _check_punctuation(self, topic: Topic) -> None:
        if not isinstance(self.watermark, Punctuated):
            return
        kinds = {one.name: one.dataType.typeName() for one in topic.spark_schema.fields}
        if kinds.get(self.watermark.column) not in {"timestamp", "timestamp_ntz"}:
            raise BadPipeline(
                f"topic {topic.name!r} has no timestamp {self.watermark.column!r} that says how far it is",
                hint="Punctuated(column) names a timestamp of every topic that the pipeline reads",
            )

    def _check_numbers(self) -> None:
        if self.batch < 1:
            raise BadPipeline(f"a batch of pipeline {self.name!r} must hold at least one record")
        if self.every is not None and self.every <= timedelta(0):
            raise BadPipeline(f"every= of pipeline {self.name!r} must be a positive duration")
        if self.dead_limit is not None and self.dead_limit < 0:
            raise BadPipeline(f"dead_limit of pipeline {self.name!r} cannot be negative")

    def _check_real_time(self) -> None:
        if self.latency != "real-time":
            return
        spec = self.watermark
        if isinstance(spec, Adaptive | Punctuated) or (spec is not None and spec.idle is not None):
            raise BadPipeline(
                f"pipeline {self.name!r} cannot move its watermark in real time",
                hint='write watermark=Bounded(…) or Monotonic() without idle=, or latency="micro-batch"',
            )
        if self.late_topic is not None:
            raise BadPipeline(
                f"pipeline {self.name!r} cannot divert late rows in real time",
                hint='write late=Drop(), or latency="micro-batch"',
            )
        for one in self.sinks:
            if one.guarantee != "at-least-once":
                raise BadPipeline(
                    f"pipeline {self.name!r} cannot be {one.guarantee} in real time",
                    hint='rows leave before the batch is whole: write guarantee="at-least-once", '
                    'or latency="micro-batch" for exactly-once',
                )


@dataclass(frozen=True, init=False)
class App:
    """Pipelines that run together, under one name that their groups and checkpoints carry.

    `captures` are the tables and outboxes whose capture belongs to this app: it registers their connectors.
    Another app may read their changes without capturing them again.
    """

    name: str
    pipelines: tuple[Pipeline, ...]
    captures: tuple[Table | Outbox, ...]

    def __init__(self, name: str, *pipelines: Pipeline, captures: Sequence[Table | Outbox] = ()) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "pipelines", pipelines)
        object.__setattr__(self, "captures", tuple(captures))
        _check_name("app", name)
        if not pipelines and not captures:
            raise BadPipeline(f"app {name!r} has no pipeline", hint='App("name", Pipeline(…))')
        _check_twice(f"app {name!r} has", [one.name for one in pipelines])
        _check_twice(f"app {name!r} captures", [_captured(one) for one in self.captures])

    def only(self, names: Sequence[str]) -> "App":
        """The app with these of its pipelines; all of them when none is named."""
        known = {one.name: one for one in self.pipelines}
        for name in names:
            if name not in known:
                raise BadPipeline(
                    f"app {self.name!r} has no pipeline {name!r}", hint=f"its pipelines: {', '.join(known)}"
                )
        chosen = (known[name] for name in names)
        return App(self.name, *chosen, captures=self.captures) if names else self

    def label(self, pipeline: Pipeline) -> str:
        """The pipeline's name among all apps: its Kafka group, and the root of its other names."""
        return f"{self.name}.{pipeline.name}"


def _source(read: Topic | Table | Source) -> Source:
    match read:
        case Source():
            return read
        case Table():
            return Source(read.changes)
    return Source(read)


def _captured(one: Table | Outbox) -> str:
    return one.changes.name if isinstance(one, Table) else f"{one.database.name}.{one.table}"


def _check_name(what: str, name: str) -> None:
    if not _NAME.fullmatch(name):
        raise BadPipeline(
            f"{name!r} cannot be the name of {'an' if what == 'app' else 'a'} {what}",
            hint="use 1 to 100 of: letters, digits, dash, underscore; it names groups and folders",
        )


def _check_twice(what: str, names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise BadPipeline(f"{what} {name!r} twice")


def _check_choice(what: str, found: str, choices: tuple[str, ...]) -> None:
    if found not in choices:
        raise BadPipeline(f"{what} cannot be {found!r}", hint=f"known: {', '.join(choices)}")
