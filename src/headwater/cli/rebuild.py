"""rebuild: a pipeline's copies made anew from the log, and switched to while readers read on."""

import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn

from headwater.cli.output import ERRORS, AsJson, counted, is_terminal, note, progress_bar
from headwater.cli.run import AppFile, beside
from headwater.python_files import app_in
from headwater.settings import Settings

_SAY_EVERY = 5.0


def rebuild(
    path: AppFile,
    pipeline: Annotated[str, typer.Argument(metavar="PIPELINE", help="The pipeline that keeps the copies.")],
    abandon: Annotated[
        bool, typer.Option("--abandon", help="Remove what an interrupted rebuild has left; build nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make a pipeline's copies anew from the log, and switch to them.

    Readers find the old copy until the new one is as new as the log, and then the new one: never none, and
    never half of one. The pipeline may go on running; it is held for a moment at the switch. If its code has
    changed since it was started, it ends there, and is to be run again with the code of the rebuild.

    Ctrl-C or a crash loses nothing: run it again, and it goes on where it was.

        headwater rebuild shop.py in-search
        headwater rebuild shop.py in-search --abandon
    """
    from headwater.run.rebuild import Rebuild  # noqa: PLC0415 - Spark is slow to import
    from headwater.run.session import close, session  # noqa: PLC0415

    app, settings = app_in(path), Settings.load()
    app.only([pipeline])
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with progress_bar() as bar:
        spark = session(settings, app.name, files=beside(path), progress=bar)
    try:
        with _shown() as progress:
            found = Rebuild(app, pipeline, spark, settings, progress)
            done = None if abandon else found.run()
            if abandon:
                found.abandon()
    except KeyboardInterrupt:
        note("run it again to go on, or with --abandon to remove what is there")
        raise
    finally:
        close(spark)
    if done is None:
        typer.echo("[]" if as_json else "abandoned: readers find the copies that they found before")
    else:
        typer.echo(json.dumps(_fields(done)) if as_json else _text(done))


def _text(done: Any) -> str:
    """A line for each copy, and what else there is to know."""
    read = f"{counted(done.rows, 'record')} read{' after going on' if done.went_on else ''}"
    held = f"the pipeline was held for {done.held.total_seconds():.1f} s"
    lines = [f"{copy}: rebuilt and switched, {read}, {held}" for copy in done.copies]
    if done.leaves:
        lines.append("somebody still uses an old copy: the next rebuild removes it, or --abandon")
    return "\n".join(lines)


def _fields(done: Any) -> dict[str, Any]:
    return {
        "copies": done.copies,
        "records": done.rows,
        "went_on": done.went_on,
        "held_s": round(done.held.total_seconds(), 3),
        "leaves": done.leaves,
    }


@contextmanager
def _shown() -> Iterator[Callable[[str, int, int, str], None]]:
    """How far it is, on standard error: a bar on a terminal, and a line from time to time elsewhere."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[said]}"))
    began, said_at = time.monotonic(), 0.0
    first: int | None = None
    with Progress(*columns, console=ERRORS, transient=True, disable=not is_terminal(sys.stderr)) as bar:
        task = bar.add_task("starting", total=None, said="")

        def told(stage: str, done: int, total: int, trouble: str) -> None:
            nonlocal said_at, first
            first = done if first is None else first
            rate = (done - first) / (time.monotonic() - began)
            said = f"waiting: {trouble}" if trouble else _said(done, total, rate)
            bar.update(task, description=stage, completed=done, total=total, said=said)
            if bar.disable and time.monotonic() - said_at > _SAY_EVERY:
                said_at = time.monotonic()
                note(f"{stage}: {said}")

        yield told


def _said(done: int, total: int, rate: float) -> str:
    left = f", {(total - done) / rate:,.0f} s left" if rate else ""
    return f"{done:,} of {total:,} records, {rate:,.0f}/s{left}"
