"""The command `headwater` as a user runs it: a process of its own, in a folder of its own."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

PROGRAM = Path(sys.executable).with_name("headwater")


def run(
    *arguments: str | Path,
    folder: Path,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
    timeout: float = 120,
) -> subprocess.CompletedProcess[str]:
    """Run `headwater …` in `folder` (so that its home is `folder/.headwater`) with `env` over a clean one."""
    return subprocess.run(
        [PROGRAM, *arguments],
        cwd=folder,
        env=environment(env),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def begin(
    *arguments: str | Path, folder: Path, env: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """The same, without waiting for its end."""
    return subprocess.Popen(
        [PROGRAM, *arguments],
        cwd=folder,
        env=environment(env),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Ours without settings of Headwater, on a screen wide enough for any table."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_")}
    return {**kept, "COLUMNS": "250", **(more or {})}
