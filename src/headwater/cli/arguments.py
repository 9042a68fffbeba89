"""What people type: durations, places in the log, keys, topics by name or from a Python file."""

import base64
import binascii
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import typer

from headwater import clock
from headwater.log.positions import Beginning, End, Offset, Since, Start
from headwater.log.topic import Topic, check_name
from headwater.python_files import topic_in

_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)([KMGT])B")
_OFFSET = re.compile(r"[0-9]{1,18}")

BASE64 = "base64:"
"""What stands before bytes that are not text."""

START_HELP = "beginning, end, an offset (1200), a moment (2026-11-16T10:00Z) or how long ago (5m, 2h)."
TOPIC_HELP = "A topic's name, or file.py:NAME for the Topic called NAME in a Python file."


def duration(text: str) -> timedelta:
    """A duration such as 500ms, 10s, 5m, 12h, 7d; at least a millisecond."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise typer.BadParameter(f"{text!r} is not a duration: write 500ms, 10s, 5m, 12h or 7d")
    try:
        found = timedelta(**{_UNITS[match[2]]: float(match[1])})
    except OverflowError:
        raise typer.BadParameter(f"{text!r} is too long a duration") from None
    if found < timedelta(milliseconds=1):
        raise typer.BadParameter(f"{text!r} is too short a duration: the least is 1ms")
    return found


def size(text: str) -> int:
    """A size in bytes such as 200KB, 500MB, 10GB, 1TB."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise typer.BadParameter(f"{text!r} is not a size: write 200KB, 500MB, 10GB or 1TB")
    return int(float(match[1]) * 1000 ** (1 + "KMGT".index(match[2])))


def spoken(length: timedelta) -> str:
    """A duration as one would type it, in the largest unit that tells it whole: 7d, 36h, 90s."""
    milliseconds = length // timedelta(milliseconds=1)
    for unit, name in reversed(_UNITS.items()):
        one = timedelta(**{name: 1}) // timedelta(milliseconds=1)
        if milliseconds % one == 0:
            return f"{milliseconds // one}{unit}"
    raise AssertionError("a millisecond divides every duration")


def start(text: str) -> Start:
    """A place in the log."""
    if text in ("beginning", "end"):
        return Beginning() if text == "beginning" else End()
    if _OFFSET.fullmatch(text):
        return Offset(int(text))
    if _DURATION.fullmatch(text):
        return Since(_ago(text))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no place in the log; places: {START_HELP}") from None
    return Since(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def key(text: str) -> bytes:
    """A record's key: text, or base64:… for bytes that are none, as `tail` shows them."""
    if not text.startswith(BASE64):
        return text.encode()
    try:
        return base64.b64decode(text.removeprefix(BASE64), validate=True)
    except binascii.Error:
        raise typer.BadParameter(f"{text!r} is not base64") from None


def topic(text: str, **given: Any) -> Topic | str:
    """The Topic of file.py:NAME, or one of a name with a schema, or a bare name.

    `given` are the options that describe a topic, None where the user said nothing.
    """
    said = {option: value for option, value in given.items() if value is not None}
    file, is_file, name = text.partition(".py:")
    if is_file or (text.endswith(".py") and Path(text).is_file()):
        if said:
            options = ", ".join(f"--{option.replace('_', '-')}" for option in said)
            raise typer.BadParameter(f"{text} describes its topic whole: leave out {options}")
        return topic_in(Path(f"{file.removesuffix('.py')}.py"), name)
    return Topic(text, **said) if "schema" in said else check_name(text)


def topic_name(text: str) -> str:
    """The name of a topic, however it was given."""
    return name_of(topic(text))


def name_of(found: Topic | str) -> str:
    """The name of a topic."""
    return found.name if isinstance(found, Topic) else found


def _ago(text: str) -> datetime:
    try:
        return clock.now() - duration(text)
    except OverflowError:
        raise typer.BadParameter(f"{text!r} ago is before the calendar begins") from None
