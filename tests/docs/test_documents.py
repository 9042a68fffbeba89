"""The documents say what is true: every example runs, every link leads somewhere.

In a page, blocks marked `python` run in order in one namespace, blocks marked `sh` run in bash, all
in one temporary folder and against the shared broker. A block marked `output` must be what the
block before it printed; `…` in it stands for anything. Blocks of other kinds (`console`, `text`, `py`)
are for the eye alone.
"""

import os
import re
import runpy
import shutil
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import typer

from headwater import HeadwaterError, Log, Settings, __version__, cli, embedded
from headwater.embedded.server import stop
from tests.docs.pages import (
    PAGES,
    ROOT,
    anchors,
    blocks,
    calls,
    is_shown,
    links,
    run_python,
    run_shell,
    transcripts,
)

RUN = [page for page in PAGES if any(one.kind in ("python", "sh") for one in blocks(page))]

BESIDE = ("registry", "redis")
"""Servers that pages need beside the broker."""

OF_A_PAGE = ("connect", "postgres")
"""Servers that a page starts itself; left without its topics, a worker would ask for them for ever."""


def of_pages(pages: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("page", pages, ids=lambda page: str(page.relative_to(ROOT)))


@pytest.fixture(scope="module")
def servers(system: Settings) -> Iterator[Settings]:
    """The shared broker with other servers beside it, which are gone again afterwards."""
    embedded.up(system, [embedded.SERVERS[one] for one in BESIDE], lambda *_: None)
    try:
        yield system
    finally:
        end(BESIDE, system)


def end(names: tuple[str, ...], settings: Settings) -> None:
    """Stop servers, and forget what they kept."""
    for one in names:
        stop(one, settings)
        shutil.rmtree(settings.home / one, ignore_errors=True)


@pytest.fixture
def folder(servers: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder to run a page in; the topics and groups that it makes are removed."""
    for name in [one for one in os.environ if one.startswith("HEADWATER_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HEADWATER_HOME", str(servers.home))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    log = Log.open(servers)
    topics, groups = set(log.topics.names()), set(log.groups.names())
    yield tmp_path
    end(OF_A_PAGE, servers)
    for name in set(log.groups.names()) - groups:
        log.groups.delete(name)
    for name in set(log.topics.names()) - topics:
        log.topics.delete(name)
    for name, module in list(sys.modules.items()):  # the next page has a file of that name, too
        if str(getattr(module, "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.mark.system
@of_pages(RUN)
@pytest.mark.usefixtures("folder")
def test_every_example_of_a_page_runs_and_prints_what_the_page_shows(page: Path):
    names: dict[str, Any] = {"__name__": "page"}
    printed = ""
    for block in blocks(page):
        if block.kind == "python":
            printed = run_python(page, block, names)
        elif block.kind == "sh":
            printed = run_shell(page, block)
        elif block.kind == "output":
            assert is_shown(block.text, printed), f"{page}:{block.line} shows {block.text}, not {printed}"


@of_pages(PAGES)
def test_a_transcript_that_a_page_shows_is_the_file(page: Path):
    shown = transcripts(page)
    assert len(shown) == sum(one.kind == "yaml" for one in blocks(page))
    for file, text in shown:
        assert text == file.read_text(), f"{page} shows another {file.name}"


@of_pages(RUN)
def test_no_example_that_runs_stops_the_servers_of_the_others(page: Path):
    run = [one.text for one in blocks(page) if one.kind in ("python", "sh")]
    assert not any(re.search(r"headwater down|\bdown\(", one) for one in run)


@of_pages(PAGES)
def test_every_relative_link_leads_to_a_page_and_a_heading(page: Path):
    for link in links(page):
        place, _, heading = link.partition("#")
        target = (page.parent / place).resolve() if place else page
        assert target.exists(), f"{page} links to {link}"
        assert not heading or heading in anchors(target), f"{page} links to {link}"


@of_pages(PAGES)
def test_a_page_names_only_commands_that_exist(page: Path):
    makes = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    command: Any = typer.main.get_command(cli.app)
    assert set(calls("make", page)) <= set(makes)
    assert set(calls("headwater", page)) <= set(command.commands)


def test_the_readme_starts_with_the_two_commands_of_a_fresh_machine():
    assert calls("make", ROOT / "README.md")[:2] == ["demo", "test"]


def test_every_page_can_be_reached_from_the_readme():
    reached: set[Path] = set()
    ahead = [ROOT / "README.md"]
    while ahead:
        page = ahead.pop()
        reached.add(page)
        linked = {(page.parent / one.partition("#")[0]).resolve() for one in links(page)}
        ahead += [one for one in linked if one.suffix == ".md" and one not in reached]
    assert set(PAGES) <= reached


def test_the_changelog_tells_of_this_version():
    assert f"\n## {__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_every_error_has_a_heading_and_every_heading_an_error():
    headings = re.findall(r"^## (.+)$", (ROOT / "docs/reference/errors.md").read_text(), re.MULTILINE)
    assert sorted(headings) == sorted(codes(HeadwaterError) - {HeadwaterError.code})


def codes(error: type[HeadwaterError]) -> set[str]:
    """The codes of an error and of those below it; tests may have made others elsewhere."""
    below = [one for one in error.__subclasses__() if one.__module__ == HeadwaterError.__module__]
    return {error.code}.union(*(codes(one) for one in below))


def test_the_settings_page_names_every_setting():
    text = (ROOT / "docs/reference/settings.md").read_text()
    assert [one.name for one in fields(Settings) if f"\n| `{one.name}` |" not in text] == []


def test_the_generated_pages_say_what_the_code_says():
    for page, wanted in runpy.run_path(str(ROOT / "tools/write_reference.py"))["pages"]().items():
        assert page.read_text() == wanted, f"run .venv/bin/python tools/write_reference.py: {page} is old"
