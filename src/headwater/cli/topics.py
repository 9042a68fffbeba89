"""topics: list, create, describe, alter, delete."""

import json
from datetime import timedelta
from typing import Annotated, Any

import typer

from headwater.cli import arguments
from headwater.cli.output import AsJson, say, show
from headwater.errors import SpecError
from headwater.log.log import Log
from headwater.log.topic import Retention, Topic
from headwater.log.topics import TopicState

app = typer.Typer(help="The topics of the log: list (the default), create, describe, alter, delete.")
Name = Annotated[str, typer.Argument(help=arguments.TOPIC_HELP)]
Kept = Annotated[str | None, typer.Option("--retention", help="How long records stay: 12h, 7d, or forever.")]
Bytes = Annotated[int | None, typer.Option("--retention-bytes", help="At most this much in each partition.")]


@app.callback(invoke_without_command=True)
def topics(context: typer.Context, as_json: AsJson = False) -> None:
    """List the topics, or do something with one."""
    if context.invoked_subcommand is None:
        log = Log.open()
        rows = [_row(log.topics.describe(name)) for name in log.topics.names()]
        show(rows, as_json=as_json, empty="no topics yet: headwater topics create NAME")


@app.command()
def create(
    name: Name,
    schema: Annotated[str | None, typer.Option(help='Columns: "card string, amount double".')] = None,
    key: Annotated[str | None, typer.Option(help="The column whose records keep their order.")] = None,
    event_time: Annotated[str | None, typer.Option(help="The column that says when it happened.")] = None,
    partitions: Annotated[int, typer.Option(min=1, help="How many readers can share the work.")] = 1,
    retention: Kept = None,
    retention_bytes: Bytes = None,
    compacted: Annotated[bool, typer.Option("--compacted", help="Keep the last record of each key.")] = False,
    as_json: AsJson = False,
) -> None:
    """Create a topic; one that stands already as described is left as it is."""
    spec = {"schema": schema, "key": key, "event_time": event_time, "partitions": partitions}
    kept = _retention(retention, retention_bytes)
    topic = arguments.topic(name, **spec, retention=kept, compacted=compacted)
    log = Log.open()
    if isinstance(topic, Topic):
        made = log.topics.create(topic)
    else:
        stand_in = Topic(topic, schema="key string", key="key", retention=kept, compacted=compacted)
        made = log.topics.ensure(topic, partitions, stand_in.config)
    found = topic.name if isinstance(topic, Topic) else topic
    text = f"created {found}" if made else f"{found} exists already, just so"
    say(text, as_json=as_json, topic=found, created=made)


@app.command()
def describe(name: Name, as_json: AsJson = False) -> None:
    """Show a topic's partitions and settings."""
    topic = arguments.topic(name)
    state = Log.open().topics.describe(topic.name if isinstance(topic, Topic) else topic)
    if as_json:
        typer.echo(json.dumps(_row(state) | {"config": dict(state.config)}))
    else:
        show([_row(state)], as_json=False, empty="")
        show(
            [{"setting": one, "value": value} for one, value in state.config.items()], as_json=False, empty=""
        )


@app.command()
def alter(
    name: Name,
    partitions: Annotated[int | None, typer.Option(min=1, help="Grow to this many.")] = None,
    retention: Kept = None,
    retention_bytes: Bytes = None,
    compacted: Annotated[bool | None, typer.Option(help="Keep the last record of each key.")] = None,
    setting: Annotated[list[str] | None, typer.Option("--set", help="Any of Kafka's: name=value.")] = None,
    as_json: AsJson = False,
) -> None:
    """Change what Kafka lets one change; partitions only grow."""
    config = _settings(setting or [])
    if retention is not None:
        config["retention.ms"] = _milliseconds(retention)
    if retention_bytes is not None:
        config["retention.bytes"] = str(retention_bytes)
    if compacted is not None:
        config["cleanup.policy"] = "compact" if compacted else "delete"
    state = Log.open().topics.alter(name, partitions=partitions, config=config)
    if partitions is not None:
        typer.echo(
            "note: keys may now hash to other partitions; their older records stay where they are", err=True
        )
    show([_row(state)], as_json=as_json, empty="")


@app.command()
def delete(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete a topic and all its records."""
    if not yes:
        typer.confirm(f"delete {name} and all its records?", abort=True)
    Log.open().topics.delete(name)
    say(f"deleted {name}", as_json=as_json, deleted=name)


def _row(state: TopicState) -> dict[str, Any]:
    age = int(state.config["retention.ms"])
    return {
        "topic": state.name,
        "partitions": state.partitions,
        "replicas": state.replicas,
        "cleanup": state.config["cleanup.policy"],
        "retention": "forever" if age < 0 else str(timedelta(milliseconds=age)),
    }


def _retention(age: str | None, size: int | None) -> Retention | None:
    if age is None and size is None:
        return None
    if age is None:
        return Retention(bytes=size)
    return Retention(age=None if age == "forever" else arguments.duration(age), bytes=size)


def _milliseconds(retention: str) -> str:
    if retention == "forever":
        return "-1"
    return str(arguments.duration(retention) // timedelta(milliseconds=1))


def _settings(pairs: list[str]) -> dict[str, str]:
    found = dict(pair.partition("=")[::2] for pair in pairs)
    for name, value in found.items():
        if not name or not value:
            raise SpecError(f"--set takes name=value, not {name or value!r}")
    return found
