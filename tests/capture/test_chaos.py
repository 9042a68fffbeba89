"""Three rounds of what `make chaos` does at length: servers and driver are killed with -9, one by one."""

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from bench import chaos_capture
from bench.chaos_judge import History

from headwater import embedded


class Row(msgspec.Struct):
    version: int


def change(operation: str, before: int | None, after: int | None) -> Any:
    rows = [None if one is None else Row(one) for one in (before, after)]
    return SimpleNamespace(operation=operation, key=1, before=rows[0], after=rows[1])


INSERT, UPDATE, AGAIN = change("insert", None, 1), change("update", 1, 2), change("update", 2, 3)
DELETE = change("delete", 3, None)


@pytest.mark.parametrize(
    ("changes", "follows"),
    [
        ([INSERT, UPDATE, AGAIN, DELETE, INSERT], True),
        ([change("update", 6, 7), change("read", None, 7), change("delete", 7, None)], True),
        ([INSERT, AGAIN], False),  # the update between them is lost
        ([INSERT, UPDATE, UPDATE], False),
        ([INSERT, INSERT], False),
        ([INSERT, UPDATE, DELETE], False),
        ([INSERT, UPDATE, AGAIN, DELETE, UPDATE], False),
        ([INSERT, change("read", None, 2)], False),
    ],
)
def test_a_change_that_is_lost_or_comes_twice_breaks_the_history_of_its_row(changes, follows):
    history = History(tells_before=True)
    assert all(history.follows(one) for one in changes) == follows


@pytest.mark.timeout(900)
def test_table_topic_and_copies_are_equal_and_each_event_came_once_whatever_is_killed(tmp_path):
    settings = chaos_capture.home(tmp_path / "home")
    chaos_capture.up(settings, *chaos_capture.SERVERS)
    try:
        found = chaos_capture.run(settings, rounds=3)
    finally:
        embedded.down(settings)
    killed = {one: found["killed"][one] for one in chaos_capture.VICTIMS}
    assert killed == dict.fromkeys(chaos_capture.VICTIMS, 3), found
    assert min(found["transactions"], found["events"], found["changes"], found["compared"]) > 100, found
    assert {one: found[one] for one in chaos_capture.WRONG} == dict.fromkeys(chaos_capture.WRONG, 0), found
