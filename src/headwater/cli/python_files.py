"""file.py:NAME: the Topic that a Python file of the user's calls NAME.

The file is run as `python file.py` would run it, with its own folder to import from. Whatever goes
wrong in it is the user's to mend, so it is told in one line with its place, never as a trace; what it
prints goes to standard error, where it cannot spoil an answer.
"""

import runpy
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

from headwater.errors import HeadwaterError, SpecError
from headwater.log.topic import Topic


def topic_in(file: Path, name: str) -> Topic:
    """The Topic called `name` in a Python file; SpecError when there is none, or no such file."""
    if not file.is_file():
        raise SpecError(f"there is no file {file}")
    names = _run(file)
    found = names.get(name)
    if not isinstance(found, Topic):
        topics = [known for known, one in names.items() if isinstance(one, Topic)]
        hint = f"its topics: {', '.join(topics)}" if topics else f'write {name or "NAME"} = Topic("…") in it'
        raise SpecError(
            f"{file} has no Topic called {name!r}" if name else f"which topic of {file}?", hint=hint
        )
    return found


def _run(file: Path) -> dict[str, Any]:
    try:
        with _imports_from(file.parent), redirect_stdout(sys.stderr):
            return runpy.run_path(str(file), run_name="headwater.topics")
    except (Exception, SystemExit) as error:
        raise SpecError(
            f"{file} cannot be run",
            detail=f"{_place(error, file)}{_said(error)}",
            hint=f"it is run to find its topics: `python {file}` must work",
        ) from error


@contextmanager
def _imports_from(folder: Path) -> Iterator[None]:
    before = list(sys.path)
    sys.path.insert(0, str(folder.absolute()))
    try:
        yield
    finally:
        sys.path[:] = before


def _place(error: BaseException, file: Path) -> str:
    """The line of the file at which it went wrong, when there is one."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(file)]
    if isinstance(error, SyntaxError) and error.filename == str(file):
        lines.append(error.lineno)
    return f"line {lines[-1]}: " if lines else ""


def _said(error: BaseException) -> str:
    if isinstance(error, HeadwaterError):
        return str(error)
    if isinstance(error, SyntaxError):
        return f"SyntaxError: {error.msg}"
    return "".join(traceback.format_exception_only(error)).strip()
