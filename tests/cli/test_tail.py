"""tail as a user types it: from where, of which key, for people and for programs."""

import json
import re
import signal
from base64 import b64decode
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import typer
from tests.cli.command import assert_misused, assert_refused, begun, on_terminal
from tests.cli.conftest import Headwater

from headwater import Beginning, End, Log, Offset, Settings, Since, Topic, embedded
from headwater.cli import arguments
from headwater.clock import now, wait_until

pytestmark = pytest.mark.system
ORDERS = "shop.py:ORDERS"


@pytest.fixture
def letters(log: Log, name: str) -> str:
    """A topic of one partition that holds a to e, each its own key."""
    log.topics.ensure(name, 1, {"message.timestamp.type": "LogAppendTime"})
    append(log, name, "abcde")
    return name


def append(log: Log, topic: str, letters: str) -> None:
    with log.writer() as writer:
        for one in letters:
            writer.append_bytes(topic, one.encode(), key=one.encode())


def lines(done: CompletedProcess[str]) -> list[Any]:
    assert done.returncode == 0, done.stderr
    return [json.loads(line, parse_float=Decimal) for line in done.stdout.splitlines()]


def values(done: CompletedProcess[str]) -> str:
    return "".join(one["value"] for one in lines(done))


def test_a_line_tells_partition_offset_moment_key_and_value(shell: Headwater, letters: str):
    done = shell("tail", letters, "--last", "2", "--partition", "0")
    first, second = done.stdout.splitlines()
    assert re.fullmatch(r"0@3 \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z d d", first)
    assert second.startswith("0@4 ")
    moment = second.split()[1]
    assert shell("tail", letters, "--from", moment).stdout.endswith(second + "\n")


def test_reading_starts_where_one_says(headwater: Headwater, log: Log, letters: str):
    assert values(headwater("tail", letters, "--json")) == "abcde"
    assert values(headwater("tail", letters, "--from", "3", "--json")) == "de"
    assert values(headwater("tail", letters, "--from", "beginning", "--limit", "2", "--json")) == "ab"
    between = now()
    assert wait_until(lambda: now() > between + timedelta(milliseconds=5), timedelta(seconds=1))
    append(log, letters, "f")
    assert values(headwater("tail", letters, "--from", between.isoformat(), "--json")) == "f"
    assert values(headwater("tail", letters, "--from", "1h", "--key", "c", "--json")) == "c"


def test_nothing_to_show_is_said_beside_the_answer(headwater: Headwater, letters: str):
    done = headwater("tail", letters, "--from", "end")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "no records there\n")
    done = headwater("tail", letters, "--last", "1", "--key", "a", "--json")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "no such records there: --from beginning looks at all of them\n"


def test_follow_goes_on_with_what_comes_and_an_interrupt_ends_it_cleanly(
    tmp_path: Path, env: dict[str, str], log: Log, letters: str
):
    with begun("tail", letters, "--last", "1", "--follow", folder=tmp_path, env=env) as process:
        assert process.stdout and process.stderr  # noqa: PT018
        assert process.stdout.readline().endswith(" e e\n")
        append(log, letters, "f")
        assert process.stdout.readline().endswith(" f f\n")
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert process.stdout.read() + process.stderr.read() == ""


def test_rows_of_json_come_back_as_they_went_in(headwater: Headwater, log: Log, shop: Path):
    orders = arguments.topic(f"{shop}:ORDERS")
    assert isinstance(orders, Topic)
    log.topics.create(orders)
    at = datetime(2026, 11, 16, 10, 0, 0, 123456, tzinfo=UTC)
    row = {"id": 7, "total": Decimal("123456789012345678.90"), "at": at, "note": b"\xff\x00"}
    with log.writer() as writer:
        writer.append(orders, row, headers={"who": b"me", "trace": b"\xff"})
    (by_spec,), (by_name,) = (lines(headwater("tail", one, "--json")) for one in (ORDERS, orders.name))
    assert by_spec == by_name
    assert by_spec["headers"] == [["who", "me"], ["trace", "base64:/w=="]]
    assert now() - datetime.fromisoformat(by_spec["appended_at"]) < timedelta(minutes=5)
    found = by_spec["value"]
    assert found["total"] == row["total"]
    assert datetime.fromisoformat(found["at"]) == at
    assert b64decode(found["note"]) == row["note"]
    line = headwater("tail", ORDERS).stdout.split(" ", 3)[3]
    assert headwater("produce", ORDERS, stdin=line).returncode == 0
    assert [one.value for one in log.read(orders)] == [orders.row(**row)] * 2


def test_bytes_that_are_no_text_are_shown_and_found_as_base64(headwater: Headwater, log: Log, name: str):
    log.topics.ensure(name, 1, {})
    keys = [b"\xfe\xff", b"base64:text", b"plain"]
    with log.writer() as writer:
        for one in keys:
            writer.append_bytes(name, one, key=one)
        writer.append_bytes(name, None, key=b"gone")
    *found, gone = lines(headwater("tail", name, "--json"))
    assert [arguments.key(one["key"]) for one in found] == keys
    assert [arguments.key(one["value"]) for one in found] == keys
    assert gone["value"] is None
    assert [one["offset"] for one in lines(headwater("tail", name, "--key", "base64:/v8=", "--json"))] == [0]
    assert headwater("tail", name, "--last", "1").stdout.endswith(" gone (deleted)\n")


