"""Three rounds of what `make chaos` does at length: servers and driver are killed with -9, one by one."""

import pytest
from bench import chaos_capture

from headwater import embedded


@pytest.mark.timeout(900)
def test_table_topic_and_copies_are_equal_and_each_event_came_once_whatever_is_killed(tmp_path):
    settings = chaos_capture.home(tmp_path / "home")
    chaos_capture.up(settings, *chaos_capture.SERVERS)
    try:
        found = chaos_capture.run(settings, rounds=3)
    finally:
        embedded.down(settings)
    assert {one: found["killed"][one] for one in chaos_capture.VICTIMS} == dict.fromkeys(
        chaos_capture.VICTIMS, 3
    ), found
    assert min(found["transactions"], found["events"], found["changes"], found["compared"]) > 100, found
    assert {one: found[one] for one in chaos_capture.WRONG} == dict.fromkeys(chaos_capture.WRONG, 0), found
