"""Write docs/reference/command-line.md and docs/reference/python.md from the code.

The command line's page is what `--help` says, at a fixed width; Python's page is the signatures and
docstrings of the public names. Run it after changing either: `.venv/bin/python
tools/write_reference.py`. A test fails while the pages and the code disagree.
"""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

import headwater
from headwater import cli, testing
from headwater.log.bootstrap import Bootstrap
from headwater.log.groups import Groups, GroupState
from headwater.log.lag import PartitionLag
from headwater.log.member import Member, Partition
from headwater.log.queue import Queue, Task
from headwater.log.reader import Reader
from headwater.log.record import Record
from headwater.log.registry import Schemas
from headwater.log.topics import Topics, TopicState
from headwater.log.writer import Writer
from headwater.process import measures

FOLDER = Path(__file__).parents[1] / "docs/reference"
WIDTH = 96
HANDED_OUT = (
    *(Writer, Reader, Record, Member, Partition, Bootstrap, Queue, Task),
    *(Topics, TopicState, Groups, GroupState, PartitionLag, Schemas),
)
FIRST = ("Log", "Topic", "Retention", "FOREVER", "Beginning", "End", "Offset", "Since", "Last")
_NOTE = "<!-- Written by tools/write_reference.py from the code: change the code, then run it. -->"
_QUALIFIED = re.compile(r"\b(?:[a-z_]\w*\.)+(?=[A-Za-z_])")
_FORWARD = re.compile(r"ForwardRef\('(\w+)'[^)]*\)")


def pages() -> dict[Path, str]:
    """Both pages, as they should stand."""
    return {FOLDER / "command-line.md": command_line(), FOLDER / "python.md": python()}


def command_line() -> str:
    """The page of the command line: every command's help."""
    parts = ["# The command line", _NOTE, (cli.__doc__ or "").partition("\n\n")[2].strip()]
    for path, text in _helps(typer.main.get_command(cli.app), None, "headwater"):
        parts += [f"## {path}", f"```text\n{text}\n```"]
    return "\n\n".join(parts) + "\n"


def python() -> str:
    """The page of Python: the root's names, then what a Log hands out."""
    parts = ["# The Python interface", _NOTE, "## `from headwater import …`"]
    for name in [*FIRST, *sorted(set(headwater.__all__) - set(FIRST))]:
        parts += _described(name, getattr(headwater, name))
    parts += ["## What a Log hands out", "You do not make these yourself: a `Log` does."]
    for one in HANDED_OUT:
        parts += _described(one.__name__, one)
    parts += ["## `from headwater.testing import …`"]
    for name in testing.__all__:
        parts += _described(name, getattr(testing, name))
    parts += ["## `from headwater.process import measures`"]
    for name in ("rate", "share", "top"):
        parts += _described(name, getattr(measures, name))
    return "\n\n".join(parts) + "\n"


def _helps(command: Any, parent: Any, name: str) -> Iterator[tuple[str, str]]:
    command.rich_markup_mode = None  # plain text, without boxes
    command.help = re.sub(r"\[/?\w*\]", "", command.help or "")
    context = command.context_class(
        command, info_name=name, parent=parent, terminal_width=WIDTH, max_content_width=WIDTH
    )
    lines = (line.rstrip() for line in command.get_help(context).splitlines())
    yield context.command_path, "\n".join(lines)
    for child, inner in getattr(command, "commands", {}).items():
        yield from _helps(inner, context, child)


def _described(name: str, one: Any) -> list[str]:
    if inspect.isfunction(one):
        return [f"### {name}", *_signature(name, one), _prose(one)]
    if not inspect.isclass(one):
        return [f"### {name}", _code(f"{name} = {one!r}")]
    parts = [f"### {name}", *_signature(name, one), _prose(one)]
    for member, what in vars(one).items():
        if not member.startswith("_"):
            parts += _member(name, member, what, one)
    return parts


def _member(owner: str, name: str, what: Any, holder: type) -> list[str]:
    if isinstance(what, classmethod | staticmethod):
        what = getattr(holder, name)
    if inspect.isfunction(what) or inspect.ismethod(what):
        return [f"#### {owner}.{name}", *_signature(name, what), _prose(what)]
    if isinstance(what, property) or hasattr(what, "func"):
        return [f"#### {owner}.{name}", _prose(what)]
    return []


def _signature(name: str, one: Any) -> list[str]:
    found = inspect.signature(one)
    shown = [each for each in found.parameters.values() if each.name != "self"]
    if inspect.isclass(one):
        if one in (*HANDED_OUT, testing.Stage) and not _is_plain_data(shown):
            return []
        found = found.replace(return_annotation=inspect.Signature.empty)
    line = name + _plain(str(found.replace(parameters=shown)))
    return [_code(line if len(line) <= WIDTH else _one_a_line(name, found, shown))]


def _is_plain_data(parameters: list[inspect.Parameter]) -> bool:
    return all(
        one.name not in ("connection", "client", "folder") and one.name[0] != "_" for one in parameters
    )


def _one_a_line(name: str, signature: inspect.Signature, parameters: list[inspect.Parameter]) -> str:
    lines = [str(one) for one in parameters]
    named = [one.kind is one.KEYWORD_ONLY for one in parameters]
    if True in named and not any(one.kind is one.VAR_POSITIONAL for one in parameters):
        lines.insert(named.index(True), "*")
    answer = str(signature.replace(parameters=[])).removeprefix("()")
    return _plain(f"{name}(\n" + "".join(f"    {one},\n" for one in lines) + f"){answer}")


def _plain(text: str) -> str:
    text = _FORWARD.sub(r"\1", text).replace("<factory>", "…").replace("PosixPath", "Path")
    return _QUALIFIED.sub("", text).replace("'", '"').replace('"Member"', "Member")


def _prose(one: Any) -> str:
    return inspect.cleandoc(one.__doc__ or "")


def _code(text: str) -> str:
    return f"```py\n{text}\n```"


if __name__ == "__main__":
    for page, wanted in pages().items():
        page.write_text(wanted)
        print(f"wrote {page.relative_to(Path.cwd()) if page.is_relative_to(Path.cwd()) else page}")
