"""What `headwater` says about itself, and how it ends when it is misunderstood or cut off."""

from collections.abc import Iterator
from pathlib import Path
from subprocess import run as run_process
from typing import Any

import pytest
import typer
from tests.cli.command import PROGRAM, assert_misused, begun, environment, run

from headwater import __version__, cli


def commands(command: Any, parent: Any = None, name: str = "headwater") -> Iterator[Any]:
    """The context of every command, which knows its help."""
    context = command.context_class(command, info_name=name, parent=parent, terminal_width=80)
    yield context
    for child, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, context, child)


ALL = list(commands(typer.main.get_command(cli.app)))


@pytest.mark.parametrize("context", ALL, ids=lambda one: one.command_path)
def test_help_fits_80_columns_and_explains_every_argument_and_option(context: Any):
    text = context.get_help()
    assert max(map(len, text.splitlines())) <= 80
    assert "..." not in text.partition("Commands:")[2], "a command's first line is cut off in the list"
    assert context.command.help.partition("\n\n")[0].endswith(".")
    assert [one.name for one in context.command.params if not one.help] == []


@pytest.mark.parametrize("context", ALL, ids=lambda one: one.command_path)
def test_examples_in_help_name_commands_that_exist(context: Any):
    known = {one.command_path.removeprefix("headwater ") for one in ALL}
    for line in (context.command.help or "").splitlines():
        if line.startswith("    ") and "headwater " in line:
            words = line.partition("headwater ")[2].split()
            assert words[0] in known
            assert words[0] not in ("topics", "groups", "schemas") or " ".join(words[:2]) in known


def test_alone_it_shows_its_help_and_counts_as_misused(tmp_path: Path):
    done = run(folder=tmp_path)
    assert done.returncode == 2
    assert "headwater up" in done.stdout + done.stderr


def test_it_tells_its_version(tmp_path: Path):
    assert run("--version", folder=tmp_path).stdout == f"{__version__}\n"


def test_an_unknown_verb_is_answered_with_the_one_that_was_meant(tmp_path: Path):
    assert_misused(run("topic", folder=tmp_path), "No such command 'topic'", "'topics'")


def test_an_unknown_verb_of_a_group_is_refused(tmp_path: Path):
    assert_misused(run("topics", "creat", folder=tmp_path), "No such command 'creat'", "'create'")


def test_json_before_the_verb_is_refused_with_its_place(tmp_path: Path):
    done = run("topics", "--json", "describe", "x", folder=tmp_path)
    assert_misused(done, "--json stands after the verb: headwater topics describe … --json")


def test_without_a_log_every_command_says_how_to_start_one(tmp_path: Path):
    done = run("topics", folder=tmp_path)
    assert done.returncode == 1
    assert done.stderr == (
        "error: no log is running here [broker-unreachable]\n"
        "  hint: start one with `headwater up`, or name one with HEADWATER_KAFKA=host:9092\n"
    )


@pytest.mark.system
def test_a_reader_that_goes_away_is_no_error(tmp_path: Path, env: dict[str, str]):
    with begun("topics", folder=tmp_path, env=env) as process:
        assert process.stdout and process.stderr  # noqa: PT018
        process.stdout.close()
        assert process.wait(30) == 0
        assert process.stderr.read() == ""


@pytest.mark.system
def test_an_answer_that_cannot_be_written_is_an_error(tmp_path: Path, env: dict[str, str]):
    with Path("/dev/full").open("w") as full:
        done = run_process(
            [PROGRAM, "topics"],
            cwd=tmp_path,
            env=environment(env),
            stdout=full,
            stderr=-1,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, "error: No space left on device\n")
