"""Verify a pipeline: each of its copies against the source, the log or the database itself.

It must be a plain copy: one captured table, `upserts`, and outputs that keep rows by the table's key. Of any
other function nobody knows here what a row of the copy should be.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from headwater.app import App, Pipeline
from headwater.capture.table import Table, upserts
from headwater.errors import BadPipeline
from headwater.log.formats.changes import POSITION
from headwater.settings import Settings
from headwater.sink.contract import KeyedSink, Sink
from headwater.verify.canonical import Row, canonical, digest_of
from headwater.verify.compare import Comparison, Verdict
from headwater.verify.database_source import DatabaseSource
from headwater.verify.log_source import LogSource
from headwater.verify.sides import Key, OnProgress, Source

Against = Literal["log", "database"]
_HINT = "verify compares plain copies: Pipeline(…, upserts, reads=[TABLE], writes=…)"


@dataclass(frozen=True, kw_only=True)
class Verified:
    """One copy and what became of its comparison."""

    copy: str
    kind: str
    against: Against
    verdict: Verdict


def verify(
    app: App,
    name: str,
    settings: Settings,
    *,
    against: Against = "log",
    within: timedelta = timedelta(seconds=60),
    show: int = 10,
    progress: OnProgress = lambda *_: None,
) -> Iterator[Verified]:
    """Compare each copy of a pipeline; BadPipeline, before anything is read, if it keeps none."""
    pipeline = app.only([name]).pipelines[0]
    table, sinks = _table(pipeline), [_copy(pipeline, one) for one in pipeline.sinks]
    for sink in sinks:
        _check(sink, table)
    turns = {one.name: canonical(one.dataType) for one in table.columns.fields}
    for sink in sinks:
        source = _source(against, table, app.label(pipeline), settings)
        copy = _Copy(sink, table, settings)
        found = Comparison(source, copy, digest_of(table.columns), within=within).run(turns, show, progress)
        yield Verified(copy=sink.name, kind=type(sink).__name__, against=against, verdict=found)


def _source(against: Against, table: Table, label: str, settings: Settings) -> Source:
    return LogSource(table, label, settings) if against == "log" else DatabaseSource(table, settings)


def _table(pipeline: Pipeline) -> Table:
    if pipeline.function is not upserts:
        raise BadPipeline(f"pipeline {pipeline.name!r} makes other rows than its table's", hint=_HINT)
    (read, *more) = pipeline.reads
    if more or not isinstance(read, Table):
        raise BadPipeline(f"pipeline {pipeline.name!r} does not read one captured table", hint=_HINT)
    return read


def _copy(pipeline: Pipeline, sink: Sink) -> KeyedSink:
    if not isinstance(sink, KeyedSink):
        raise BadPipeline(
            f"the output {sink.name!r} of pipeline {pipeline.name!r} keeps no row of every key", hint=_HINT
        )
    return sink


def _check(sink: KeyedSink, table: Table) -> None:
    if set(sink.keyed.keys) != set(table.keys) or sink.keyed.version != POSITION:
        raise BadPipeline(
            f"the copy {sink.name!r} is not keyed as table {table.name!r} is",
            hint=f"verify needs key={list(table.keys)!r}, and no version= of its own",
        )
    if getattr(sink, "ttl", None) is not None:
        raise BadPipeline(f"rows of the copy {sink.name!r} expire, so it never is the whole table")


class _Copy:
    """A sink, as a comparison asks it; keys stand in the order of the table's."""

    def __init__(self, sink: KeyedSink, table: Table, settings: Settings) -> None:
        self._sink, self._table, self._settings = sink, table, settings
        self._order = [table.keys.index(one) for one in sink.keyed.keys]

    def all(self) -> Iterator[tuple[Key, Row]]:
        """Every row."""
        return self._keyed(self._sink.read(self._table.columns, self._settings))

    def some(self, keys: Collection[Key]) -> Iterator[tuple[Key, Row]]:
        """The rows of these keys."""
        wanted = [tuple(key[at] for at in self._order) for key in keys]
        return self._keyed(self._sink.read(self._table.columns, self._settings, wanted))

    def _keyed(self, rows: Iterator[dict[str, Any]]) -> Iterator[tuple[Key, Row]]:
        return ((tuple(row[one] for one in self._table.keys), row) for row in rows)
