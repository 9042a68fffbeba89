"""groups: who reads, how far they are, and moving them."""

from typing import Annotated

import typer

from headwater.cli import arguments
from headwater.cli.output import AsJson, say, show
from headwater.log.log import Log

app = typer.Typer(help="Consumer groups: list (the default), show, reset, delete.")
Name = Annotated[str, typer.Argument(help="The group's name.")]


@app.callback(invoke_without_command=True)
def groups(context: typer.Context, as_json: AsJson = False) -> None:
    """List the consumer groups, or do something with one."""
    if context.invoked_subcommand is None:
        known = Log.open().groups
        states = [known.describe(name) for name in known.names()]
        rows = [{"group": one.name, "state": one.state, "members": len(one.members)} for one in states]
        show(rows, as_json=as_json, empty="no groups yet")


@app.command("show")
def show_group(name: Name, as_json: AsJson = False) -> None:
    """Show a group's partitions: who reads them and what is committed."""
    state = Log.open().groups.describe(name)
    readers = {where: one.client for one in state.members for where in one.partitions}
    rows = [
        {
            "topic": where.topic,
            "partition": where.partition,
            "committed": state.committed.get(where),
            "read_by": readers.get(where),
        }
        for where in sorted({*readers, *state.committed})
    ]
    show(rows, as_json=as_json, empty=f"group {name} is {state.state} and has committed nothing")


@app.command()
def reset(
    name: Name,
    topic: Annotated[str, typer.Argument(help="The topic to move in.")],
    to: Annotated[str, typer.Option(help=f"Where to: {arguments.START_HELP}")],
    as_json: AsJson = False,
) -> None:
    """Move a group that nobody reads in: the next reader starts there.

    headwater groups reset billing payments --to 2026-11-16T09:00Z
    """
    offsets = Log.open().groups.reset(name, topic, arguments.start(to))
    rows = [{"topic": topic, "partition": one, "offset": offset} for one, offset in sorted(offsets.items())]
    show(rows, as_json=as_json, empty="")


@app.command()
def delete(name: Name, as_json: AsJson = False) -> None:
    """Forget a group and its offsets."""
    Log.open().groups.delete(name)
    say(f"deleted {name}", as_json=as_json, deleted=name)
