"""Pages of the documents: their fenced blocks, links and headings, and how a block is run."""

import re
import subprocess
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("**/*.md")])
BLOCK = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)

_ACROSS = re.MULTILINE | re.DOTALL


class Block(NamedTuple):
    """One fenced block of a page."""

    kind: str
    text: str
    line: int


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    return [Block(one[2], one[3], text.count("\n", 0, one.start(3))) for one in BLOCK.finditer(text)]


def transcripts(page: Path) -> list[tuple[Path, str]]:
    """The files that a page shows: a link to each ends the paragraph before its block."""
    found = re.findall(r"\]\(([^)\s]+\.yaml)\)[^\n]*\n\n```yaml\n(.*?)^```$", page.read_text(), _ACROSS)
    return [((page.parent / place).resolve(), text) for place, text in found]


def prose(page: Path) -> str:
    """A page without its blocks."""
    return BLOCK.sub("", page.read_text())


def links(page: Path) -> list[str]:
    """The links to other places of this repository."""
    found: list[str] = re.findall(r"\]\(([^)\s]+)\)", prose(page))
    return [one for one in found if "://" not in one]


def anchors(page: Path) -> set[str]:
    """The names by which a page's headings are linked to."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-") for one in headings}


def calls(program: str, page: Path) -> list[str]:
    """The verbs of a program that a page names in code: `make test`, `headwater up`."""
    return re.findall(rf"(?:^|`|\$ |\| ?){program} ([a-z]+)", page.read_text(), re.MULTILINE)


def run_python(page: Path, block: Block, names: dict[str, Any]) -> str:
    """Run a block in a namespace; tells what it printed. Traces show the page's own lines."""
    code = compile("\n" * block.line + block.text, str(page), "exec")
    with redirect_stdout(StringIO()) as said:
        exec(code, names)
    return said.getvalue()


def run_shell(page: Path, block: Block) -> str:
    """Run a block in bash; tells what it printed."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.text],
        capture_output=True,
        text=True,
        timeout=240,  # beside two other processes of tests
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, f"{page}:{block.line} ended with {done.returncode}\n{done.stderr}"
    return done.stdout


def is_shown(shown: str, printed: str) -> bool:
    """Whether what was printed is what a page shows; `…` stands for anything, spaces do not count."""
    pattern = ".*?".join(re.escape(part) for part in _words(shown).split("…"))
    return re.fullmatch(pattern, _words(printed), re.DOTALL) is not None


def _words(text: str) -> str:
    return " ".join(text.split())
