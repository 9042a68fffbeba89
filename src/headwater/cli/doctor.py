"""doctor: what is missing on this machine, and the one command that mends it."""

from typing import Any

import typer

from headwater.cli.output import AsJson, show
from headwater.embedded.health import examine
from headwater.settings import Settings


def doctor(as_json: AsJson = False) -> None:
    """Examine this machine; tell what is missing and what mends it.

    It looks at Python, Java, Spark, memory, disk, ports and the broker, and ends with 1 if something
    is missing.
    """
    findings = examine(Settings.load())
    rows: list[dict[str, Any]] = [
        {
            "check": one.check,
            "state": "ok" if one.is_well else "MISSING",
            "found": one.found,
            "mend": one.mend,
        }
        for one in findings
    ]
    show(rows, as_json=as_json, empty="")
    if not all(one.is_well for one in findings):
        raise typer.Exit(1)
