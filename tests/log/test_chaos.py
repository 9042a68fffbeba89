"""Two rounds of what `make chaos` does at length."""

import pytest
from bench import chaos_log

from headwater import Settings, embedded
from headwater.embedded.ports import a_free_port


@pytest.fixture(scope="module")
def a_system_to_break(tmp_path_factory):
    settings = Settings(home=tmp_path_factory.mktemp("chaos"), kafka_port=a_free_port())
    embedded.up(settings, [embedded.SERVERS["kafka"]], lambda *_: None)
    yield settings
    embedded.down(settings)


def test_a_writer_killed_in_mid_transaction_leaves_whole_transactions_each_once(a_system_to_break):
    found = chaos_log.transactions(a_system_to_break, rounds=2)
    assert found["records"] > 0
    assert (found["lost"], found["doubled"], found["torn"]) == (0, 0, 0)


def test_a_broker_killed_under_a_writer_loses_and_doubles_nothing(a_system_to_break):
    found = chaos_log.broker(a_system_to_break, rounds=2)
    assert found["records"] > 0
    assert (found["lost"], found["doubled"]) == (0, 0)


def test_tasks_of_a_killed_consumer_are_done_by_another(a_system_to_break):
    found = chaos_log.queue(a_system_to_break, rounds=2)
    assert found["lost"] == 0
