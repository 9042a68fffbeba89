"""The command `headwater`: one verb a file, no logic of its own.

Answers go to standard output, as a table for people or (`--json`) as JSON for programs; errors go
to standard error with their code and a hint. Exit codes: 0 done, 1 an error, 2 a call that cannot
be understood, 3 an alert (`lag --max`), 130 interrupted.
"""

import os
import sys
from collections.abc import Callable

import typer

from headwater import __version__
from headwater.cli import (
    capture,
    dead,
    doctor,
    explain,
    groups,
    lag,
    late,
    produce,
    rebuild,
    rehearse,
    run,
    schemas,
    servers,
    tail,
    topics,
    verify,
)
from headwater.cli.output import ERRORS
from headwater.errors import HeadwaterError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # no boxes: the same plain text on a terminal, in a pipe and in the reference
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def root(
    version: bool = typer.Option(False, "--version", help="Show the version and end.", is_eager=True),
) -> None:
    """Streaming in Python on Apache Spark that keeps every promise of the textbook.

    `headwater up` starts a real Kafka on this machine; HEADWATER_KAFKA=host:9092 names one that you
    have. Each command tells more with --help.

    \b
        headwater up
        headwater topics create clicks
        echo '{"page": "/"}' | headwater produce clicks
        headwater tail clicks
    """  # noqa: D301 - \b keeps the lines of an example apart
    if version:
        typer.echo(__version__)
        raise typer.Exit


_VERBS: tuple[Callable[..., None], ...] = (
    *(servers.up, servers.down, servers.status, doctor.doctor),
    *(
        run.run,
        explain.explain,
        rehearse.rehearse,
        verify.verify,
        rebuild.rebuild,
        produce.produce,
        tail.tail,
        lag.lag,
    ),
)
for verb in _VERBS:
    app.command()(verb)
app.add_typer(capture.app, name="capture")
app.add_typer(topics.app, name="topics")
app.add_typer(groups.app, name="groups")
app.add_typer(schemas.app, name="schemas")
app.add_typer(dead.app, name="dead")
app.add_typer(late.app, name="late")


def main() -> None:
    """Run the command; errors of ours end it with a message, not with a trace."""
    try:
        app(prog_name="headwater")
    except HeadwaterError as error:
        _fail(str(error))
    except OSError as error:  # the disk under standard output is full, say
        _silence()
        _fail(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}")
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # `headwater tail | head` is no error
            _silence()
            sys.exit(0)
        raise


def _fail(why: str) -> None:
    ERRORS.print(f"error: {why}", style="red", markup=False, highlight=False, soft_wrap=True)
    sys.exit(1)


def _silence() -> None:
    """Let what is still in the buffer go nowhere, or Python would complain about it at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
