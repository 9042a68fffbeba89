"""produce: lines of JSON from a file or standard input into a topic."""

import sys
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from headwater.cli import arguments
from headwater.cli.output import ERRORS, AsJson, say
from headwater.errors import HeadwaterError, KeyMissing, ValueMismatch
from headwater.log.log import Log
from headwater.log.topic import Topic
from headwater.log.writer import Writer

_SAY_EVERY = 100_000


def produce(
    topic: Annotated[str, typer.Argument(help=arguments.TOPIC_HELP)],
    file: Annotated[Path | None, typer.Option(help="Read this file, not standard input.")] = None,
    schema: Annotated[str | None, typer.Option(help="Check every line against these columns.")] = None,
    key: Annotated[str | None, typer.Option(help="The field of each line that is its key.")] = None,
    atomic: Annotated[bool, typer.Option("--atomic", help="All lines or none: one transaction.")] = False,
    as_json: AsJson = False,
) -> None:
    """Append lines of JSON, one record a line, each acknowledged by the broker.

    With a schema (or file.py:NAME) every line is checked first. A bad line stops the work: the
    error names it and tells what was appended before it. With --atomic nothing is, then.

        echo '{"card": "42", "amount": 9.5}' | headwater produce payments --key card
    """
    target = arguments.topic(topic, schema=schema, key=key)
    lines = file.open("rb") if file else sys.stdin.buffer
    with lines, Log.open().writer(transactional_id=f"produce-{uuid.uuid4()}" if atomic else None) as writer:
        append = _row(writer, target) if isinstance(target, Topic) else _raw(writer, target, key)
        with writer.transaction() if atomic else nullcontext():
            count = _append_all(lines, append, writer, atomic=atomic)
    name = target.name if isinstance(target, Topic) else target
    say(f"appended {count:,} records to {name}", as_json=as_json, topic=name, appended=count)


def _append_all(
    lines: Iterable[bytes], append: Callable[[bytes], None], writer: Writer, *, atomic: bool
) -> int:
    count = 0
    for number, line in _numbered(lines):
        try:
            append(line)
        except HeadwaterError as error:
            _stop_at(number, count, error, writer, atomic=atomic)
        count += 1
        if count % _SAY_EVERY == 0:
            ERRORS.print(f"{count:,} records", highlight=False)
    return count


def _numbered(lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    return ((number, line.rstrip(b"\r\n")) for number, line in enumerate(lines, 1) if line.strip())


def _stop_at(number: int, count: int, error: HeadwaterError, writer: Writer, *, atomic: bool) -> None:
    error.message = f"line {number}: {error.message}"
    if atomic:
        error.hint = "nothing was appended: mend the line and run the command again"
    else:
        writer.flush()
        error.hint = f"the {count:,} records before it are in the log: mend it and go on from line {number}"
    raise error


def _row(writer: Writer, topic: Topic) -> Callable[[bytes], None]:
    def append(line: bytes) -> None:
        writer.append(topic, _parsed(line))

    return append


def _raw(writer: Writer, topic: str, key: str | None) -> Callable[[bytes], None]:
    def append(line: bytes) -> None:
        writer.append_bytes(topic, line, key=None if key is None else _key(line, key))

    return append


def _key(line: bytes, name: str) -> bytes:
    found = _parsed(line)
    value = found.get(name) if isinstance(found, dict) else None
    if value is None:
        raise KeyMissing(f"there is no {name!r} to take as the key")
    return value.encode() if isinstance(value, str) else msgspec.json.encode(value)


def _parsed(line: bytes) -> Any:
    try:
        return msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ValueMismatch(f"this is not JSON: {error}") from error
