"""A snapshot of a table to which others go on writing: `make bench` does it with a million rows."""

from typing import Any

import pytest
from bench import capture_snapshot

from tests.capture.captured import own_database

pytestmark = [pytest.mark.system, pytest.mark.usefixtures("connect")]


def test_a_snapshot_beside_inserts_updates_and_deletes_leaves_the_log_equal_to_the_table(
    postgres: str, system: Any
):
    with own_database(postgres, "history", system) as database:
        found = capture_snapshot.measured(database, 20_000, system)
    assert found.changes > 1  # some came after the snapshot's moment, and not only the last
    assert found.rows + found.changes > 20_000
    assert found.differing == 0
