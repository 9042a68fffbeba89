"""Reading: from any place, committed records only, with an end that stands still."""

from datetime import UTC, datetime, timedelta
from threading import Event, Thread

import pytest

from headwater import Beginning, End, Last, Offset, Settings, Since, Topic
from headwater.clock import now, wait_until
from headwater.errors import BrokerUnreachable, Closed, OffsetOutOfRange, SpecError, Undecodable, UnknownTopic
from headwater.log.log import Log
from headwater.log.positions import Positions
from headwater.log.reader import Reader
from headwater.log.record import as_bytes


@pytest.fixture
def numbers(log, name):
    topic = Topic(name, schema="n int", partitions=1)
    log.topics.create(topic)
    return topic


def append(log, topic, *values):
    with log.writer() as writer:
        for value in values:
            writer.append(topic, {"n": value})


def read(log, topic, **where):
    with log.read(topic, **where) as reader:
        return [record.value.n for record in reader]


def later(moment):
    """A moment that is some milliseconds after another, once it has come."""
    assert wait_until(lambda: now() > moment + timedelta(milliseconds=5), timedelta(seconds=1), pause=0.001)
    return now()


def test_a_read_can_start_anywhere(log, numbers):
    append(log, numbers, 0, 1, 2)
    moment = later(now())  # the log's clock counts milliseconds
    later(moment)
    append(log, numbers, 3, 4)
    assert read(log, numbers) == [0, 1, 2, 3, 4]
    assert read(log, numbers, start=Beginning()) == [0, 1, 2, 3, 4]
    assert read(log, numbers, start=Offset(2)) == [2, 3, 4]
    assert read(log, numbers, start=Offset(5)) == []
    assert read(log, numbers, start=Since(moment)) == [3, 4]
    assert read(log, numbers, start=Since(datetime(2100, 1, 1, tzinfo=UTC))) == []
    assert read(log, numbers, start=Last(2)) == [3, 4]
    assert read(log, numbers, start=Last(99)) == [0, 1, 2, 3, 4]
    assert read(log, numbers, start=End()) == []


def test_a_place_that_cannot_be_is_refused(log, numbers):
    append(log, numbers, 0)
    with pytest.raises(OffsetOutOfRange, match="offset 7 is not in partition 0") as caught:
        log.read(numbers, start=Offset(7))
    assert "holds 0 up to 1" in str(caught.value)
    with pytest.raises(SpecError, match="negative"):
        Offset(-1)
    with pytest.raises(SpecError, match="time zone"):
        Since(datetime(2026, 1, 1))


def test_an_unknown_topic_is_named(log):
    with pytest.raises(UnknownTopic, match="there is no topic 'nowhere'"):
        log.read("nowhere")


def test_a_bounded_read_ends_where_the_log_ended_when_it_was_opened(log, numbers):
    append(log, numbers, *range(1000))
    with log.read(numbers) as reader:
        append(log, numbers, *range(1000, 1100))
        assert [record.value.n for record in reader] == list(range(1000))


def test_a_following_read_goes_on(log, numbers):
    append(log, numbers, 0, 1)
    with log.read(numbers, follow=True) as reader:
        records = iter(reader)
        assert [next(records).value.n, next(records).value.n] == [0, 1]
        append(log, numbers, 2)
        assert next(records).value.n == 2


def test_seek_moves_forth_and_back_and_forgets_what_was_fetched(log, numbers):
    append(log, numbers, *range(100))
    with log.read(numbers) as reader:
        records = iter(reader)
        assert next(records).value.n == 0
        reader.seek(0, 90)
        assert next(records).value.n == 90
        reader.seek(0, 5)
        assert [record.value.n for record in records] == list(range(5, 100))


