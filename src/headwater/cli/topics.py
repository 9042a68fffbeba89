"""topics: list, create, describe, alter, delete."""

import json
from datetime import timedelta
from typing import Annotated, Any

import typer

from headwater.cli import arguments
from headwater.cli.output import AsJson, is_confirmed, is_listing, note, say, show
from headwater.log.log import Log
from headwater.log.topic import Retention, Topic
from headwater.log.topics import TopicState

app = typer.Typer()
Name = Annotated[str, typer.Argument(metavar="TOPIC", help=arguments.TOPIC_HELP)]
Kept = Annotated[
    str | None,
    typer.Option("--retention", metavar="AGE", help="How long records stay: 12h, 7d, or forever."),
]
Bytes = Annotated[
    int | None,
    typer.Option("--retention-bytes", min=1, metavar="N", help="At most this much in each partition."),
]
_COMPACTED = "Keep the last record of each key, for ever."


@app.callback(invoke_without_command=True)
def topics(context: typer.Context, as_json: AsJson = False) -> None:
    """List the topics; create, describe, alter or delete one.

    A topic is a named log. It is cut into partitions, which are read side by side; each keeps its
    records in the order in which they were appended.
    """
    if is_listing(context, as_json=as_json):
        log = Log.open()
        rows = [_row(log.topics.describe(name)) for name in log.topics.names()]
        show(rows, as_json=as_json, empty="no topics yet: `headwater topics create NAME` makes one")


@app.command()
def create(
    name: Name,
    schema: Annotated[
        str | None, typer.Option(metavar="COLUMNS", help='Its columns: "card string, amount double".')
    ] = None,
    key: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Records with the same key keep their order.")
    ] = None,
    event_time: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The timestamp that says when it happened.")
    ] = None,
    partitions: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="So many readers can share the work.  [default: 1]")
    ] = None,
    retention: Kept = None,
    retention_bytes: Bytes = None,
    compacted: Annotated[bool, typer.Option("--compacted", help=_COMPACTED)] = False,
    as_json: AsJson = False,
) -> None:
    """Create a topic, unless it stands already as described.

    Describe it here, or (better, for then programs use the same description) in a Python file. Records
    stay for 7d, unless you say otherwise; those of a compacted topic stay for ever.

    \b
        headwater topics create payments --partitions 3
        headwater topics create bank.py:PAYMENTS
    """  # noqa: D301 - \b keeps the lines of an example apart
    if schema is None and (key or event_time):
        raise typer.BadParameter("--key and --event-time name columns: give --schema as well")
    spec = {"schema": schema, "key": key, "event_time": event_time, "partitions": partitions}
    kept = _retention(retention, retention_bytes)
    topic = arguments.topic(name, **spec, retention=kept, compacted=compacted or None)
    if not isinstance(topic, Topic):
        topic = _without_schema(topic, partitions or 1, kept, compacted=compacted)
    made = Log.open().topics.create(topic)
    text = f"created {topic.name}" if made else f"{topic.name} exists already, just so"
    say(text, as_json=as_json, topic=topic.name, created=made)


@app.command()
def describe(name: Name, as_json: AsJson = False) -> None:
    """Show a topic's partitions, and its settings in Kafka's names."""
    state = Log.open().topics.describe(arguments.topic_name(name))
    if as_json:
        typer.echo(json.dumps(_row(state) | {"config": dict(state.config)}))
        return
    show([_row(state)], as_json=False, empty="")
    typer.echo()
    settings = [{"setting": one, "value": value} for one, value in state.config.items()]
    show(settings, as_json=False, empty="")


@app.command()
def alter(
    name: Name,
    partitions: Annotated[int | None, typer.Option(min=1, metavar="N", help="Grow to this many.")] = None,
    retention: Kept = None,
    retention_bytes: Bytes = None,
    compacted: Annotated[bool | None, typer.Option(help=_COMPACTED)] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any topic setting of Kafka's; may be repeated."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Change what Kafka lets one change; partitions only grow.

    \b
        headwater topics alter payments --retention 30d
        headwater topics alter payments --set max.message.bytes=4000000
    """  # noqa: D301 - \b keeps the lines of an example apart
    config = _config(retention, retention_bytes, compacted, _settings(setting or []))
    if not config and partitions is None:
        raise typer.BadParameter("nothing to change: say --partitions, --retention, … (see --help)")
    known, topic = Log.open().topics, arguments.topic_name(name)
    before = known.partitions(topic)
    state = known.alter(topic, partitions=partitions, config=config)
    if state.partitions > before:
        note("note: keys may now hash to other partitions; their older records stay where they are")
    show([_row(state)], as_json=as_json, empty="")


@app.command()
def delete(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete a topic and all its records; asks first."""
    known, topic = Log.open().topics, arguments.topic_name(name)
    known.partitions(topic)
    if not yes and not is_confirmed(f"delete {topic} and all its records?"):
        note("nothing was deleted (--yes deletes without asking)")
        raise typer.Exit(1)
    known.delete(topic)
    say(f"deleted {topic}", as_json=as_json, deleted=topic)


def _without_schema(name: str, partitions: int, kept: Retention | None, *, compacted: bool) -> Topic:
    """A topic of which the log is told everything but a schema, which it does not keep anyway."""
    return Topic(
        name, schema="key string", key="key", partitions=partitions, retention=kept, compacted=compacted
    )


def _row(state: TopicState) -> dict[str, Any]:
    age = int(state.config["retention.ms"])
    return {
        "topic": state.name,
        "partitions": state.partitions,
        "replicas": state.replicas,
        "cleanup": state.config["cleanup.policy"],
        "retention": "forever" if age < 0 else arguments.spoken(timedelta(milliseconds=age)),
    }


def _retention(age: str | None, size: int | None) -> Retention | None:
    if age is None and size is None:
        return None
    if age is None:
        return Retention(bytes=size)
    return Retention(age=None if age == "forever" else arguments.duration(age), bytes=size)


def _config(
    age: str | None, size: int | None, compacted: bool | None, others: dict[str, str]
) -> dict[str, str]:
    said: dict[str, str] = {}
    if age is not None:
        milliseconds = -1 if age == "forever" else arguments.duration(age) // timedelta(milliseconds=1)
        said["retention.ms"] = str(milliseconds)
    if size is not None:
        said["retention.bytes"] = str(size)
    if compacted is not None:
        said["cleanup.policy"] = "compact" if compacted else "delete"
    for name in said.keys() & others.keys():
        raise typer.BadParameter(f"{name} is set twice: by its own option and by --set")
    return said | others


def _settings(pairs: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in pairs:
        name, _, value = pair.partition("=")
        if not name or not value:
            raise typer.BadParameter(f"--set takes NAME=VALUE, not {pair!r}")
        if name in found:
            raise typer.BadParameter(f"--set names {name} twice")
        found[name] = value
    return found
