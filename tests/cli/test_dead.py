"""dead as a user types it: what died and why, how it looks, and sending it back."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from tests.cli.command import as_json, assert_misused, assert_refused, on_terminal
from tests.cli.conftest import Headwater

from headwater import Log, Settings, Topic
from headwater.clock import wait_until
from headwater.log.connection import Connection
from headwater.log.letter import Letter, dead_topic, prepare
from headwater.log.transfer import Transfer

pytestmark = pytest.mark.system
MOMENT = datetime(2026, 11, 16, 10, tzinfo=UTC)
Bury = Callable[..., None]


@pytest.fixture
def bury(log: Log, system: Settings, name: str) -> Bury:
    """`bury(3, reason="…")` writes that many letters of a topic that has the test's name."""
    log.topics.create(Topic(name, schema="n int"))
    prepare(log.topics, name)
    usual = {"topic": name, "partition": 0, "timestamp": MOMENT, "dead_at": MOMENT, "pipeline": "bank.one"}

    def buried(count: int, *, reason: str = "it is not json", value: bytes = b"x", first: int = 0) -> None:
        already = len(list(log.read(dead_topic(name))))
        with Transfer(Connection(system), name, group=name) as transfer, transfer.transaction({}):
            for at in range(first, first + count):
                letter = Letter(**usual, offset=at, key=b"\xff", value=value, reason=reason)  # type: ignore[arg-type]
                headers = letter.written_headers()
                transfer.append(dead_topic(name), key=letter.key, value=letter.value, headers=headers)
        read = dead_topic(name)
        assert wait_until(lambda: len(list(log.read(read))) == already + count, timedelta(seconds=20))

    return buried


def test_the_list_tells_how_many_and_why(headwater: Headwater, bury: Bury, name: str):
    bury(2)
    bury(1, reason="its key is null\n", first=2)
    (row,) = as_json(headwater("dead", "list", name, "--json"))
    reasons = [{"reason": "it is not json", "letters": 2}, {"reason": "its key is null\n", "letters": 1}]
    newest = "2026-11-16T10:00:00.000+00:00"
    assert row == {"topic": name, "letters": 3, "resent": 0, "newest": newest, "reasons": reasons}
    heading, line = headwater("dead", "list", name).stdout.splitlines()
    assert heading.split() == ["topic", "letters", "resent", "newest", "reasons"]
    assert line.endswith(r"it is not json (2); its key is null\n (1)")


def test_all_topics_with_letters_are_listed_when_none_is_named(
    headwater: Headwater, bury: Bury, log: Log, name: str
):
    bury(1)
    log.topics.ensure(f"{name}-empty", 1, {})
    prepare(log.topics, f"{name}-empty")
    listed = {one["topic"] for one in as_json(headwater("dead", "list", "--json"))}
    assert name in listed
    assert f"{name}-empty" not in listed


def test_letters_are_shown_with_place_reason_and_bytes(headwater: Headwater, bury: Bury, name: str):
    bury(3, value=b"\x1b[31m")
    shown = as_json(headwater("dead", "show", name, "--last", "2", "--json"))
    assert [one["offset"] for one in shown] == [1, 2]
    assert shown[0] == {
        "partition": 0,
        "offset": 1,
        "dead_at": "2026-11-16T10:00:00.000+00:00",
        "by": "bank.one",
        "resent": False,
        "reason": "it is not json",
        "key": "base64:/w==",
        "value": "\x1b[31m",
        "headers": [],
    }
    text = headwater("dead", "show", name).stdout
    assert len(text.splitlines()) == 4
    assert r"\x1b[31m" in text
    assert "\x1b" not in text


def test_a_resend_sends_each_once_and_says_so(headwater: Headwater, bury: Bury, log: Log, name: str):
    bury(2)
    assert headwater("dead", "resend", name).stdout == f"resent 2 records to {name}\n"
    assert headwater("dead", "resend", name).stdout == f"resent 0 records to {name}\n"
    bury(2, first=1)
    told = as_json(headwater("dead", "resend", name, "--json"))
    assert told == {"topic": name, "sent": 1, "doubles": 1}
    assert wait_until(lambda: len(list(log.read(name))) == 3, timedelta(seconds=20))
    (row,) = as_json(headwater("dead", "list", name, "--json"))
    assert (row["letters"], row["resent"]) == (4, 4)
    assert {one["resent"] for one in as_json(headwater("dead", "show", name, "--json"))} == {True}


def test_letters_that_went_back_before_are_told(headwater: Headwater, bury: Bury, name: str):
    bury(1)
    bury(1)
    done = headwater("dead", "resend", name)
    assert done.stdout == f"resent 1 record to {name} (1 letter of a record that went back already)\n"


def test_a_terminal_is_left_clean_after_the_bar(env: dict[str, str], bury: Bury, name: str, tmp_path: object):
    bury(1)
    code, seen = on_terminal("dead", "resend", name, folder=tmp_path, env=env)  # type: ignore[arg-type]
    assert (code, f"resent 1 record to {name}" in seen) == (0, True)


def test_a_topic_without_letters_is_named(headwater: Headwater):
    for verb in ("list", "show", "resend"):
        done = headwater("dead", verb, "nowhere")
        assert_refused(done, "unknown-topic", "topic 'nowhere' has no dead letters", "headwater dead list")


def test_none_of_the_last_cannot_be_shown(headwater: Headwater):
    assert_misused(headwater("dead", "show", "any", "--last", "0"), "'--last'")
