"""Transcript: a rehearsal as a file that people can read: what is fed, how time goes, what is expected.

A transcript names a pipeline and lists steps. The first half of them makes something happen (`feed`,
`watermark`, `silence`), the other half says what came of it (`expect`, `late`, `dropped`, `dead`,
`watermark is`). Whatever came out and is not expected by the end is an error, too.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal, Self

from headwater.errors import BadTranscript
from headwater.testing.lines import Place
from headwater.testing.moments import length, moment
from headwater.testing.stage import BEGINS

Side = Literal["expect", "late", "dropped", "dead"]
SIDES: tuple[Side, ...] = ("expect", "late", "dropped", "dead")
STEPS = ("feed", "watermark", "silence", *SIDES, "watermark is")
_NEEDED = ("title", "shows", "app", "pipeline", "steps")


@dataclass(frozen=True)
class Feed:
    """Rows for a topic, in one batch."""

    line: int
    topic: str
    rows: tuple[Any, ...]
    partition: int = 0


@dataclass(frozen=True)
class Advance:
    """The watermark moves."""

    line: int
    to: datetime


@dataclass(frozen=True)
class Silence:
    """Time passes, and nothing comes."""

    line: int
    length: timedelta


@dataclass(frozen=True)
class Expect:
    """What must have come out, on one of the sides, since this side was last asked."""

    line: int
    side: Side
    rows: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class WatermarkIs:
    """Where the watermark must be; None while nobody can tell."""

    line: int
    at: datetime | None


Step = Feed | Advance | Silence | Expect | WatermarkIs


@dataclass(frozen=True)
class Transcript:
    """A rehearsal, written down."""

    file: Path
    title: str
    shows: str
    app: str
    pipeline: str
    begins: datetime
    steps: tuple[Step, ...] = field(repr=False)

    @classmethod
    def read(cls, file: Path) -> Self:
        """The transcript of a file; BadTranscript tells the line of what cannot be understood."""
        try:
            top = Place.of(str(file), file.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise BadTranscript(f"{file} cannot be read", detail=str(error)) from error
        found = top.fields("a transcript", (*_NEEDED, "begins"), _NEEDED)
        texts = {name: found[name].text(name) for name in ("title", "shows", "app", "pipeline")}
        begins = _moment(found["begins"], BEGINS) if "begins" in found else BEGINS
        steps = tuple(_step(one, begins) for one in found["steps"].items("steps"))
        return cls(file, begins=begins, steps=steps, **texts)


def _step(place: Place, begins: datetime) -> Step:
    found = place.fields("a step", (*STEPS, "partition", "repeat"))
    verbs = [one for one in STEPS if one in found]
    if len(verbs) != 1:
        raise place.wrong("a step does one thing", f"one of: {', '.join(STEPS)}")
    verb = verbs[0]
    if verb != "feed" and len(found) > 1:
        raise place.wrong("partition and repeat belong to feed")
    match verb:
        case "feed":
            return _feed(place, found)
        case "watermark":
            return Advance(place.line, _moment(found[verb], begins))
        case "watermark is":
            at = None if found[verb].value is None else _moment(found[verb], begins)
            return WatermarkIs(place.line, at)
        case "silence":
            return Silence(place.line, _length(found[verb]))
    return _expect(place, verb, found[verb])


def _feed(place: Place, found: Mapping[str, Place]) -> Feed:
    topics = found["feed"].mapping("feed")
    if len(topics) != 1:
        raise place.wrong("feed names one topic", "a batch for each topic: write a step for each")
    ((topic, rows),) = topics.items()
    values = [one.value for one in rows.items("the rows of a topic")]
    for one, value in zip(rows.items("the rows of a topic"), values, strict=True):
        if not isinstance(value, dict | str | None):
            raise one.wrong("a row is a mapping; a text or null stands in the log as it is")
    repeat = found["repeat"].count("repeat") if "repeat" in found else 1
    partition = found["partition"].count("partition") if "partition" in found else 0
    return Feed(place.line, topic, tuple(values * repeat), partition)


def _expect(place: Place, verb: str, rows: Place) -> Expect:
    side = next(one for one in SIDES if one == verb)
    for one in rows.items(verb):
        one.mapping(f"a row of {verb}")
    return Expect(place.line, side, tuple(one.value for one in rows.items(verb)))


def _moment(place: Place, begins: datetime) -> datetime:
    found = moment(place.text("a moment"), begins.date())
    if found is None:
        raise place.wrong("this is no moment", "10:00:05, or 2026-01-01T10:00:05Z")
    return found


def _length(place: Place) -> timedelta:
    found = length(place.text("a duration"))
    if found is None:
        raise place.wrong("this is no duration", "30 seconds, 5 minutes, 1 hour")
    return found
