"""file.py:NAME: the Topic or the App that a Python file of the user's calls NAME.

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
from typing import Any, TypeVar

from headwater.app import App
from headwater.errors import BadPipeline, HeadwaterError, SpecError
from headwater.log.topic import Topic

T = TypeVar("T")
_NO_SPARK = "SESSION_OR_CONTEXT_NOT_EXISTS"
_HINT = (
    "an app is read without Spark: give a UDF's type as an object, F.udf(returnType=DoubleType()), or make "
    "the UDF inside the pipeline's function"
)
_USUAL = {"App": "app", "Topic": "NAME"}


def topic_in(file: Path, name: str) -> Topic:
    """The Topic called `name` in a Python file; SpecError when there is none, or no such file."""
    return _named(file, name, Topic, SpecError)


def app_in(text: str) -> App:
    """The App of `file.py`, or of `file.py:NAME` when it has several; BadPipeline when there is none."""
    path, _, name = text.partition(".py:")
    file = Path(f"{path.removesuffix('.py')}.py")
    return _named(file, name, App, BadPipeline)


def _named(file: Path, name: str, kind: type[T], error: type[HeadwaterError]) -> T:
    """The one thing of a kind in a file that is called so; without a name, the only one."""
    if not file.is_file():
        raise error(f"there is no file {file}")
    all_of_it = {known: one for known, one in _run(file, error).items() if isinstance(one, kind)}
    if name in all_of_it:
        return all_of_it[name]
    if not name and len({id(one) for one in all_of_it.values()}) == 1 and kind is App:
        return next(iter(all_of_it.values()))
    word = kind.__name__
    known = f"its {word.lower()}s: {', '.join(all_of_it)}"
    raise error(
        f"{file} has no {word} called {name!r}" if name else f"which {word.lower()} of {file}?",
        hint=known if all_of_it else f'write {name or _USUAL[word]} = {word}("…") in it',
    )


def _run(file: Path, kind: type[HeadwaterError]) -> dict[str, Any]:
    try:
        with _imports_from(file.parent), redirect_stdout(sys.stderr):
            return runpy.run_path(str(file), run_name="headwater.user")
    except (Exception, SystemExit) as error:
        raise kind(
            f"{file} cannot be run",
            detail=f"{_place(error, file)}{_said(error)}",
            hint=_HINT
            if _NO_SPARK in str(error)
            else f"it is run to find what it declares: `python {file}` must work",
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