def test_seek_forgets_that_the_end_was_seen(log, numbers, monkeypatch):
    monkeypatch.setattr("headwater.log.reader.SMALL_WAIT", 2)  # the end of the log comes in the same batch
    append(log, numbers, *range(10))
    with log.read(numbers) as reader:
        records = iter(reader)
        assert next(records).value.n == 0
        reader.seek(0, 5)
        assert [record.value.n for record in records] == list(range(5, 10))


def test_seek_in_one_partition_leaves_the_others_alone(log, name):
    topic = Topic(name, schema="n int", partitions=3)
    log.topics.create(topic)
    append(log, topic, *range(30))
    with log.read(topic) as reader:
        records = iter(reader)
        first = next(records)
        reader.seek(first.partition, 9)
        rest = [(record.partition, record.offset) for record in records]
    others = [one for one in range(3) if one != first.partition]
    assert sorted(rest) == sorted([(first.partition, 9), *((one, at) for one in others for at in range(10))])


def test_seek_outside_the_log_is_refused(log, numbers):
    append(log, numbers, 0)
    with log.read(numbers) as reader, pytest.raises(OffsetOutOfRange):
        reader.seek(0, 9)


def test_an_open_transaction_is_not_seen_and_does_not_stop_a_bounded_read(log, numbers):
    append(log, numbers, 0)
    with log.writer(transactional_id=numbers.name) as writer:
        with writer.transaction():
            writer.append(numbers, {"n": 1})
            writer.flush()
            append(log, numbers, 2)
            assert read(log, numbers) == [0]
        # a commit is decided when it returns; the broker's markers show it to readers a moment later
        assert wait_until(lambda: read(log, numbers) == [0, 1, 2], timedelta(seconds=10))


def test_a_log_that_ends_with_a_rolled_back_transaction_still_ends(log, numbers):
    append(log, numbers, 0)
    with log.writer(transactional_id=numbers.name) as writer:
        with pytest.raises(ZeroDivisionError), writer.transaction():
            writer.append(numbers, {"n": 1})
            writer.flush()
            _ = 1 / 0
    assert read(log, numbers) == [0]


def test_one_partition_can_be_read_alone(log, name):
    topic = Topic(name, schema="n int", partitions=3)
    log.topics.create(topic)
    append(log, topic, *range(9))
    assert read(log, topic, partitions=[1]) == [1, 4, 7]


def test_bytes_that_are_no_row_are_found_only_when_looked_at(log, numbers):
    with log.writer() as writer:
        writer.append_bytes(numbers.name, b"\xff\xfe")
    (record,) = log.read(numbers)
    assert record.data == b"\xff\xfe"
    with pytest.raises(Undecodable, match="is not json"):
        _ = record.value


def test_the_logs_clock_says_when_a_record_was_appended(log, numbers):
    before = now() - timedelta(milliseconds=1)
    append(log, numbers, 0)
    (record,) = log.read(numbers)
    assert before <= record.appended_at <= now()


def test_records_removed_by_retention_are_an_error_and_not_a_gap(log, numbers):
    log.topics.alter(numbers.name, config={"retention.ms": "1", "segment.ms": "1"})

    def removed():
        append(log, numbers, *range(10))  # a new record lets the broker close the segment
        return Positions(log._connection).first(numbers.name, [0])[0] > 3

    assert wait_until(removed, timedelta(seconds=30), pause=0.2)
    with Reader(log._connection, numbers.name, as_bytes, starts={0: 3}, follow=False) as reader:
        with pytest.raises(OffsetOutOfRange, match="lost records before they were read"):
            list(reader)


def test_no_broker_at_all_is_said_with_the_way_out(tmp_path):
    with pytest.raises(BrokerUnreachable, match="no log is running here") as caught:
        Log.open(Settings(home=tmp_path))
    assert "headwater up" in caught.value.hint


def test_a_broker_that_does_not_answer_is_said_within_seconds():
    log = Log.open(Settings(kafka="127.0.0.1:1"))
    with pytest.raises(BrokerUnreachable, match="does not answer"):
        log.topics.names()


