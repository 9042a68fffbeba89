"""Findings: what a database lacks for capture, each with what mends it.

An error would stop capture, or let it lose or change something; a warning is a danger to know of. A hint is
mostly SQL, to be run by whoever may.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from headwater.capture.table import Table

Severity = Literal["error", "warning"]


@dataclass(frozen=True)
class Finding:
    """One thing that a database lacks."""

    what: str
    database: str = field(default="", kw_only=True)
    detail: str = field(default="", kw_only=True)
    hint: str = field(default="", kw_only=True)
    severity: Severity = field(default="error", kw_only=True)

    def __str__(self) -> str:
        where = f"{self.database}: " if self.database else ""
        lines = [
            where + self.what,
            *self.detail.splitlines(),
            *(f"mend: {one}" for one in self.hint.splitlines()),
        ]
        return "\n  ".join(lines)


def warning(what: str, *, detail: str = "", hint: str = "") -> Finding:
    """A danger to know of."""
    return Finding(what, detail=detail, hint=hint, severity="warning")


@dataclass(frozen=True, kw_only=True)
class Group:
    """Tables that are captured through one slot, and the publication of its name.

    `ddl` makes the table of an outbox. Its rows never change, so nothing hangs on what an update tells.
    """

    slot: str
    tables: Sequence[Table]
    ddl: str = ""

    @property
    def only_inserts(self) -> bool:
        """Whether its rows never change."""
        return bool(self.ddl)
