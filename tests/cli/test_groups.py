"""groups as a user types it: who reads, how far, and moving them."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from tests.cli.command import as_json, assert_misused, assert_refused
from tests.cli.conftest import Headwater

from headwater import Log
from headwater.clock import wait_until
from headwater.log.member import Member

pytestmark = pytest.mark.system


@pytest.fixture
def topic(log: Log, name: str) -> str:
    """A topic of one partition with five records."""
    log.topics.ensure(name, 1, {})
    with log.writer() as writer:
        for number in range(5):
            writer.append_bytes(name, str(number).encode())
    return name


@contextmanager
def reading(log: Log, group: str, topic: str, count: int) -> Iterator[Member]:
    """A member that has read and committed this many records, and stays."""
    with log.join(group, topic) as member:
        left = count

        def is_done() -> bool:
            nonlocal left
            left -= sum(1 for _ in member.take(0.2))
            return left <= 0 and bool(member.assignment())

        assert wait_until(is_done, timedelta(seconds=30))
        member.commit()
        yield member


def test_a_group_is_listed_shown_moved_and_deleted(headwater: Headwater, log: Log, topic: str):
    group = f"{topic}-readers"
    with reading(log, group, topic, 5):
        assert {"group": group, "state": "stable", "members": 1} in as_json(headwater("groups", "--json"))
        (shown,) = as_json(headwater("groups", "show", group, "--json"))
        assert shown == {"topic": topic, "partition": 0, "committed": 5, "read_by": shown["read_by"]}
        assert shown["read_by"]
    row = headwater("groups", "show", group).stdout.splitlines()[1]
    assert row.split() == [topic, "0", "5", "-"]
    moved = headwater("groups", "reset", group, topic, "--to", "2", "--json")
    assert as_json(moved) == [{"topic": topic, "partition": 0, "offset": 2}]
    assert set(log.groups.committed(group).values()) == {2}
    assert headwater("groups", "delete", group).stdout == f"deleted {group}\n"
    done = headwater("groups", "show", group)
    assert_refused(
        done, "unknown-group", f"there is no group '{group}'", "hint: `headwater groups` lists them"
    )


def test_a_group_with_members_is_neither_moved_nor_deleted(shell: Headwater, log: Log, topic: str):
    group = f"{topic}-readers"
    with reading(log, group, topic, 5):
        done = shell("groups", "reset", group, topic, "--to", "beginning")
        assert_refused(
            done, "group-active", "has members, so it cannot be moved", "hint: stop its readers first"
        )
        assert_refused(shell("groups", "delete", group), "group-active", "hint: stop its readers first")
        assert set(log.groups.committed(group).values()) == {5}


def test_a_group_is_moved_in_a_topic_from_a_file_to_a_moment(
    headwater: Headwater, log: Log, topic: str, shop: str
):
    group = f"{topic}-readers"
    with reading(log, group, topic, 5):
        pass
    assert shop
    assert as_json(headwater("groups", "reset", group, "shop.py:ORDERS", "--to", "1h", "--json")) == [
        {"topic": topic, "partition": 0, "offset": 0}
    ]


def test_a_move_that_cannot_be_is_refused(headwater: Headwater, log: Log, topic: str):
    group = f"{topic}-readers"
    with reading(log, group, topic, 5):
        pass
    done = headwater("groups", "reset", group, topic, "--to", "99")
    assert_refused(done, "offset-out-of-range", "it holds 0 up to 5")
    assert_refused(headwater("groups", "reset", group, "no-such-topic", "--to", "end"), "unknown-topic")
    assert_refused(headwater("groups", "reset", "no-such-group", topic, "--to", "end"), "unknown-group")
    assert_misused(headwater("groups", "reset", group, topic), "Missing option '--to'")
    assert_misused(
        headwater("groups", "reset", group, topic, "--to", "there"), "'there' is no place in the log"
    )
    assert set(log.groups.committed(group).values()) == {5}
