"""groups: who reads, how far they are, and moving them."""

from typing import Annotated

import typer

from headwater.cli import arguments
from headwater.cli.output import AsJson, is_listing, say, show
from headwater.log.log import Log

app = typer.Typer()
Name = Annotated[str, typer.Argument(metavar="GROUP", help="The group's name.")]


@app.callback(invoke_without_command=True)
def groups(context: typer.Context, as_json: AsJson = False) -> None:
    """List the consumer groups; show, reset or delete one.

    The readers of a group share the partitions of its topics among them. The group commits how far
    it is (the offset of the next record to read), so that it goes on from there after a stop.
    """
    if is_listing(context, as_json=as_json):
        known = Log.open().groups
        states = [known.describe(name) for name in known.names()]
        rows = [{"group": one.name, "state": one.state, "members": len(one.members)} for one in states]
        show(rows, as_json=as_json, empty="no groups yet: one appears with its first reader")


@app.command("show")
def show_group(name: Name, as_json: AsJson = False) -> None:
    """Show what a group has committed, and who reads in it."""
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
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help=arguments.TOPIC_HELP)],
    to: Annotated[str, typer.Option(metavar="PLACE", help=f"Where to: {arguments.START_HELP}")],
    as_json: AsJson = False,
) -> None:
    """Move a group in a topic: its next reader starts there.

    Refused while somebody reads in the group: the next commit would undo the move.

        headwater groups reset billing payments --to 2026-11-16T09:00Z
    """
    place, where = arguments.start(to), arguments.topic_name(topic)
    offsets = Log.open().groups.reset(name, where, place)
    rows = [{"topic": where, "partition": one, "offset": offset} for one, offset in sorted(offsets.items())]
    show(rows, as_json=as_json, empty="")


@app.command()
def delete(name: Name, as_json: AsJson = False) -> None:
    """Forget a group and how far it was.

    Refused while somebody reads in it.
    """
    Log.open().groups.delete(name)
    say(f"deleted {name}", as_json=as_json, deleted=name)
