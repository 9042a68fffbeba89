"""Five rounds of what `make chaos` does at length: the driver, a worker and the broker killed with -9."""

import pytest
from bench import chaos_pipelines

from headwater import Settings, embedded
from headwater.embedded.ports import a_free_port


@pytest.mark.timeout(600)
def test_every_output_is_there_exactly_once_whatever_is_killed(tmp_path):
    settings = Settings(home=tmp_path / "home", kafka_port=a_free_port())
    embedded.up(settings, [embedded.SERVERS["kafka"]], lambda *_: None)
    try:
        found = chaos_pipelines.run(settings, rounds=5)
    finally:
        embedded.down(settings)
    assert found["outputs"] > 1_000, found
    assert set(found["killed"]) == {"driver", "worker", "broker"}, found
    assert min(found["killed"].values()) >= 1, found
    assert (found["lost"], found["doubled"], found["wrong"], found["late"]) == (0, 0, 0, 0), found
    assert found["diverted"] > 10, found
    assert found["unaccounted"] == 0, found
