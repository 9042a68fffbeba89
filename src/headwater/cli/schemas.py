"""schemas: what the registry holds, checking and registering, and the rules of evolution."""

from typing import Annotated, cast, get_args

import typer

from headwater.cli import arguments
from headwater.cli.output import AsJson, say, show
from headwater.errors import SpecError
from headwater.log.registry import Mode, Schemas
from headwater.log.topic import Topic
from headwater.settings import Settings

app = typer.Typer(help="The schema registry: list (the default), show, check, register, mode.")
Spec = Annotated[str, typer.Argument(help="file.py:NAME of a Topic in a Python file.")]
Name = Annotated[str, typer.Argument(help="The topic's name.")]


@app.callback(invoke_without_command=True)
def schemas(context: typer.Context, as_json: AsJson = False) -> None:
    """List what the registry holds, or do something with one topic's schema."""
    if context.invoked_subcommand is None:
        rows = [{"subject": one} for one in Schemas.open(Settings.load()).subjects()]
        show(rows, as_json=as_json, empty="no schemas yet")


@app.command("show")
def show_schema(name: Name, as_json: AsJson = False) -> None:
    """Show a topic's newest schema, its versions and its mode."""
    known = Schemas.open(Settings.load())
    found, versions, mode = known.latest(name), known.versions(name), known.mode(name)
    if not as_json:
        typer.echo(f"{name}: versions {', '.join(map(str, versions))}; mode {mode}; {found.kind}")
    say(
        found.text,
        as_json=as_json,
        topic=name,
        versions=versions,
        mode=mode,
        type=found.kind,
        schema=found.text,
    )


@app.command()
def check(topic: Spec, as_json: AsJson = False) -> None:
    """Tell whether a topic's schema may follow the registered one; nothing is changed."""
    spec = _spec(topic)
    Schemas.open(Settings.load()).check(spec)
    say(f"{spec.name} may be registered", as_json=as_json, topic=spec.name, compatible=True)


@app.command()
def register(topic: Spec, as_json: AsJson = False) -> None:
    """Register a topic's schema (a writer does so too, before its first record)."""
    spec = _spec(topic)
    number = Schemas.open(Settings.load()).register(spec)
    say(f"{spec.name} is registered with id {number}", as_json=as_json, topic=spec.name, id=number)


@app.command()
def mode(
    name: Name,
    new: Annotated[str | None, typer.Argument(help=f"One of {', '.join(get_args(Mode))}.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show or set what a new schema of a topic must be compatible with."""
    known = Schemas.open(Settings.load())
    if new is not None:
        if new not in get_args(Mode):
            raise typer.BadParameter(f"{new!r} is not a mode: {', '.join(get_args(Mode))}")
        known.set_mode(name, cast("Mode", new))
    say(f"{name}: {known.mode(name)}", as_json=as_json, topic=name, mode=known.mode(name))


def _spec(text: str) -> Topic:
    topic = arguments.topic(text)
    if isinstance(topic, str):
        raise SpecError(f"{text!r} has no schema", hint="name a Topic of a Python file: shop.py:ORDERS")
    return topic
