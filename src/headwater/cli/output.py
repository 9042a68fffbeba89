"""How commands speak: tables for people, JSON for programs, errors and progress on standard error.

A terminal gets colours and columns that fit it. A pipe gets plain lines, one for each row and as long
as they need to be: whoever reads them (grep, awk) can do nothing with a wrapped one.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, TextIO

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from headwater.embedded.jars import Progress as OnProgress

ERRORS = Console(stderr=True)
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
_WIDE = 100_000
_PLACES = ("pid", "partition", "offset", "committed", "end")  # to be copied, not counted


def show(rows: Iterable[Mapping[str, Any]], *, as_json: bool, empty: str) -> None:
    """Print rows as a table (or a JSON array); `empty` says in words that there are none."""
    rows = list(rows)
    if as_json:
        typer.echo(json.dumps(rows))
    elif not rows:
        typer.echo(empty)
    elif is_terminal(sys.stdout):
        Console().print(table(rows))
    else:
        typer.echo(plain(rows))


def table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Rows as a table; columns of numbers stand to the right."""
    made = Table(box=None, header_style="bold", pad_edge=False)
    for name in rows[0]:
        numbers = any(isinstance(row[name], int | float) for row in rows)
        made.add_column(name.replace("_", " "), justify="right" if numbers else "left")
    for row in rows:
        made.add_row(*(Text(_cell(name, value)) for name, value in row.items()))
    return made


def plain(rows: Sequence[Mapping[str, Any]]) -> str:
    """The same table as text without colours: a line for each row, whatever its length."""
    console = Console(width=_WIDE, color_system=None, force_terminal=False)
    with console.capture() as captured:
        console.print(table(rows), crop=False)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def say(text: str, *, as_json: bool, **figures: Any) -> None:
    """Print one line for people, or the figures behind it as JSON."""
    typer.echo(json.dumps(figures) if as_json else text)


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a person sits at the other end (a closed stream has none)."""
    return stream is not None and stream.isatty()


def note(text: str) -> None:
    """Tell a person something beside the answer."""
    typer.echo(text, err=True)


def is_confirmed(question: str) -> bool:
    """Ask on standard error; only y or yes is a yes (the end of the input is not)."""
    typer.echo(f"{question} [y/N] ", err=True, nl=False)
    answer = sys.stdin.readline() if sys.stdin else ""
    if not answer.endswith("\n"):
        typer.echo("", err=True)
    return answer.strip().lower() in ("y", "yes")


def is_listing(context: typer.Context, *, as_json: bool) -> bool:
    """Whether a group of verbs was called without one, which lists."""
    if context.invoked_subcommand and as_json:
        verb = f"{context.command_path} {context.invoked_subcommand}"
        raise typer.BadParameter(f"--json stands after the verb: {verb} … --json")
    return context.invoked_subcommand is None


def counted(number: int, thing: str) -> str:
    """`1 record`, `2,000 records`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


@contextmanager
def progress_bar() -> Iterator[OnProgress]:
    """A bar for downloads on standard error; it shows only when there is something to fetch."""
    columns = (
        TextColumn("fetching {task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=ERRORS, transient=True, disable=not is_terminal(sys.stderr)) as bar:
        tasks: dict[str, TaskID] = {}

        def told(bundle: str, done: int, total: int) -> None:
            if bundle not in tasks:
                tasks[bundle] = bar.add_task(bundle, total=total)
                if bar.disable:
                    ERRORS.print(f"fetching {bundle} ({total / 1e6:,.0f} MB), once", highlight=False)
            bar.update(tasks[bundle], completed=done)

        yield told


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if name in _PLACES:
        return str(value)
    if name == "trend":  # rising or falling: the sign is what one looks for
        return f"{value:+,.1f}/s" if round(value, 1) else "0.0/s"
    if isinstance(value, float):
        return f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
