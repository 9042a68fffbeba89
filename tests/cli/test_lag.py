"""lag as a user types it: the figures, the trend, the alert, and watching."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from tests.cli.command import as_json, assert_misused, assert_refused, begun
from tests.cli.conftest import Headwater
from tests.cli.test_groups import reading

from headwater import Log, Settings, embedded
from headwater.cli.output import plain, table
from headwater.clock import wait_until

pytestmark = pytest.mark.system


@contextmanager
def reading_without_commits(system: Settings, topic: str) -> Iterator[None]:
    """A consumer of another make, in a group of the topic's name, that never commits."""
    address = embedded.kafka_address(system)
    options = {"group.id": topic, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": address, **options})
    try:
        consumer.subscribe([topic])
        assert wait_until(lambda: consumer.poll(0.1) is not None, timedelta(seconds=30))
        yield
    finally:
        consumer.close()


@pytest.fixture
def group(log: Log, name: str) -> str:
    """A group that has done two records of five, in a topic of its own name."""
    log.topics.ensure(name, 1, {})
    append(log, name, 2)
    with reading(log, name, name, 2):
        pass
    append(log, name, 3)
    return name


def append(log: Log, topic: str, count: int) -> None:
    with log.writer() as writer:
        for _ in range(count):
            writer.append_bytes(topic, b"x")


def test_the_figures_are_those_of_the_log(headwater: Headwater, log: Log, group: str):
    (shown,) = as_json(headwater("lag", group, "--every", "10ms", "--json"))
    (figures,) = (asdict(one) for one in log.lag(group))
    assert shown.pop("trend") == 0
    assert shown == {name: value for name, value in figures.items() if name not in ("behind", "trend")}
    assert (shown["committed"], shown["end"], shown["lag"]) == (2, 5, 3)
    heading, row = headwater("lag", group, "--every", "10ms").stdout.splitlines()
    assert heading.split() == ["group", "topic", "partition", "committed", "end", "lag", "trend"]
    assert row.split() == [group, group, "0", "2", "5", "3", "0.0/s"]


def test_all_groups_are_shown_when_none_is_named(headwater: Headwater, group: str):
    assert group in {one["group"] for one in as_json(headwater("lag", "--every", "10ms", "--json"))}


def test_a_lag_above_the_most_is_an_alert(shell: Headwater, group: str):
    done = shell("lag", group, "--max", "2", "--every", "10ms", "--json")
    assert done.returncode == 3
    assert done.stderr == f"alert: {group} is 3 behind in {group}[0], above 2\n"
    assert json.loads(done.stdout)[0]["lag"] == 3
    done = shell("lag", group, "--max", "3", "--every", "10ms")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_partition_without_a_commit_has_no_lag_but_alarms(
    headwater: Headwater, log: Log, system: Settings, name: str
):
    log.topics.ensure(name, 1, {})
    append(log, name, 4)
    with reading_without_commits(system, name):
        done = headwater("lag", name, "--max", "3", "--every", "10ms")
    assert done.returncode == 3
    assert done.stdout.splitlines()[1].split() == [name, name, "0", "-", "4", "-", "0.0/s"]
    assert f"{name} is 4 behind" in done.stderr


def test_a_topic_that_is_deleted_under_its_readers_does_not_stop_the_figures(
    headwater: Headwater, log: Log, group: str
):
    with reading(log, group, group, 3):
        log.topics.delete(group)
        assert log.lag(group) == []
    assert as_json(headwater("lag", group, "--every", "10ms", "--json")) == []


def test_watching_shows_sample_after_sample_until_it_is_interrupted(
    tmp_path: Path, env: dict[str, str], log: Log, group: str
):
    with begun("lag", group, "--watch", "--every", "50ms", "--json", folder=tmp_path, env=env) as process:
        assert process.stdout and process.stderr  # noqa: PT018
        assert json.loads(process.stdout.readline())[0]["lag"] == 3
        append(log, group, 10)
        samples = iter(process.stdout.readline, "")
        rising = next(one for one in map(json.loads, samples) if one[0]["lag"] == 13)
        assert rising[0]["trend"] > 0
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert process.stderr.read() == ""


def test_watching_for_people_in_a_pipe_prints_tables_and_ends_at_an_alert(headwater: Headwater, group: str):
    done = headwater("lag", group, "--watch", "--every", "10ms", "--max", "2")
    assert done.returncode == 3
    assert done.stdout.splitlines()[1].split()[-2:] == ["3", "0.0/s"]
    assert done.stderr.startswith("alert: ")


@pytest.mark.parametrize(
    ("trend", "shown"),
    [(1234.56, "+1,234.6/s"), (-0.5, "-0.5/s"), (0.0, "0.0/s"), (-0.01, "0.0/s"), (None, "-")],
)
def test_the_trend_has_a_sign_and_a_unit(trend: float | None, shown: str):
    assert plain([{"group": "g", "trend": trend}]).splitlines()[1].split() == ["g", shown]


def test_numbers_stand_to_the_right_places_are_bare_and_names_are_no_markup():
    rows = [{"group": "[red]x", "end": None, "lag": 1}, {"group": "y", "end": 12345, "lag": 12345}]
    assert plain(rows).splitlines() == [
        "group     end     lag",
        "[red]x      -       1",
        "y       12345  12,345",
    ]
    assert [one.justify for one in table(rows).columns] == ["left", "right", "right"]


def test_a_call_that_cannot_be_understood_is_refused(headwater: Headwater):
    assert_misused(headwater("lag", "--every", "soon"), "'soon' is not a duration")
    assert_misused(headwater("lag", "--max", "-1"), "'--max'")
    assert_refused(headwater("lag", "no-such-group"), "unknown-group", "there is no group 'no-such-group'")
