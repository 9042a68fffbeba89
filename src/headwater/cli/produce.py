"""produce: lines of JSON from a file or standard input into a topic."""

import sys
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, BinaryIO, NoReturn

import msgspec
import typer

from headwater.cli import arguments
from headwater.cli.output import AsJson, counted, is_terminal, note, say
from headwater.errors import KeyMissing, NotAcknowledged, RecordError, ValueMismatch
from headwater.log.log import Log
from headwater.log.topic import Topic
from headwater.log.writer import Writer

_SAY_EVERY = 100_000
_MARK = b"\xef\xbb\xbf"  # some editors begin a file of UTF-8 with it
_parse = msgspec.json.Decoder(float_hook=Decimal).decode  # columns of decimals get every digit
_text = msgspec.json.Encoder(decimal_format="number").encode
File = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", exists=True, dir_okay=False, readable=True, help="Read this, not standard input."
    ),
]


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help=arguments.TOPIC_HELP)],
    file: File = None,
    schema: Annotated[
        str | None, typer.Option(metavar="COLUMNS", help='Check lines against "card string, amount double".')
    ] = None,
    key: Annotated[str | None, typer.Option(metavar="FIELD", help="The field that is a line's key.")] = None,
    atomic: Annotated[bool, typer.Option("--atomic", help="All lines or none: one transaction.")] = False,
    as_json: AsJson = False,
) -> None:
    """Append lines of JSON to a topic, one record a line.

    Ends when the broker has acknowledged every record. With --schema, or with a Topic from a file,
    each line is checked first; a topic that is named alone takes lines as they are. A bad line stops
    the work: the error names it and tells how many records before it are in the log. With --atomic
    none is, then.

    \b
        echo '{"card": "42", "amount": 9.5}' | headwater produce bank.py:PAYMENTS
        headwater produce clicks --key user --file clicks.jsonl
    """  # noqa: D301 - \b keeps the lines of an example apart
    target = arguments.topic(topic, schema=schema, key=key)
    name, lines, log = arguments.name_of(target), _opened(file), Log.open()
    log.topics.partitions(name)  # an unknown topic is no fault of the first line
    identifier = f"produce-{uuid.uuid4()}" if atomic else None
    try:
        with lines, log.writer(transactional_id=identifier) as writer:
            append = _row(writer, target) if isinstance(target, Topic) else _raw(writer, target, key)
            with writer.transaction() if atomic else nullcontext():
                count = _append_all(lines, append, writer, atomic=atomic)
    except NotAcknowledged as error:
        error.hint = "each may or may not be in the log; with --atomic all lines are, or none"
        raise
    say(f"appended {counted(count, 'record')} to {name}", as_json=as_json, topic=name, appended=count)


def _opened(file: Path | None) -> BinaryIO:
    if file is not None:
        return file.open("rb")
    if sys.stdin is None:
        raise typer.BadParameter("there is no standard input: name a --file")
    if is_terminal(sys.stdin):
        note("type lines of JSON, one record each; Ctrl-D ends")
    return sys.stdin.buffer


def _append_all(
    lines: Iterable[bytes], append: Callable[[bytes], None], writer: Writer, *, atomic: bool
) -> int:
    count = 0
    for number, line in _numbered(lines):
        try:
            append(line)
        except RecordError as error:
            _stop_at(number, count, error, writer, atomic=atomic)
        count += 1
        if count % _SAY_EVERY == 0:
            note(counted(count, "record"))
    return count


def _numbered(lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(lines, 1):
        found = line.rstrip(b"\r\n").removeprefix(_MARK if number == 1 else b"")
        if found.strip():
            yield number, found


def _stop_at(number: int, count: int, error: RecordError, writer: Writer, *, atomic: bool) -> NoReturn:
    error.message = f"line {number}: {error.message}"
    if atomic or not count:
        error.hint = "nothing was appended: mend the line and run the command again"
    else:
        writer.flush()
        before = "the record before it is" if count == 1 else f"the {count:,} records before it are"
        error.hint = f"{before} in the log: mend it and go on from line {number}"
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
    return value.encode() if isinstance(value, str) else _text(value)


def _parsed(line: bytes) -> Any:
    try:
        return _parse(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueMismatch(f"this is not JSON: {error}") from error
