"""topics as a user types it: list, create, describe, alter, delete."""

from datetime import timedelta
from pathlib import Path

import pytest
import typer
from tests.cli.command import as_json, assert_misused, assert_refused, on_terminal
from tests.cli.conftest import Headwater

from headwater import Log
from headwater.cli import arguments
from headwater.errors import SpecError, UnknownTopic

pytestmark = pytest.mark.system


def exists(log: Log, name: str) -> bool:
    try:
        log.topics.describe(name)
    except UnknownTopic:
        return False
    return True


def test_a_topic_is_created_listed_described_altered_and_deleted(shell: Headwater, name: str):
    assert shell("topics", "create", name, "--retention", "36h").stdout == f"created {name}\n"
    assert shell("topics", "create", name, "--retention", "36h").stdout == f"{name} exists already, just so\n"
    wanted = {"topic": name, "partitions": 1, "replicas": 1, "cleanup": "delete", "retention": "36h"}
    assert wanted in as_json(shell("topics", "--json"))
    grown = shell("topics", "alter", name, "--partitions", "3", "--retention", "forever", "--json")
    assert as_json(grown) == [{**wanted, "partitions": 3, "retention": "forever"}]
    assert grown.stderr.startswith("note: keys may now hash to other partitions")
    described = as_json(shell("topics", "describe", name, "--json"))
    assert described["config"]["retention.ms"] == "-1"
    assert as_json(shell("topics", "delete", name, "--yes", "--json")) == {"deleted": name}
    assert_refused(shell("topics", "describe", name), "unknown-topic", f"no topic '{name}'", "hint: ")


def test_every_verb_takes_a_topic_from_a_file(headwater: Headwater, shop: Path, log: Log, name: str):
    assert headwater("topics", "create", "shop.py:ORDERS").stdout == f"created {name}\n"
    assert log.topics.describe(name).partitions == 2
    assert name in headwater("topics", "describe", shop.with_name("shop.py:ORDERS")).stdout
    as_json(headwater("topics", "alter", "shop.py:ORDERS", "--partitions", "3", "--json"))
    assert log.topics.describe(name).partitions == 3
    assert headwater("topics", "delete", "shop.py:ORDERS", "--yes").stdout == f"deleted {name}\n"
    assert not exists(log, name)


def test_a_table_in_a_pipe_has_a_line_for_each_row_however_narrow_the_screen(headwater: Headwater, name: str):
    long = f"{name}-{'x' * 100}"
    headwater("topics", "create", long, "--partitions", "2")
    done = headwater("topics", "describe", long, COLUMNS="40")
    table, _, settings = done.stdout.partition("\n\n")
    heading, row = table.splitlines()
    assert heading.split() == ["topic", "partitions", "replicas", "cleanup", "retention"]
    assert row.split() == [long, "2", "1", "delete", "7d"]
    assert "max.message.bytes" in settings
    assert not any(line.endswith(" ") for line in done.stdout.splitlines())


def test_a_table_on_a_terminal_fits_it(tmp_path: Path, env: dict[str, str], log: Log, name: str):
    log.topics.ensure(f"{name}-{'x' * 100}", 1, {})
    code, seen = on_terminal(
        "topics", folder=tmp_path, env={**env, "COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"}
    )
    assert code == 0
    assert max(len(line.rstrip()) for line in seen.splitlines()) <= 80


def test_a_topic_that_exists_otherwise_is_refused_with_the_difference(
    headwater: Headwater, log: Log, name: str
):
    log.topics.ensure(name, 1, {})
    done = headwater("topics", "create", name, "--partitions", "2", "--compacted")
    assert_refused(done, "topic-exists", "partitions: 1, not 2", "cleanup.policy: delete, not compact")


def test_fewer_partitions_are_refused(headwater: Headwater, log: Log, name: str):
    log.topics.ensure(name, 3, {})
    done = headwater("topics", "alter", name, "--partitions", "1")
    assert_refused(done, "cannot-alter", "has 3 partitions and cannot have 1", "hint: partitions only grow")


def test_settings_of_kafka_are_set_by_their_names_and_unknown_ones_refused(
    headwater: Headwater, log: Log, name: str
):
    log.topics.ensure(name, 1, {})
    done = headwater("topics", "alter", name, "--set", "max.message.bytes=5000", "--no-compacted")
    assert done.returncode == 0
    assert done.stderr == ""
    assert log.topics.describe(name).config["max.message.bytes"] == "5000"
    done = headwater("topics", "alter", name, "--set", "max.massage.bytes=1")
    assert_refused(done, "cannot-alter", "Unknown topic config name: max.massage.bytes")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ([], "nothing to change"),
        (["--set", "retention.ms"], "--set takes NAME=VALUE, not 'retention.ms'"),
        (["--retention", "1d", "--set", "retention.ms=5"], "retention.ms is set twice"),
        (["--retention-bytes", "0"], "'--retention-bytes'"),
        (["--retention", "soon"], "'soon' is not a duration: write 500ms, 10s, 5m, 12h or 7d"),
    ],
)
def test_an_alteration_that_says_nothing_or_two_things_is_refused(
    headwater: Headwater, said: list[str], words: str
):
    assert_misused(headwater("topics", "alter", "any", *said), words)


