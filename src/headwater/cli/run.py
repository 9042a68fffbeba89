"""run: an app's pipelines under way, as a live table, as lines for a log, or as JSON."""

import json
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from threading import Event
from types import FrameType
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.live import Live
from rich.text import Text

from headwater import clock
from headwater.cli.capture_figures import as_row, news_of, troubles_of
from headwater.cli.output import ERRORS, AsJson, is_terminal, note, progress_bar, table
from headwater.python_files import app_in
from headwater.settings import Settings

AppFile = Annotated[
    str,
    typer.Argument(
        metavar="FILE.PY[:APP]", help="A Python file with an App in it; file.py:NAME when it has several."
    ),
]
Only = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help="Only this pipeline; may be given again.")
]
_LOOK_EVERY = 0.25
_LINE_EVERY = 1.0
_TIMES = ("watermark", "delay_s", "completeness", "late", "dead")
_SHOWN = ("batch", "rows", "rows_per_s", "batch_ms", "lag", *_TIMES, "state_rows", "state_bytes", "restarts")


def run(
    path: AppFile,
    only: Only = None,
    once: Annotated[bool, typer.Option("--once", help="End when what is in the topics now is read.")] = False,
    plain: Annotated[bool, typer.Option("--plain", help="Print lines for a log, not a live table.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run an app's pipelines until interrupted.

    Ctrl-C or SIGTERM finishes the batch in hand and stops; the next run goes on from there. A pipeline
    whose cause of failure passes (a broker is away, a worker died) is tried again with growing pauses;
    one that fails for good ends alone, and the command's exit code is 1. Topics that do not exist yet are
    made as the app declares them. What the app captures is held up beside its pipelines: what is wrong with a
    connector is told, and tried again; only an app that cannot do without it does not begin.

        headwater run bank.py
        headwater run bank.py --only card-activity --plain >> bank.log
    """
    from headwater.run.runner import running  # noqa: PLC0415 - Spark is slow to import, other verbs need none

    app = app_in(path).only(only or [])
    asked = Event()
    as_lines = plain or as_json or not is_terminal(sys.stdout)
    with (
        _asked_to_stop(asked),
        progress_bar() as bar,
        running(app, Settings.load(), once=once, files=beside(path), progress=bar) as supervisor,
    ):
        _watch(supervisor, asked, as_lines=as_lines, as_json=as_json)
        if asked.is_set():
            note("finishing the batch in hand …")
    for error in supervisor.errors:
        ERRORS.print(f"error: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
    if supervisor.errors:
        raise typer.Exit(1)


def beside(path: str) -> list[Path]:
    """The Python files that stand beside an app's, which its functions may import."""
    return sorted(Path(path.partition(".py:")[0].removesuffix(".py") + ".py").parent.glob("*.py"))


@contextmanager
def _asked_to_stop(asked: Event) -> Iterator[None]:
    """The first signal asks to stop; the second one ends at once, as without us."""

    def ask(number: int, frame: FrameType | None) -> None:
        if asked.is_set():
            signal.default_int_handler(number, frame)
        asked.set()

    before = {one: signal.signal(one, ask) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _watch(supervisor: Any, asked: Event, *, as_lines: bool, as_json: bool) -> None:
    told: dict[str, tuple[Any, ...]] = {}
    said_at = 0.0
    with nullcontext() if as_lines else Live(Text("starting …"), auto_refresh=False) as live:
        while supervisor.is_alive and not asked.is_set():
            asked.wait(_LOOK_EVERY)
            if live is not None:
                live.update(_picture(supervisor), refresh=True)
            elif time.monotonic() - said_at >= _LINE_EVERY:
                said_at = time.monotonic()
                _say_news(supervisor, told, as_json=as_json)
    if as_lines:
        _say_news(supervisor, told, as_json=as_json)


def _say_news(supervisor: Any, told: dict[str, tuple[Any, ...]], *, as_json: bool) -> None:
    """A line for each pipeline that has a new batch or a new state, and for each connector likewise."""
    for one in supervisor.captures:
        if text := news_of(one.figures, told, as_json=as_json):
            typer.echo(text)
    for one in supervisor.figures:
        news = (one.state, one.batch, one.error)
        if told.get(one.pipeline) != news:
            told[one.pipeline] = news
            typer.echo(json.dumps(_fields(one)) if as_json else _line(one))


def _fields(one: Any) -> dict[str, Any]:
    fields = asdict(one)
    moment, delay = fields["watermark"], fields.pop("delay")
    return {
        **fields,
        "at": clock.now().isoformat(),
        "watermark": moment.isoformat() if moment else None,
        "delay_s": None if delay is None else delay.total_seconds(),
    }


def _line(one: Any) -> str:
    """`2026-11-16T10:00:01Z card-activity running batch=7 rows=1000 …`: for people, grep and awk."""
    said = {**_fields(one), "watermark": _moment(one.watermark)}
    figures = " ".join(f"{name}={_plain(said[name])}" for name in _SHOWN)
    error = f" error={json.dumps(one.error)}" if one.error else ""
    return f"{_moment(clock.now())} {one.pipeline} {one.state} {figures}{error}"


def _plain(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _picture(supervisor: Any) -> Group:
    """The tables, and under them what the connectors and pipelines that wait or failed have to say."""
    figures, captures = supervisor.figures, [one.figures for one in supervisor.captures]
    tables = [table([as_row(one) for one in captures])] if captures else []
    troubles = [trouble for one in captures for trouble in troubles_of(one)]
    troubles += [f"{one.pipeline}: {one.error.splitlines()[0]}" for one in figures if one.error]
    return Group(
        *tables, table([_row(one) for one in figures]), *(Text(one, style="red") for one in troubles)
    )


def _row(one: Any) -> dict[str, Any]:
    return {
        "pipeline": one.pipeline,
        "status": one.state,
        "rows/s": round(one.rows_per_s),
        "batch": one.batch,
        "took": "-" if one.batch_ms is None else f"{one.batch_ms / 1000:.2f} s",
        "lag": one.lag,
        "watermark": _moment(one.watermark),
        "held by": one.held_by or "-",
        "on time": "-" if one.completeness is None else f"{100 * one.completeness:.2f} %",
        "late": one.late,
        "dead": one.dead,
        "rows in state": one.state_rows,
        "state": f"{one.state_bytes / 1e6:,.1f} MB",
    }


def _moment(found: Any) -> str:
    return "-" if found is None else f"{found:%Y-%m-%dT%H:%M:%S}Z"