def test_json_of_a_topic_without_a_schema_is_shown_to_the_digit_on_one_line(
    headwater: Headwater, log: Log, name: str
):
    log.topics.ensure(name, 1, {})
    said = b'{"total": 1.10,\n "big": 123456789012345678901234567890.123}'
    with log.writer() as writer:
        for one in (said, b"[" * 100_000, b'"text"', b"no json"):
            writer.append_bytes(name, one)
    first, deep, *texts = lines(headwater("tail", name, "--json"))
    assert first["value"] == {"total": Decimal("1.10"), "big": Decimal("123456789012345678901234567890.123")}
    assert deep["value"] == "[" * 100_000
    assert [one["value"] for one in texts] == ["text", "no json"]


def test_what_would_play_with_the_terminal_is_shown_and_not_done(
    tmp_path: Path, env: dict[str, str], log: Log, name: str
):
    log.topics.ensure(name, 1, {})
    with log.writer() as writer:
        writer.append_bytes(name, b"\x1b[2Jgone\nnext [red]line[/red]", key=b"\x07")
    code, seen = on_terminal("tail", name, folder=tmp_path, env={**env, "NO_COLOR": "1", "TERM": "dumb"})
    assert code == 0
    assert r"\x07 \x1b[2Jgone\nnext [red]line[/red]" in seen
    assert "\x1b[2J" not in seen


def test_avro_is_shown_in_rows_and_what_is_none_does_not_stop_it(
    headwater: Headwater, log: Log, registry: Settings, tmp_path: Path, name: str
):
    spec = f'Topic("{name}", schema="id long NOT NULL, total decimal(10,2)", key="id", format="avro")'
    (tmp_path / "shop.py").write_text(f"from headwater import Topic\nORDERS = {spec}\n")
    log.topics.ensure(name, 1, {})
    url = embedded.registry_url(registry) or ""
    done = headwater("produce", ORDERS, stdin='{"id": 1, "total": 1.50}', HEADWATER_REGISTRY=url)
    assert done.returncode == 0, done.stderr
    append(log, name, "x")
    assert headwater("produce", ORDERS, stdin='{"id": 2}', HEADWATER_REGISTRY=url).returncode == 0
    done = headwater("tail", ORDERS, HEADWATER_REGISTRY=url)
    first, second, third = (one.split(" ", 2)[2] for one in done.stdout.splitlines())
    assert (first, third) == ('1 {"id":1,"total":1.50}', '2 {"id":2,"total":null}')
    assert second.startswith(f"x (undecodable: a record of topic '{name}' is not avro: ")
    assert second.endswith(") x")
    row, other, _ = lines(headwater("tail", ORDERS, "--json", HEADWATER_REGISTRY=url))
    assert row["value"] == {"id": 1, "total": Decimal("1.50")}
    assert other["value"]["base64"] == "eA=="
    assert "is not avro" in other["value"]["undecodable"]


def test_an_offset_a_partition_and_a_topic_that_are_not_there_are_refused(headwater: Headwater, letters: str):
    done = headwater("tail", letters, "--from", "99")
    assert_refused(done, "offset-out-of-range", "offset 99 is not in partition 0", "it holds 0 up to 5")
    done = headwater("tail", letters, "--partition", "7")
    assert_refused(done, "unknown-topic", "has no partition 7", "hint: its last is 0")
    assert_refused(headwater("tail", "no-such-topic"), "unknown-topic", "there is no topic 'no-such-topic'")


def test_a_call_that_says_two_places_or_none_is_refused(headwater: Headwater):
    assert_misused(
        headwater("tail", "any", "--from", "5m", "--last", "2"), "--from and --last both say where"
    )
    done = headwater("tail", "any", "--from", "yesterday")
    assert_misused(done, "'yesterday' is no place in the log; places: beginning, end, an offset (1200)")


def test_places_are_read():
    assert arguments.start("beginning") == Beginning()
    assert arguments.start("end") == End()
    assert arguments.start("1200") == Offset(1200)
    ten = datetime(2026, 11, 16, 10, tzinfo=UTC)
    assert arguments.start("2026-11-16T10:00Z") == arguments.start("2026-11-16T12:00+02:00") == Since(ten)
    assert arguments.start("2026-11-16T10:00") == Since(ten)
    ago = arguments.start("5m")
    assert isinstance(ago, Since)
    assert timedelta(minutes=5) <= now() - ago.moment < timedelta(minutes=6)


@pytest.mark.parametrize(
    "text", ["", "-1", "-5m", "2h30m", "2026-13-01", "\u00b2", "9" * 30, "9999999d", "0s"]
)
def test_what_is_no_place_is_refused(text: str):
    with pytest.raises(typer.BadParameter):
        arguments.start(text)


def test_a_moment_before_kafkas_time_is_the_beginning(headwater: Headwater, letters: str):
    assert values(headwater("tail", letters, "--from", "1969-07-20", "--json")) == "abcde"


def test_a_key_that_is_not_base64_although_it_says_so_is_refused():
    with pytest.raises(typer.BadParameter, match="'base64:x' is not base64"):
        arguments.key("base64:x")