def test_a_loop_that_is_left_and_taken_up_again_skips_nothing(log, numbers):
    append(log, numbers, *range(1000))
    seen = []
    with log.read(numbers) as reader:
        for _ in range(3):
            for record in reader:
                seen.append(record.value.n)
                break
        seen += [record.value.n for record in reader]
    assert seen == list(range(1000))


def test_a_short_partition_that_is_still_written_ends_where_it_ended(log, name):
    topic = Topic(name, schema="k string, n int", key="k", partitions=2)
    log.topics.create(topic)
    with log.writer() as writer:
        for key in "abcdefgh":
            writer.append(topic, {"k": key, "n": 0})
        writer.flush()
        home = {record.key.decode(): record.partition for record in log.read(topic)}
        (busy, *_), (short, *_) = ([key for key in home if home[key] == one] for one in range(2))
        for number in range(100_000):
            writer.append(topic, {"k": busy, "n": number})
    stop = Event()

    def go_on():
        with log.writer() as writer:
            while not stop.is_set():
                writer.append(topic, {"k": short, "n": 1})
                writer.flush()

    writing = Thread(target=go_on)
    with log.read(topic) as reader:
        writing.start()
        past = [record.offset for record in reader if record.offset >= reader.ends[record.partition]]
    stop.set()
    writing.join()
    assert past == []
    assert reader.ends[home[short]] < 100 < reader.ends[home[busy]]


def test_two_seeks_both_hold(log, name):
    topic = Topic(name, schema="n int", partitions=2)
    log.topics.create(topic)
    append(log, topic, *range(200))
    with log.read(topic) as reader:
        reader.seek(0, 90)
        reader.seek(1, 95)
        seen = sorted((record.partition, record.offset) for record in reader)
    assert seen == [(0, at) for at in range(90, 100)] + [(1, at) for at in range(95, 100)]


def test_a_seek_in_a_partition_that_is_not_read_is_refused(log, numbers):
    with log.read(numbers) as reader, pytest.raises(OffsetOutOfRange, match="is not read here"):
        reader.seek(7, 0)


def test_partitions_that_are_added_are_followed_too(log, numbers, monkeypatch):
    monkeypatch.setattr("headwater.log.reader.LOOK_EVERY", timedelta(milliseconds=100))
    with log.read(numbers, follow=True) as reader:
        log.topics.alter(numbers.name, partitions=3)
        append(log, numbers, *range(9))
        records = iter(reader)
        assert sorted(next(records).value.n for _ in range(9)) == list(range(9))


def test_a_topic_that_is_made_anew_is_not_the_one_that_was_followed(log, numbers, monkeypatch):
    monkeypatch.setattr("headwater.log.reader.LOOK_EVERY", timedelta(milliseconds=100))
    append(log, numbers, 1, 2)
    with log.read(numbers, follow=True) as reader:
        records = iter(reader)
        assert [next(records).value.n, next(records).value.n] == [1, 2]
        log.topics.delete(numbers.name)
        log.topics.create(numbers)
        append(log, numbers, *range(5))
        with pytest.raises((UnknownTopic, OffsetOutOfRange)):
            next(records)


def test_a_follower_from_the_end_sees_what_was_not_decided_yet(log, numbers):
    with log.writer(transactional_id=numbers.name) as writer, writer.transaction():
        writer.append(numbers, {"n": 1})
        writer.flush()
        reader = log.read(numbers, start=End(), follow=True)
    with reader:
        assert next(iter(reader)).value.n == 1


def test_a_closed_reader_says_so(log, numbers):
    append(log, numbers, 1)
    reader = log.read(numbers)
    reader.close()
    with pytest.raises(Closed):
        list(reader)


def test_no_partitions_are_no_records(log, numbers):
    append(log, numbers, 1)
    assert read(log, numbers, partitions=[]) == []
    with pytest.raises(SpecError, match="not negative"):
        Last(-1)
