"""tail: what stands in a topic, for people or as JSON."""

import base64
import sys
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.text import Text

from headwater.cli import arguments
from headwater.cli.output import AsJson, is_terminal, note
from headwater.errors import Undecodable
from headwater.log.log import Log
from headwater.log.positions import Last, Start
from headwater.log.record import Record
from headwater.log.topic import Topic

_USUAL = 10
_encode = msgspec.json.Encoder(decimal_format="number").encode  # as they stand in a topic of JSON


def tail(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help=arguments.TOPIC_HELP)],
    start: Annotated[
        str | None,
        typer.Option("--from", metavar="PLACE", help=f"Where to start: {arguments.START_HELP}"),
    ] = None,
    last: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help=f"Start N before each partition's end.  [default: {_USUAL}]"),
    ] = None,
    partition: Annotated[
        list[int] | None, typer.Option(min=0, metavar="N", help="Only this partition; may be repeated.")
    ] = None,
    key: Annotated[str | None, typer.Option(metavar="KEY", help="Only records of this key.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, metavar="N", help="End after N records.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the records of a topic, in the order of each partition.

    A line begins with partition@offset and the moment of the append (UTC), then come the key, if
    there is one, and the value. Bytes that are not text are shown as base64:…; a record that deletes
    its key, as (deleted). Records of transactions that are open or were rolled back are not shown.
    A topic in Avro or Protobuf is readable only by its Topic: file.py:NAME.

    \b
        headwater tail payments --from 5m --key 42 --follow
        headwater tail bank.py:PAYMENTS --from 2026-11-16T10:00Z --json
    """  # noqa: D301 - \b keeps the lines of an example apart
    target, place, wanted = arguments.topic(topic), _place(start, last), key and arguments.key(key)
    with Log.open().read(target, start=place, follow=follow, partitions=partition) as reader:
        of_key = (one for one in reader if key is None or one.key == wanted)
        shown = _print(islice(of_key, limit), as_json=as_json, is_row=isinstance(target, Topic))
    if not shown:
        note("no such records there: --from beginning looks at all of them" if key else "no records there")


def _place(start: str | None, last: int | None) -> Start:
    if start is None:
        return Last(_USUAL if last is None else last)
    if last is not None:
        raise typer.BadParameter("--from and --last both say where to start: give one of them")
    return arguments.start(start)


def _print(records: Iterable[Record], *, as_json: bool, is_row: bool) -> int:
    """Print the records as they come; tells how many came."""
    count, line = 0, _line(as_json=as_json)
    for record in records:
        count += 1
        line(record, is_row)
    return count


def _line(*, as_json: bool) -> Callable[[Record, bool], None]:
    if as_json:
        return lambda record, is_row: typer.echo(_encode(_as_json(record, is_row=is_row)))
    if is_terminal(sys.stdout):
        console = Console(soft_wrap=True, highlight=False)
        return lambda record, is_row: console.print(_as_text(record, is_row=is_row))
    return lambda record, is_row: typer.echo(_as_text(record, is_row=is_row).plain)


def _as_json(record: Record, *, is_row: bool) -> dict[str, Any]:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "appended_at": record.appended_at,
        "key": readable(record.key),
        "value": _row(record) if is_row else _parsed(record.data),
        "headers": [[name, readable(value)] for name, value in record.headers],
    }


def _as_text(record: Record, *, is_row: bool) -> Text:
    return Text.assemble(
        (f"{record.partition}@{record.offset} ", "cyan"),
        (f"{record.appended_at:%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z ", "dim"),
        (f"{visible(readable(record.key))} " if record.key is not None else "", "green"),
        _value_text(record, is_row=is_row),
    )


def _value_text(record: Record, *, is_row: bool) -> str:
    if record.data is None:
        return "(deleted)"
    try:
        return visible(_encode(record.value).decode() if is_row else readable(record.data))
    except Undecodable as error:
        return visible(f"(undecodable: {error.message}) {readable(record.data)}")


def _row(record: Record) -> Any:
    try:
        return record.value
    except Undecodable as error:
        return {"undecodable": error.message, "base64": base64.b64encode(record.data or b"").decode()}


def _parsed(data: bytes | None) -> Any:
    """JSON as it stands, to the digit, on one line; what is no JSON, as text."""
    try:
        if data is None or msgspec.json.decode(data) is None:
            return None
        return msgspec.Raw(msgspec.json.format(data, indent=0))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return readable(data)


def readable(data: bytes | None) -> Any:
    """Bytes as text; as base64:… when they are none, or could be taken for such."""
    try:
        text = None if data is None else data.decode()
    except UnicodeDecodeError:
        text = arguments.BASE64
    is_text = text is None or not text.startswith(arguments.BASE64)
    return text if is_text else arguments.BASE64 + base64.b64encode(data or b"").decode()


def visible(text: str) -> str:
    """Text on one line, without what would move a terminal's cursor or change its colours."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
