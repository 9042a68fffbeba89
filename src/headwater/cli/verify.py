"""verify: whether a pipeline's copies are what their source says, and which rows are not."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn

from headwater.cli import arguments
from headwater.cli.output import ERRORS, AsJson, counted, is_terminal, plain
from headwater.cli.run import AppFile
from headwater.errors import BadPipeline
from headwater.python_files import app_in
from headwater.settings import Settings


class Against(StrEnum):
    """What a copy must be equal to."""

    log = "log"
    database = "database"


_KINDS = {"missing": "not in the copy", "unexpected": "only in the copy", "different": ""}
_LONGEST = 60


def verify(
    path: AppFile,
    pipeline: Annotated[str, typer.Argument(metavar="PIPELINE", help="The pipeline that keeps the copies.")],
    against: Annotated[
        Against, typer.Option(help="The log's newest row of every key, or the table in its database.")
    ] = Against.log,
    wait: Annotated[
        str, typer.Option(metavar="DURATION", help="How long a copy may take to catch up (60s, 5m).")
    ] = "60s",
    show: Annotated[int, typer.Option(min=0, metavar="N", help="Name the first N rows that differ.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Compare copies with their source, and name what differs.

    The pipeline must keep plain copies of a captured table (its function is upserts). It may go on running:
    a row counts as different only if the copy shows a state that its source has not had since the
    comparison began. The exit code is 0 when all copies are equal, 1 when one is not, and 2 when the
    pipeline cannot be verified.

        headwater verify shop.py orders
        headwater verify shop.py orders --against database --wait 5m
    """
    from headwater.verify.pipeline import verify as verified  # noqa: PLC0415 - it loads clients and Spark's types

    within, settings = arguments.duration(wait), Settings.load()
    all_equal, told = True, []
    with _progress() as progress:
        try:
            asked = {"against": against.value, "within": within, "show": show, "progress": progress}
            for one in verified(app_in(path), pipeline, settings, **asked):
                all_equal = all_equal and one.verdict.is_equal
                if not as_json:
                    typer.echo(_text(one))
                told.append(_fields(one))
        except BadPipeline as error:
            ERRORS.print(f"error: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
            raise typer.Exit(2) from error
    if as_json:
        typer.echo(json.dumps(told, default=str))
    if not all_equal:
        raise typer.Exit(1)


def _text(one: Any) -> str:
    """A line, and under it the rows that differ."""
    whole, verdict = one.verdict.whole, one.verdict
    head = f"{one.kind} {one.copy}: "
    if verdict.is_equal:
        return (
            f"{head}equal to the {one.against}, {counted(whole.rows, 'row')}, checksum {whole.checksums[0]}"
        )
    counts = f"{counted(whole.rows, 'row')} there, {whole.copied:,} in the copy"
    lines = [f"{head}{counted(verdict.different, 'row')} different from the {one.against} ({counts})"]
    if verdict.behind:
        lines.append(f"the copy is {counted(verdict.behind, 'record')} behind: does its pipeline run?")
    rows = [_difference(found, one.against) for found in verdict.differences]
    return "\n".join([*lines, *([plain(rows)] if rows else [])])


def _difference(found: Any, against: str) -> dict[str, str]:
    sides = [
        "; ".join(f"{name}: {_short(values[at])}" for name, values in found.columns.items()) for at in (0, 1)
    ]
    return {
        "key": ", ".join(map(str, found.key)),
        "what": _KINDS[found.kind] or ", ".join(found.columns),
        f"the {against}": sides[0],
        "the copy": sides[1],
    }


def _short(value: Any) -> str:
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _fields(one: Any) -> dict[str, Any]:
    verdict, whole = one.verdict, one.verdict.whole
    return {
        "copy": one.copy,
        "kind": one.kind,
        "against": one.against,
        "equal": verdict.is_equal,
        "rows": whole.rows,
        "copied": whole.copied,
        "different": verdict.different,
        "looked_again": verdict.looked_again,
        "behind": verdict.behind,
        "checksum": whole.checksums[0],
        "copy_checksum": whole.checksums[1],
        "differences": [asdict(found) for found in verdict.differences],
        "ranges": [
            {
                "first": stretch.first,
                "rows": stretch.rows,
                "copied": stretch.copied,
                "checksum": stretch.checksums[0],
                "copy_checksum": stretch.checksums[1],
            }
            for stretch in verdict.ranges
        ],
    }


@contextmanager
def _progress() -> Iterator[Any]:
    """What is being read, and how far, on standard error; a pipe gets none."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=ERRORS, transient=True, disable=not is_terminal(sys.stderr)) as bar:
        task = bar.add_task("starting")

        def told(what: str, count: int) -> None:
            bar.update(task, description=f"reading {what}: {count:,}" if count else f"waiting {what}")

        yield told
