"""produce as a user types it: what comes in by lines, and what becomes of a bad one."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command import as_json, assert_misused, assert_refused, on_terminal
from tests.cli.conftest import Headwater

from headwater import Log, Settings, Topic, embedded
from headwater.cli import arguments, produce
from headwater.clock import wait_until
from headwater.embedded.ports import a_free_port
from headwater.embedded.server import running
from headwater.errors import NotAcknowledged

pytestmark = pytest.mark.system
ORDERS = "shop.py:ORDERS"


@pytest.fixture
def topic(log: Log, name: str) -> str:
    """A topic of two partitions that is named alone."""
    log.topics.ensure(name, 2, {})
    return name


@pytest.fixture
def orders(log: Log, shop: Path) -> Topic:
    """The Topic of shop.py, in the log."""
    found = arguments.topic(f"{shop}:ORDERS")
    assert isinstance(found, Topic)
    log.topics.create(found)
    return found


def data(log: Log, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    return sorted((one.key or b"", one.data) for one in log.read(topic))


def test_lines_of_standard_input_become_records(shell: Headwater, log: Log, topic: str):
    done = shell("produce", topic, stdin='{"a": 1}\n\n{"a":2}')
    assert done.stdout == f"appended 2 records to {topic}\n"
    assert data(log, topic) == [(b"", b'{"a": 1}'), (b"", b'{"a":2}')]
    done = shell("produce", topic, "--key", "a", "--json", stdin='{"a": 1.50}\n{"a": "ü"}\n{"a": 7}')
    assert as_json(done) == {"topic": topic, "appended": 3}
    assert [key for key, _ in data(log, topic)] == [b"", b"", b"1.50", b"7", "ü".encode()]


def test_a_file_from_another_system_is_read_like_any_other(
    headwater: Headwater, log: Log, topic: str, tmp_path: Path
):
    (tmp_path / "lines").write_bytes(b'\xef\xbb\xbf{"a": "x"}\r\n\r\n{"a": "y"}\r\n')
    done = headwater("produce", topic, "--key", "a", "--file", "lines")
    assert done.stdout == f"appended 2 records to {topic}\n"
    assert data(log, topic) == [(b"x", b'{"a": "x"}'), (b"y", b'{"a": "y"}')]


def test_without_a_schema_any_bytes_are_a_record(headwater: Headwater, log: Log, topic: str, tmp_path: Path):
    (tmp_path / "lines").write_bytes(b"\xff\xfe\x00\nno json\n")
    assert headwater("produce", topic, "--file", "lines").returncode == 0
    assert data(log, topic) == [(b"", b"no json"), (b"", b"\xff\xfe\x00")]


def test_rows_are_checked_and_keep_every_digit(headwater: Headwater, log: Log, orders: Topic):
    line = '{"id": 1, "total": 123456789012345678.91, "at": "2026-11-16T10:00:00Z", "note": "/wA="}'
    assert headwater("produce", ORDERS, stdin=line).stdout == f"appended 1 record to {orders.name}\n"
    (record,) = log.read(orders)
    assert record.key == b"1"
    assert record.value.total == Decimal("123456789012345678.91")
    assert record.value.note == b"\xff\x00"


def test_a_schema_can_be_given_in_the_command(headwater: Headwater, topic: str):
    said = ["--schema", "card string NOT NULL, amount double", "--key", "card"]
    assert headwater("produce", topic, *said, stdin='{"card": "42", "amount": 9.5}').returncode == 0
    done = headwater("produce", topic, *said, stdin='{"card": "42", "amount": "nine"}')
    assert_refused(
        done, "value-mismatch", "line 1: a value does not fit", "Expected `float | null`, got `str`"
    )
    done = headwater("produce", topic, "--schema", "card string", "--key", "kard")
    assert_refused(done, "bad-topic", "key 'kard' is not a column", "hint: its columns: card")


def test_a_bad_line_is_named_and_what_stood_before_it_is_in_the_log(
    headwater: Headwater, log: Log, orders: Topic
):
    done = headwater("produce", ORDERS, stdin='{"id": 1}\n\n{"id": 2}\n{"id": "three"}\n{"id": 4}\n')
    assert_refused(
        done, "value-mismatch", "line 4: ", "hint: the 2 records before it are in the log", "line 4\n"
    )
    assert sorted(one.value.id for one in log.read(orders)) == [1, 2]
    done = headwater("produce", ORDERS, stdin='{"id": 3}\n{}\n')
    assert_refused(done, "value-mismatch", "line 2: ", "the record before it is in the log: mend it")


def test_atomic_means_all_lines_or_none(headwater: Headwater, log: Log, orders: Topic):
    done = headwater("produce", ORDERS, "--atomic", stdin='{"id": 1}\n{"id": "two"}\n')
    assert_refused(done, "value-mismatch", "line 2: ", "hint: nothing was appended: mend the line")
    assert list(log.read(orders)) == []
    assert headwater("produce", ORDERS, "--atomic", stdin='{"id": 3}\n{"id": 4}\n').returncode == 0
    assert wait_until(lambda: len(list(log.read(orders))) == 2, timedelta(seconds=20))
    assert sorted(one.value.id for one in log.read(orders)) == [3, 4]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"nonsense", "line 1: this is not JSON: "),
        (b"\xff\x00\x01", "line 1: this is not JSON: "),
        (b'{"id": 1, "note": "\xff"}', "line 1: this is not JSON: 'utf-8' codec can't decode"),
        (b"[" * 100_000, "line 1: this is not JSON: maximum recursion depth"),
        (b"[1]", "line 1: a value does not fit"),
        (b'{"id": 1, "total": 0.001}', "0.001 does not fit decimal(20,2)"),
    ],
    ids=["text", "binary", "invalid-utf-8", "too-deep", "no-object", "too-many-digits"],
)
@pytest.mark.usefixtures("orders")
def test_what_is_no_row_is_refused(headwater: Headwater, tmp_path: Path, line: bytes, words: str):
    (tmp_path / "lines").write_bytes(line + b"\n")
    done = headwater("produce", ORDERS, "--file", "lines")
    assert_refused(done, "value-mismatch", words, "hint: nothing was appended")


def test_a_line_that_is_too_large_is_refused(headwater: Headwater, log: Log, topic: str):
    done = headwater("produce", topic, stdin=json.dumps("x" * 2_000_000))
    assert_refused(done, "record-too-large", "line 1: a record of 2,000,002 bytes is too large")
    assert data(log, topic) == []


def test_a_line_without_its_key_is_refused(headwater: Headwater, topic: str):
    done = headwater("produce", topic, "--key", "user", stdin='{"page": "/"}')
    assert_refused(done, "key-missing", "line 1: there is no 'user' to take as the key")


def test_no_lines_are_no_error_but_an_unknown_topic_is(headwater: Headwater, topic: str):
    assert headwater("produce", topic).stdout == f"appended 0 records to {topic}\n"
    done = headwater("produce", "no-such-topic")
    assert_refused(
        done, "unknown-topic", "error: there is no topic 'no-such-topic'", "hint: `headwater topics"
    )


def test_a_file_that_cannot_be_read_is_refused(headwater: Headwater, tmp_path: Path):
    assert_misused(headwater("produce", "any", "--file", "nothing"), "'nothing' does not exist")
    assert_misused(headwater("produce", "any", "--file", tmp_path), "is a directory")


@pytest.mark.usefixtures("shop")
def test_a_schema_beside_a_topic_from_a_file_is_refused(headwater: Headwater):
    done = headwater("produce", ORDERS, "--schema", "id long", "--key", "id")
    assert_misused(done, "shop.py:ORDERS describes its topic whole: leave out --schema, --key")


def test_somebody_at_a_terminal_is_told_what_to_do(tmp_path: Path, env: dict[str, str], log: Log, topic: str):
    code, seen = on_terminal("produce", topic, folder=tmp_path, env=env, keys=b'{"a": 1}\n\x04')
    assert code == 0
    assert "type lines of JSON, one record each; Ctrl-D ends" in seen
    assert f"appended 1 record to {topic}" in seen
    assert data(log, topic) == [(b"", b'{"a": 1}')]


def test_a_broker_that_goes_away_in_the_middle_is_reported_with_what_may_be_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    settings = Settings(home=tmp_path / "home", kafka_port=a_free_port())
    embedded.up(settings, [embedded.SERVERS["kafka"]], lambda *_: None)
    try:
        Log.open(settings).topics.ensure("clicks", 1, {})
        patient = Log.writer

        def hasty(self: Log, **more: Any) -> Any:
            return patient(self, **more, deliver_within=timedelta(seconds=2))

        monkeypatch.setattr(Log, "writer", hasty)
        monkeypatch.setattr(produce, "_opened", lambda _: LinesAroundACrash(settings))
        monkeypatch.setenv("HEADWATER_HOME", str(settings.home))
        with pytest.raises(NotAcknowledged, match="not acknowledged") as caught:
            produce.produce("clicks")
        assert caught.value.hint == "each may or may not be in the log; with --atomic all lines are, or none"
        assert b"2" in [one.value for one in caught.value.records]
    finally:
        embedded.down(settings)


class LinesAroundACrash(nullcontext[None]):
    """Two lines; the broker is killed between them."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self._settings = settings

    def __iter__(self) -> Iterator[bytes]:
        yield b"1\n"
        broker = running("kafka", self._settings)
        assert broker
        os.kill(broker.pid, signal.SIGKILL)
        yield b"2\n"
