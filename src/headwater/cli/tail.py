"""tail: what stands in a topic, for people or as JSON."""

import base64
import json
from collections.abc import Iterable
from itertools import islice
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.text import Text

from headwater.cli import arguments
from headwater.cli.output import AsJson
from headwater.errors import Undecodable
from headwater.log.log import Log
from headwater.log.positions import Last
from headwater.log.record import Record
from headwater.log.topic import Topic


def tail(
    topic: Annotated[str, typer.Argument(help=arguments.TOPIC_HELP)],
    start: Annotated[
        str | None, typer.Option("--from", help=f"Where to start: {arguments.START_HELP}")
    ] = None,
    last: Annotated[
        int, typer.Option(min=0, help="Without --from: the last records of each partition.")
    ] = 10,
    partition: Annotated[list[int] | None, typer.Option(help="Only this partition; may be repeated.")] = None,
    key: Annotated[str | None, typer.Option(help="Only records of this key.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="End after this many.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the records of a topic, committed ones only, in the order of each partition.

    headwater tail payments --from 5m --key 42 --follow
    """
    target = arguments.topic(topic)
    log = Log.open()
    place = arguments.start(start) if start else Last(last)
    with log.read(target, start=place, follow=follow, partitions=partition) as reader:
        _print(islice(_of_key(reader, key), limit), as_json=as_json, rows=isinstance(target, Topic))


def _of_key(records: Iterable[Record], key: str | None) -> Iterable[Record]:
    return (one for one in records if key is None or one.key == key.encode())


def _print(records: Iterable[Record], *, as_json: bool, rows: bool) -> None:
    console = Console(soft_wrap=True, highlight=False)
    for record in records:
        if as_json:
            typer.echo(json.dumps(_as_json(record, rows=rows)))
        else:
            console.print(_as_text(record))


def _as_json(record: Record, *, rows: bool) -> dict[str, Any]:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "appended_at": record.appended_at.isoformat(),
        "key": _readable(record.key),
        "value": _row(record) if rows else _parsed(record.data),
        "headers": {name: _readable(value) for name, value in record.headers},
    }


def _as_text(record: Record) -> Text:
    value = "(deleted)" if record.data is None else _readable(record.data)
    return Text.assemble(
        (f"{record.partition}@{record.offset} ", "cyan"),
        (f"{record.appended_at:%Y-%m-%d %H:%M:%S.%f}"[:-3] + " ", "dim"),
        (f"{_readable(record.key)} " if record.key is not None else "", "green"),
        str(value),
    )


def _row(record: Record) -> Any:
    try:
        return msgspec.to_builtins(record.value, builtin_types=())
    except Undecodable as error:
        return {"undecodable": error.message, "base64": base64.b64encode(record.data or b"").decode()}


def _parsed(data: bytes | None) -> Any:
    try:
        return None if data is None else msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _readable(data)


def _readable(data: bytes | None) -> Any:
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return "base64:" + base64.b64encode(data or b"").decode()
