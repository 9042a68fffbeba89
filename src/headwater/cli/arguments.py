"""What people type: durations, places in the log, topics by name or from a Python file."""

import re
import runpy
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import typer

from headwater import clock
from headwater.errors import SpecError
from headwater.log.positions import Beginning, End, Offset, Since, Start
from headwater.log.topic import Topic, check_name

_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")

START_HELP = "beginning, end, an offset, a moment (2026-11-16T10:00Z) or how long ago (5m, 2h)."
TOPIC_HELP = "A topic's name, or file.py:NAME of a Topic in a Python file."


def duration(text: str) -> timedelta:
    """A duration such as 500ms, 10s, 5m, 12h, 7d."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise typer.BadParameter(f"{text!r} is not a duration: write 500ms, 10s, 5m, 12h or 7d")
    return timedelta(**{_UNITS[match[2]]: float(match[1])})


def start(text: str) -> Start:
    """A place in the log."""
    if text in ("beginning", "end"):
        return Beginning() if text == "beginning" else End()
    if text.isdigit():
        return Offset(int(text))
    if _DURATION.fullmatch(text):
        return Since(clock.now() - duration(text))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no place in the log: {START_HELP}") from None
    return Since(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def topic(text: str, **spec: Any) -> Topic | str:
    """The Topic of file.py:NAME, or one of a name with a schema, or a bare name."""
    file, _, name = text.partition(".py:")
    if name:
        return _from_file(Path(f"{file}.py"), name)
    if spec.get("schema"):
        return Topic(text, **{key: value for key, value in spec.items() if value is not None})
    return check_name(text)


def _from_file(file: Path, name: str) -> Topic:
    if not file.exists():
        raise SpecError(f"there is no file {file}")
    found = runpy.run_path(str(file), run_name="headwater.topics").get(name)
    if not isinstance(found, Topic):
        raise SpecError(f"{file} has no Topic called {name!r}")
    return found
