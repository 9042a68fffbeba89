"""schemas: what the registry holds, checking and registering, and the rules of evolution."""

import json
from typing import Annotated, cast, get_args

import typer

from headwater.cli import arguments
from headwater.cli.output import AsJson, is_listing, say, show
from headwater.errors import SpecError
from headwater.log.registry import Mode, Schemas
from headwater.log.topic import Topic
from headwater.settings import Settings

app = typer.Typer()
Spec = Annotated[str, typer.Argument(metavar="FILE.PY:NAME", help="The Topic called NAME in a Python file.")]
Name = Annotated[str, typer.Argument(metavar="TOPIC", help=arguments.TOPIC_HELP)]
_VALUE = "-value"


@app.callback(invoke_without_command=True)
def schemas(context: typer.Context, as_json: AsJson = False) -> None:
    """List the registry's schemas; show, check or register one.

    The registry keeps every version of a topic's schema (under the subject <topic>-value) and
    refuses a new one that would break readers or writers. Topics in plain JSON have none there.
    """
    if is_listing(context, as_json=as_json):
        subjects = _open().subjects()
        rows = [{"topic": _topic_of(one), "subject": one} for one in subjects]
        show(rows, as_json=as_json, empty="no schemas yet: a writer registers its topic's by itself")


@app.command("show")
def show_schema(name: Name, as_json: AsJson = False) -> None:
    """Show a topic's newest schema, its versions and its mode."""
    known, topic = _open(), arguments.topic_name(name)
    found, versions, mode = known.latest(topic), known.versions(topic), known.mode(topic)
    if as_json:
        figures = {"topic": topic, "versions": versions, "mode": mode, "type": found.kind}
        typer.echo(json.dumps({**figures, "schema": found.text}))
        return
    counted = "version" if len(versions) == 1 else "versions"
    typer.echo(f"{topic}: {counted} {', '.join(map(str, versions))}; mode {mode}; {found.kind}")
    is_json = found.kind != "protobuf"
    typer.echo(json.dumps(json.loads(found.text), indent=2) if is_json else found.text)


@app.command()
def check(topic: Spec, as_json: AsJson = False) -> None:
    """Tell whether a topic's schema may be registered; change nothing.

    It may when the topic's mode lets it follow the versions that are there.

        headwater schemas check bank.py:PAYMENTS
    """
    spec = _spec(topic)
    _open().check(spec)
    say(f"{spec.name} may be registered", as_json=as_json, topic=spec.name, compatible=True)


@app.command()
def register(topic: Spec, as_json: AsJson = False) -> None:
    """Register a topic's schema.

    A writer does so too, before its first record.
    """
    spec = _spec(topic)
    number = _open().register(spec)
    say(f"{spec.name} is registered with id {number}", as_json=as_json, topic=spec.name, id=number)


@app.command()
def mode(
    name: Name,
    new: Annotated[
        str | None, typer.Argument(metavar="MODE", help=f"One of {', '.join(get_args(Mode))}.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show or set which changes of a topic's schema are allowed.

    backward: new readers read old records; forward: old readers read new records; full: both. With
    -transitive every older version counts, not only the last. none: nothing is checked.

        headwater schemas mode payments full
    """
    if new is not None and new not in get_args(Mode):
        raise typer.BadParameter(f"{new!r} is not a mode; modes: {', '.join(get_args(Mode))}")
    known, topic = _open(), arguments.topic_name(name)
    if new is not None:
        known.set_mode(topic, cast("Mode", new))
    held = known.mode(topic)
    say(f"{topic}: {held}", as_json=as_json, topic=topic, mode=held)


def _open() -> Schemas:
    return Schemas.open(Settings.load())


def _topic_of(subject: str) -> str | None:
    return subject.removesuffix(_VALUE) if subject.endswith(_VALUE) else None


def _spec(text: str) -> Topic:
    topic = arguments.topic(text)
    if isinstance(topic, str):
        raise SpecError(f"{text!r} has no schema", hint="name a Topic of a Python file: shop.py:ORDERS")
    return topic
