"""The command `headwater`: one verb a file, no logic of its own.

Answers go to standard output, as a table for people or (`--json`) as JSON for programs; errors go
to standard error with their code and a hint. Exit codes: 0 done, 1 an error, 2 a call that cannot
be understood, 3 an alert (`lag --max`), 130 interrupted.
"""

import os
import sys

import typer

from headwater import __version__
from headwater.cli import doctor, groups, lag, produce, schemas, servers, tail, topics
from headwater.cli.output import ERRORS
from headwater.errors import HeadwaterError

app = typer.Typer(
    help="Streaming in Python on Apache Spark: the log, and (soon) everything above it.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def root(
    version: bool = typer.Option(False, "--version", help="Show the version and end.", is_eager=True),
) -> None:
    """Streaming in Python on Apache Spark that keeps every promise of the textbook.

    Start a real Kafka on this machine with [bold]headwater up[/], or name one with HEADWATER_KAFKA=host:9092.
    """
    if version:
        typer.echo(__version__)
        raise typer.Exit


for verb in (servers.up, servers.down, servers.status, doctor.doctor, produce.produce, tail.tail, lag.lag):
    app.command()(verb)
app.add_typer(topics.app, name="topics")
app.add_typer(groups.app, name="groups")
app.add_typer(schemas.app, name="schemas")


def main() -> None:
    """Run the command; errors of ours end it with a message, not with a trace."""
    try:
        app()
    except HeadwaterError as error:
        ERRORS.print(f"error: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # `headwater tail | head` is no error
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
