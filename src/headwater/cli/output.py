"""How commands speak: tables for people, JSON for programs, errors and progress on standard error."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from headwater.embedded.jars import Progress as OnProgress

ERRORS = Console(stderr=True)
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def show(rows: Iterable[Mapping[str, Any]], *, as_json: bool, empty: str) -> None:
    """Print rows as a table (or a JSON array); `empty` says in words that there are none."""
    rows = list(rows)
    if as_json:
        typer.echo(json.dumps(rows))
    elif rows:
        Console().print(table(rows))
    else:
        typer.echo(empty)


def table(rows: Sequence[Mapping[str, Any]], title: str | None = None) -> Table:
    """Rows as a table; numbers stand to the right."""
    made = Table(box=None, title=title, header_style="bold", pad_edge=False)
    for name, value in rows[0].items():
        made.add_column(name.replace("_", " "), justify="right" if isinstance(value, int | float) else "left")
    for row in rows:
        made.add_row(*(_cell(name, value) for name, value in row.items()))
    return made


def say(text: str, *, as_json: bool, **figures: Any) -> None:
    """Print one line for people, or the figures behind it as JSON."""
    typer.echo(json.dumps(figures) if as_json else text)


@contextmanager
def progress_bar() -> Iterator[OnProgress]:
    """A bar for downloads on standard error; it shows only when there is something to fetch."""
    columns = (
        TextColumn("fetching {task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=ERRORS, transient=True, disable=not sys.stderr.isatty()) as bar:
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
    if name == "pid":  # to be copied, not counted
        return str(value)
    if isinstance(value, float):
        return f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
