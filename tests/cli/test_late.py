"""late as a user types it: what came too late, what it missed, and sending it into a correction."""

from datetime import UTC, datetime, timedelta

import pytest
from tests.cli.command import as_json, assert_refused
from tests.cli.conftest import Headwater

from headwater import Log, Settings, Topic
from headwater.clock import wait_until
from headwater.log.connection import Connection
from headwater.log.late_letter import LateLetter
from headwater.log.letter import prepare
from headwater.log.transfer import Transfer

pytestmark = pytest.mark.system
MOMENT = datetime(2026, 11, 16, 10, tzinfo=UTC)
WINDOW = (MOMENT, MOMENT + timedelta(seconds=10))


@pytest.fixture
def late(log: Log, system: Settings, name: str) -> str:
    """A late topic with three letters of a topic that has the test's name."""
    log.topics.create(Topic(name, schema="n int"))
    place = f"{name}-late"
    prepare(log.topics, name, place)
    with Transfer(Connection(system), name, group=name) as transfer, transfer.transaction({}):
        for at in range(3):
            letter = LateLetter(
                topic=name,
                partition=0,
                offset=at,
                timestamp=MOMENT,
                key=b"k",
                value=b"%d" % at,
                headers=[("h", b"1")],
                pipeline="bank.one",
                event_at=MOMENT + timedelta(seconds=4),
                watermark=MOMENT + timedelta(seconds=30),
                missed=(WINDOW,),
                dead_at=MOMENT,
            )
            headers = letter.written_headers()
            transfer.append(place, key=letter.key, value=letter.value, headers=headers)
    assert wait_until(lambda: len(list(log.read(place))) == 3, timedelta(seconds=20))
    return place


def test_late_letters_are_shown_with_the_windows_that_they_missed(
    headwater: Headwater, late: str, name: str
) -> None:
    shown = as_json(headwater("late", "show", late, "--last", "2", "--json"))
    assert [one["offset"] for one in shown] == [1, 2]
    assert shown[0] == {
        "topic": name,
        "partition": 0,
        "offset": 1,
        "event_at": "2026-11-16T10:00:04+00:00",
        "late_by": "0:00:26",
        "missed": [["2026-11-16T10:00:00+00:00", "2026-11-16T10:00:10+00:00"]],
        "by": "bank.one",
        "key": "k",
        "value": "1",
        "watermark": "2026-11-16T10:00:30+00:00",
        "dead_at": "2026-11-16T10:00:00+00:00",
        "headers": [["h", "1"]],
    }
    text = headwater("late", "show", late).stdout
    assert "2026-11-16T10:00:00+00:00 to 2026-11-16T10:00:10+00:00" in text


def test_they_are_sent_to_another_topic_each_once(
    headwater: Headwater, log: Log, late: str, name: str
) -> None:
    target = f"{name}-corrections"
    log.topics.create(Topic(target, schema="n int"))
    assert headwater("late", "resend", late, "--to", target).stdout == f"resent 3 records to {target}\n"
    assert as_json(headwater("late", "resend", late, "--to", target, "--json"))["sent"] == 0
    assert wait_until(lambda: len(list(log.read(target))) == 3, timedelta(seconds=20))
    assert sorted(one.data or b"" for one in log.read(target)) == [b"0", b"1", b"2"]


def test_their_own_topic_is_refused_for_they_would_be_late_again(
    headwater: Headwater, late: str, name: str
) -> None:
    assert_refused(headwater("late", "resend", late, "--to", name), "bad-topic", "would be late there again")


def test_a_topic_that_is_not_there_is_named(headwater: Headwater, name: str) -> None:
    assert_refused(
        headwater("late", "show", f"{name}-none"), "unknown-topic", f"there is no topic '{name}-none'"
    )
