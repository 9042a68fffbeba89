"""Snapshot then follow: no gap, no overlap, whoever writes and whatever the cleaner does."""

from datetime import timedelta
from threading import Event, Thread
from time import monotonic

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater import Topic, clock
from headwater.clock import wait_until
from headwater.errors import BootstrapTooSlow, KeyMissing
from headwater.log.positions import Positions

KEYS = [f"k{number}" for number in range(6)]
SCHEMA = "k string NOT NULL, v long NOT NULL"
changes = st.lists(st.tuples(st.sampled_from(KEYS), st.integers(0, 99) | st.none()), max_size=40)

# Segments so small and a cleaner so eager that compaction runs under the test's hands.
EAGER = {"segment.ms": "20", "min.cleanable.dirty.ratio": "0.001", "max.compaction.lag.ms": "20"}


def fold(state, records):
    for key, value in records:
        state.pop(key, None)
        if value is not None:
            state[key] = value
    return state


def write(writer, topic, records):
    for key, value in records:
        if value is None:
            writer.delete(topic, key)
        else:
            writer.append(topic, {"k": key, "v": value})


def plain(record):
    return record.key.decode(), None if record.value is None else record.value.v


@pytest.fixture
def prices(log, name):
    topic = Topic(name, schema=SCHEMA, key="k", compacted=True, partitions=2)
    log.topics.create(topic)
    return topic


def test_the_snapshot_holds_the_last_value_of_every_living_key(log, prices):
    with log.writer() as writer:
        write(writer, prices, [("a", 1), ("b", 2), ("a", 3), ("b", None), ("c", 4)])
    with log.snapshot_then_follow(prices) as table:
        assert {plain(record) for record in table.snapshot.values()} == {("a", 3), ("c", 4)}


def test_every_change_after_the_snapshot_follows_in_order(log, prices):
    with log.writer() as writer:
        write(writer, prices, [("a", 1)])
        writer.flush()
        with log.snapshot_then_follow(prices) as table:
            write(writer, prices, [("a", 2), ("a", None), ("a", 3)])
            writer.flush()
            followed = iter(table)
            assert [plain(next(followed)) for _ in range(3)] == [("a", 2), ("a", None), ("a", 3)]


def test_an_empty_topic_has_an_empty_snapshot(log, prices):
    with log.snapshot_then_follow(prices) as table:
        assert dict(table.snapshot) == {}


def test_a_record_without_a_key_is_nobodys_value(log, name):
    topic = Topic(name, schema="n int")
    log.topics.create(topic)
    with log.writer() as writer:
        writer.append(topic, {"n": 1})
    with pytest.raises(KeyMissing, match="nobody's current value"):
        log.snapshot_then_follow(topic)


def test_a_snapshot_slower_than_the_tombstones_are_kept_is_refused(log, prices):
    with log.writer() as writer:
        write(writer, prices, [("a", 1)])
    log.topics.alter(prices.name, config={"delete.retention.ms": "0"})
    with pytest.raises(BootstrapTooSlow, match=r"tombstones of topic .* are kept"):
        log.snapshot_then_follow(prices)


def test_snapshot_and_changes_are_the_whole_truth_for_any_history(log, prices):
    """For random histories: fold(snapshot + changes) = fold(all), and each change comes once."""

    @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
    @given(before=changes, after=changes)
    def law(before, after):
        with log.writer() as writer:
            write(writer, prices, before)
            writer.flush()
            with log.snapshot_then_follow(prices) as table:
                state = dict(plain(record) for record in table.snapshot.values())
                truth = fold({}, (plain(record) for record in log.read(prices)))
                assert state == truth
                write(writer, prices, after)
                writer.flush()
                followed = take(iter(table), len(after))
                for key in KEYS:  # per key, the order of the log
                    assert [value for one, value in followed if one == key] == [
                        value for one, value in after if one == key
                    ]
                assert fold(state, followed) == fold(truth, after)

    law()


def take(records, count):
    return [plain(next(records)) for _ in range(count)]


class Churn(Thread):
    """A writer that goes on: every key, again and again, numbered upwards; now and then a tombstone."""

    def __init__(self, log, topic):
        super().__init__(daemon=True)
        self._log, self._topic, self.stopped, self.written = log, topic, Event(), []

    def run(self):
        with self._log.writer() as writer:
            number = 0
            while not self.stopped.is_set():
                number += 1
                change = (KEYS[number % len(KEYS)], None if number % 11 == 0 else number)
                write(writer, self._topic, [change])
                writer.flush()
                self.written.append(change)


def test_nothing_is_missed_while_a_writer_goes_on_and_the_cleaner_runs(log, prices):
    log.topics.alter(prices.name, config=EAGER)
    churn = Churn(log, prices)
    churn.start()
    assert wait_until(lambda: cleaned(log, prices) > 100, timedelta(seconds=60), pause=0.2)
    try:
        for _ in range(3):
            follow_for_a_while(log, prices, churn)
    finally:
        churn.stopped.set()
        churn.join()
    with log.snapshot_then_follow(prices) as table:
        state = dict(plain(record) for record in table.snapshot.values())
    assert state == fold({}, churn.written)


def follow_for_a_while(log, prices, churn):
    """The law: at offset X of a partition, the state is the fold of all that was written up to X."""
    with log.snapshot_then_follow(prices) as table:
        state = dict(plain(record) for record in table.snapshot.values())
        assert all(record.offset < table.ends[record.partition] for record in table.snapshot.values())
        reached, until = {}, monotonic() + 1
        for record in table:
            assert record.offset >= table.ends[record.partition]  # no overlap
            assert record.offset > reached.get(record.partition, -1)  # in order, each once
            reached[record.partition] = record.offset
            fold(state, [plain(record)])
            if monotonic() > until and len(reached) == prices.partitions:
                break
    home = {record.key.decode(): record.partition for record in log.read(prices)}
    for partition, offset in reached.items():
        here = [change for change in list(churn.written) if home[change[0]] == partition]
        truth = fold({}, here[: offset + 1])  # one writer: the nth change of a partition is at offset n
        assert {key: value for key, value in state.items() if home[key] == partition} == truth


def cleaned(log, topic):
    """How many offsets the cleaner has removed."""
    ends = Positions(log._connection).end(topic.name, range(topic.partitions))
    return sum(ends.values()) - sum(1 for _ in log.read(topic))


def test_a_follower_so_far_behind_that_a_deletion_may_be_gone_is_told(log, prices, monkeypatch):
    with log.snapshot_then_follow(prices) as table:
        with log.writer() as writer:
            write(writer, prices, [("a", 1)])
        later = clock.now() + timedelta(days=2)
        monkeypatch.setattr(clock, "now", lambda: later)
        with pytest.raises(BootstrapTooSlow, match="the follower is further behind"):
            next(iter(table))


def test_a_loop_that_is_left_and_taken_up_again_skips_no_change(log, prices):
    with log.snapshot_then_follow(prices) as table, log.writer() as writer:
        write(writer, prices, [("a", number) for number in range(10)])
        writer.flush()
        seen = []
        for _ in range(10):
            for record in table:
                seen.append(record.value.v)
                break
    assert seen == list(range(10))
