"""Recital: a transcript played on a stage, and where the pipeline did something else."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import types as spark_types

from headwater.app import Pipeline
from headwater.errors import BadRehearsal, BadTranscript, RunError
from headwater.log.topic import Topic
from headwater.python_files import app_in
from headwater.testing.matching import difference
from headwater.testing.moments import moment, shown, shown_window
from headwater.testing.stage import DeadRow, LateRow, Stage, rehearse
from headwater.testing.transcript import (
    SIDES,
    Advance,
    Expect,
    Feed,
    Side,
    Silence,
    Step,
    Transcript,
    WatermarkIs,
)

_INSTANTS = (spark_types.TimestampType, spark_types.TimestampNTZType)


@dataclass(frozen=True)
class Mismatch:
    """Where a pipeline did not do what its transcript says: the line, and the difference."""

    line: int
    what: str
    difference: str

    def __str__(self) -> str:
        return "\n".join(
            [f"line {self.line}: {self.what}", *(f"  {one}" for one in self.difference.splitlines())]
        )


def recite(transcript: Transcript, spark: SparkSession) -> list[Mismatch]:
    """Play a transcript; nothing comes back when the pipeline does all that it says."""
    pipeline = pipeline_of(transcript)
    with rehearse(pipeline, spark, begins=transcript.begins) as stage:
        topics = {one.topic.name: one.topic for one in pipeline.sources}
        return _Recital(stage, topics, transcript).all()


def pipeline_of(transcript: Transcript) -> Pipeline:
    """The pipeline that a transcript names, from the app's file beside it."""
    return app_in(str(transcript.file.parent / transcript.app)).only([transcript.pipeline]).pipelines[0]


class _Recital:
    def __init__(self, stage: Stage, topics: Mapping[str, Topic], transcript: Transcript) -> None:
        self._stage, self._topics, self._transcript = stage, topics, transcript
        self._day = transcript.begins.date()
        self._found: dict[Side, Callable[[], list[dict[str, Any]]]] = {
            "expect": stage.output,
            "late": lambda: [_late(one, self._day) for one in stage.late()],
            "dropped": lambda: [_late(one, self._day) for one in stage.dropped()],
            "dead": lambda: [_dead(one) for one in stage.dead()],
        }

    def all(self) -> list[Mismatch]:
        """Every step, and what is left unsaid; a pipeline that fails ends it."""
        found: list[Mismatch] = []
        for one in self._transcript.steps:
            try:
                mismatch = self._step(one)
            except RunError as error:
                return [*found, Mismatch(one.line, "the pipeline fails", error.detail or error.message)]
            found += [mismatch] if mismatch else []
        return found + self._unsaid()

    def _step(self, step: Step) -> Mismatch | None:
        try:
            return self._played(step)
        except BadRehearsal as error:
            if type(error) is not BadRehearsal:
                raise
            place = f"{self._transcript.file}:{step.line}"
            raise BadTranscript(f"{place}: {error.message}", hint=error.hint) from error

    def _played(self, step: Step) -> Mismatch | None:
        match step:
            case Feed():
                rows = [_with_instants(one, self._topics.get(step.topic), self._day) for one in step.rows]
                self._stage.feed(step.topic, *rows, partition=step.partition)
            case Advance():
                self._stage.advance(step.to)
            case Silence():
                self._stage.silence(step.length)
            case WatermarkIs():
                return self._watermark(step)
            case Expect():
                return self._compared(step)
        return None

    def _unsaid(self) -> list[Mismatch]:
        """What came out, and was not expected by the end."""
        last = self._transcript.steps[-1].line if self._transcript.steps else 1
        left = [(side, difference([], self._found[side](), self._day)) for side in SIDES]
        return [
            Mismatch(last, f"the transcript ends, and {_WORDS[side]}", what) for side, what in left if what
        ]

    def _compared(self, step: Expect) -> Mismatch | None:
        found = difference(step.rows, self._found[step.side](), self._day)
        return Mismatch(step.line, f"not what {step.side!r} says", found) if found else None

    def _watermark(self, step: WatermarkIs) -> Mismatch | None:
        if step.at == self._stage.watermark:
            return None
        names = ("expected:", step.at), ("found:", self._stage.watermark)
        lines = [f"{name:10}{shown(at, self._day) if at else 'null'}" for name, at in names]
        return Mismatch(step.line, "the watermark is elsewhere", "\n".join(lines))


_WORDS: dict[Side, str] = {
    "expect": "rows came out that nothing expects",
    "late": "rows were diverted that nothing expects",
    "dropped": "rows were dropped that nothing expects",
    "dead": "records were dead that nothing expects",
}


def _with_instants(row: Any, topic: Topic | None, day: date) -> Any:
    """The row with its times of day as instants; what is none stays, for the judge to judge."""
    if topic is None or not isinstance(row, dict):
        return row
    kinds = {one.name: one.dataType for one in topic.spark_schema.fields}
    return {name: _instant(one, kinds.get(name), day) for name, one in row.items()}


def _instant(value: Any, kind: spark_types.DataType | None, day: date) -> Any:
    found = moment(value, day) if isinstance(value, str) and isinstance(kind, _INSTANTS) else None
    if found is None:
        return value
    return found if isinstance(kind, spark_types.TimestampType) else found.replace(tzinfo=None)


def _late(one: LateRow, day: date) -> dict[str, Any]:
    return {"topic": one.topic, **one.row, "missed": [shown_window(window, day) for window in one.missed]}


def _dead(one: DeadRow) -> dict[str, Any]:
    value = one.value.decode(errors="backslashreplace") if one.value is not None else None
    return {"topic": one.topic, "value": value, "reason": one.reason}