@pytest.mark.usefixtures("shop")
def test_options_beside_a_topic_from_a_file_are_refused(headwater: Headwater, log: Log, name: str):
    done = headwater("topics", "create", "shop.py:ORDERS", "--schema", "id long", "--partitions", "4")
    assert_misused(done, "shop.py:ORDERS describes its topic whole: leave out --schema, --partitions")
    assert not exists(log, name)


def test_a_key_without_columns_is_refused_and_one_that_is_no_column_too(headwater: Headwater, name: str):
    assert_misused(headwater("topics", "create", name, "--key", "card"), "give --schema as well")
    done = headwater("topics", "create", name, "--schema", "card string", "--key", "kard")
    assert_refused(done, "bad-topic", "key 'kard' is not a column", "hint: its columns: card")


def test_a_topic_is_deleted_only_after_a_yes(headwater: Headwater, log: Log, name: str):
    log.topics.ensure(name, 1, {})
    for answer in ("", "n\n"):
        done = headwater("topics", "delete", name, stdin=answer)
        assert done.returncode == 1
        assert done.stdout == ""
        assert f"delete {name} and all its records? [y/N]" in done.stderr
        assert "nothing was deleted" in done.stderr
        assert exists(log, name)
    assert headwater("topics", "delete", name, stdin="y\n").stdout == f"deleted {name}\n"
    assert_refused(headwater("topics", "delete", name), "unknown-topic")


def test_a_file_that_cannot_be_run_is_refused_with_its_line(headwater: Headwater, tmp_path: Path):
    (tmp_path / "broken.py").write_text("import math\nmath.sqrt(-1)\n")
    done = headwater("topics", "describe", "broken.py:ANY")
    assert_refused(done, "bad-topic", "broken.py cannot be run", "line 2: ValueError: math domain error")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = (", "line 1: SyntaxError: '(' was never closed"),
        ("import sys\nsys.exit(3)", "line 2: SystemExit: 3"),
        ("import no_such_thing", "line 1: ModuleNotFoundError: No module named 'no_such_thing'"),
        (
            "from headwater import Topic\nT = Topic('a b', schema='x int')",
            "line 2: 'a b' cannot be a topic's name",
        ),
        ("\0", "cannot be run"),
        ("T = 3", 'hint: write T = Topic("…") in it'),
        ("from headwater import Topic\nU = Topic('u', schema='x int')", "hint: its topics: U"),
    ],
)
def test_whatever_is_wrong_with_a_file_is_told_in_words(tmp_path: Path, text: str, words: str):
    file = tmp_path / "mine.py"
    file.write_text(text)
    with pytest.raises(SpecError) as caught:
        arguments.topic(f"{file}:T")
    assert words in str(caught.value)


def test_a_file_that_is_not_there_a_folder_and_a_name_that_is_forgotten_are_refused(
    tmp_path: Path, shop: Path
):
    (tmp_path / "folder.py").mkdir()
    for file in ("nothing.py", "folder.py"):
        with pytest.raises(SpecError, match=f"there is no file .*{file}"):
            arguments.topic(f"{tmp_path / file}:T")
    for forgotten in (f"{shop}:", str(shop)):
        with pytest.raises(SpecError, match="which topic of") as caught:
            arguments.topic(forgotten)
        assert caught.value.hint == "its topics: ORDERS"


def test_a_file_imports_what_stands_beside_it_and_what_it_prints_does_not_spoil_the_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "beside_it.py").write_text("COLUMNS = 'x int'")
    (tmp_path / "mine.py").write_text(
        "from beside_it import COLUMNS\nfrom headwater import Topic\nprint('hi')\n"
        "T = Topic('t', schema=COLUMNS)"
    )
    assert arguments.topic_name(f"{tmp_path / 'mine.py'}:T") == "t"
    assert capsys.readouterr() == ("", "hi\n")


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("500ms", timedelta(milliseconds=500)),
        ("1.5s", timedelta(seconds=1.5)),
        ("5m", timedelta(minutes=5)),
        ("36h", timedelta(hours=36)),
        ("7d", timedelta(days=7)),
    ],
)
def test_durations_are_read_and_spoken_in_the_same_words(text: str, length: timedelta):
    assert arguments.duration(text) == length
    assert arguments.duration(arguments.spoken(length)) == length


@pytest.mark.parametrize(
    "text", ["", "5", "m", "-5m", "5 m", "\u0665m", "0s", "0.1ms", "99999999999d", "1e3s"]
)
def test_what_is_no_duration_is_refused(text: str):
    with pytest.raises(typer.BadParameter, match="duration"):
        arguments.duration(text)


def test_a_bad_name_is_refused_before_the_broker_is_asked(headwater: Headwater):
    done = headwater("topics", "create", "a b", HEADWATER_HOME="/nonexistent")
    assert_refused(done, "bad-topic", "'a b' cannot be a topic's name", "hint: use 1 to 249 of")
