"""capture check: what an app's databases lack for capture, each with what mends it; nothing is changed."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from headwater.app import App
from headwater.cli.output import AsJson, counted, show
from headwater.cli.run import AppFile
from headwater.errors import BadPipeline
from headwater.python_files import app_in
from headwater.settings import Settings

if TYPE_CHECKING:
    from headwater.capture.checks.findings import Finding


def check(path: AppFile, as_json: AsJson = False) -> None:
    """Ask the databases what they lack for capture, and what mends it.

    An error would stop capture, or let it lose or change something; a warning is a danger to know of.
    Nothing is changed, and nothing but the databases need run. What mends is mostly SQL, for whoever may run
    it there. The exit code is 1 when there is an error, and 0 when there are only warnings.

        headwater capture check shop.py
        headwater capture check shop.py --json | jq -r '.[].hint'
    """
    from headwater.capture.checks import check as checked  # noqa: PLC0415 - database drivers: few verbs need them

    found = checked(app_that_captures(path).captures, Settings.load())
    found.sort(key=lambda one: one.severity)  # errors come first
    if as_json:
        show([asdict(one) for one in found], as_json=True, empty="")
    else:
        _tell(found)
    if any(one.severity == "error" for one in found):
        raise typer.Exit(1)


def app_that_captures(path: str) -> App:
    """The app of a file, which must capture something."""
    found = app_in(path)
    if not found.captures:
        raise BadPipeline(f"app {found.name!r} captures nothing", hint="App(…, captures=[TABLE])")
    return found


def _tell(found: "Sequence[Finding]") -> None:
    for one in found:
        typer.echo(f"{one.severity}: {one}")
    errors = sum(one.severity == "error" for one in found)
    typer.echo(f"{counted(errors, 'error')}, {counted(len(found) - errors, 'warning')}")
