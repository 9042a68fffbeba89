"""One slice, one transaction, once: whoever else writes it, and whatever breaks under it."""

from contextlib import suppress
from datetime import timedelta

import pyarrow as pa
import pytest
from confluent_kafka import KafkaException, TopicPartition

from headwater.clock import wait_until
from headwater.errors import (
    OutcomeUnknown,
    RecordTooLarge,
    SlicesChanged,
    TransactionAborted,
    WriterFenced,
)
from headwater.log.transaction import Transactions
from headwater.sink import producer, transactions
from headwater.sink.markers import SLICES, Place, group_client
from headwater.sink.transactions import SliceWriter, fence, write_slice
from tests.sink.slices_of_rows import block, forget, job, markers, numbers, seen, sees

PLACES = [Place(SLICES, number + 1) for number in range(3)]


@pytest.fixture
def topic(log, name):
    made = numbers(name, partitions=2)
    log.topics.create(made)
    markers(log, made).make_room(3)
    forget()
    return made


def test_a_slice_that_is_tried_again_by_the_same_worker_is_written_once(system, log, topic):
    assert write_slice(job(system, topic), 0, iter([block(range(5))])) == 5
    assert write_slice(job(system, topic), 0, iter([block(range(5))])) == 0
    assert sees(log, topic, range(5))


def test_a_slice_that_is_tried_again_by_another_worker_is_written_once(system, log, topic):
    assert write_slice(job(system, topic), 0, iter([block(range(5))])) == 5
    forget()
    assert write_slice(job(system, topic), 0, iter([block(range(5))])) == 0
    assert sees(log, topic, range(5))


def test_a_slice_that_is_there_is_read_to_its_end_all_the_same(system, topic):
    write_slice(job(system, topic), 0, iter([block(range(5))]))
    read = []

    def blocks():
        for at in range(3):
            read.append(at)
            yield block([at])

    write_slice(job(system, topic), 0, blocks())
    assert read == [0, 1, 2]


def test_the_slices_of_a_batch_and_the_batches_of_a_slice_are_each_written(system, log, topic):
    for batch in range(3):
        for slice_ in range(3):
            write_slice(job(system, topic, batch), slice_, iter([block([batch * 10 + slice_])]))
    assert sees(log, topic, [0, 1, 2, 10, 11, 12, 20, 21, 22])
    found = markers(log, topic).read_settled(PLACES)
    assert {place.partition: marker.batch for place, marker in found.items()} == {1: 2, 2: 2, 3: 2}
    committed = log.groups.committed(f"test.p.to.{topic.name}")
    assert {(one.topic, offset) for one, offset in committed.items()} == {(SLICES, 3)}


def test_the_same_number_of_another_checkpoint_is_another_batch(system, log, topic):
    write_slice(job(system, topic, query="first"), 0, iter([block([1])]))
    forget()
    write_slice(job(system, topic, query="second"), 0, iter([block([2])]))
    assert sees(log, topic, [1, 2])


def test_a_kept_producer_that_was_fenced_between_batches_is_replaced_before_a_row_is_read(system, log, topic):
    write_slice(job(system, topic, 0), 0, iter([block([0])]))
    fence(job(system, topic).settings, job(system, topic).group, Place(SLICES, 1))
    rows = iter([block([1]), block([2])])  # can be read once only
    assert write_slice(job(system, topic, 1), 0, rows) == 2
    assert sees(log, topic, [0, 1, 2])


def test_a_kept_producer_sees_that_another_worker_wrote_the_batch(system, log, topic):
    write_slice(job(system, topic, 0), 0, iter([block([0])]))
    mine = dict(transactions._WRITERS)
    forget()
    write_slice(job(system, topic, 1), 0, iter([block([1])]))
    transactions._WRITERS.clear()
    transactions._WRITERS.update(mine)
    assert write_slice(job(system, topic, 1), 0, iter([block([1])])) == 0
    assert sees(log, topic, [0, 1])


def test_a_zombie_that_still_writes_when_its_retry_has_committed_writes_nothing(system, log, topic):
    def slow():
        yield block(range(100))
        forget()
        assert write_slice(job(system, topic), 0, iter([block(range(200))])) == 200  # the retry, elsewhere
        yield block(range(100, 200))

    with pytest.raises(WriterFenced):
        write_slice(job(system, topic), 0, slow())
    assert sees(log, topic, range(200))


def test_a_zombie_that_wakes_when_the_next_batch_is_written_writes_nothing(system, log, topic):
    def slow():
        yield block([1])
        for batch in (0, 1):
            forget()
            write_slice(job(system, topic, batch), 0, iter([block([1 + batch])]))

    with pytest.raises(WriterFenced):
        write_slice(job(system, topic), 0, slow())
    assert sees(log, topic, [1, 2])


def test_an_input_that_fails_leaves_nothing_and_no_open_transaction(system, log, topic):
    def broken():
        yield block(range(100))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_slice(job(system, topic), 0, broken())
    assert not transactions._WRITERS
    assert write_slice(job(system, topic), 0, iter([block([7])])) == 1
    assert sees(log, topic, [7])


def test_an_empty_slice_needs_neither_transaction_nor_marker(system, log, topic):
    assert write_slice(job(system, topic), 0, iter([])) == 0
    assert write_slice(job(system, topic), 0, iter([block([])])) == 0
    assert not transactions._WRITERS
    assert markers(log, topic).read_settled(PLACES) == {}


def test_a_commit_that_happened_though_its_answer_did_not_come_counts(system, log, topic, monkeypatch):
    real = Transactions.commit

    def without_answer(self):
        real(self)
        raise OutcomeUnknown("the commit was sent and its answer did not come")

    monkeypatch.setattr(Transactions, "commit", without_answer)
    write_slice(job(system, topic), 0, iter([block(range(5))]))
    monkeypatch.undo()
    assert write_slice(job(system, topic), 0, iter([block(range(5))])) == 0
    assert sees(log, topic, range(5))


def test_a_commit_that_did_not_happen_is_an_error_and_the_next_try_writes(system, log, topic, monkeypatch):
    def never_sent(self):
        self.is_open = False
        raise OutcomeUnknown("the commit was sent and its answer did not come")

    monkeypatch.setattr(Transactions, "commit", never_sent)
    with pytest.raises(OutcomeUnknown):
        write_slice(job(system, topic), 0, iter([block(range(5))]))
    monkeypatch.undo()
    assert write_slice(job(system, topic), 0, iter([block(range(5))])) == 5
    assert sees(log, topic, range(5))


def test_a_transaction_that_runs_out_of_time_writes_nothing_and_says_why(system, log, topic):
    hasty = job(system, topic, options={"transaction.timeout.ms": "1000"})

    def slow():
        yield block([1])
        yield block([2])
        assert wait_until(lambda: _is_aborted(log, topic), timedelta(seconds=40))

    with pytest.raises(TransactionAborted, match="longer than the 1 s of its transaction") as caught:
        write_slice(hasty, 0, slow())
    assert "transaction.timeout.ms" in caught.value.hint
    assert write_slice(job(system, topic), 0, iter([block([1]), block([2])])) == 2
    assert sees(log, topic, [1, 2])


def _is_aborted(log, topic):
    """An open transaction holds its group's offsets back; an aborted one does not."""
    with suppress(KafkaException):
        group_client(log._connection, f"test.p.to.{topic.name}").committed([TopicPartition(SLICES, 1)], 0.5)
        return True
    return False


def test_a_record_too_large_for_the_topic_fails_its_slice_whole(system, log, topic):
    large = block([1, 2])
    values = [large.column("value")[0].as_py(), b"x" * 1_100_000]
    large = large.set_column(1, "value", pa.array(values, pa.binary()))
    with pytest.raises(RecordTooLarge, match="1,100,000 bytes"):
        write_slice(job(system, topic), 0, iter([large]))
    assert seen(log, topic).total() == 0


def test_more_records_than_the_client_may_hold_stay_in_order(system, log, topic, monkeypatch):
    monkeypatch.setattr(producer, "_WAITING", 1000)
    monkeypatch.setattr(producer, "_BYTES", 500_000)
    monkeypatch.setattr(producer, "_AT_ONCE", 700)
    blocks = [block(range(at, at + 9000), key=b"one") for at in range(0, 45_000, 9000)]
    assert write_slice(job(system, topic), 0, iter(blocks)) == 45_000
    assert sees(log, topic, range(45_000))
    told = [int(record.data[5:-1]) for record in log.read(topic.name)]
    assert told == list(range(45_000))


def test_a_worker_keeps_only_so_many_producers(system, topic, monkeypatch):
    monkeypatch.setattr(transactions, "_KEPT", 2)
    for slice_ in range(3):
        write_slice(job(system, topic), slice_, iter([block([slice_])]))
    assert [one.rpartition("/")[2] for _, one in transactions._WRITERS] == ["2", "3"]


def test_rows_of_two_slices_in_one_task_are_refused(system, log, topic):
    mixed = block([1, 2]).append_column("slice", pa.array([0, 1]))
    with pytest.raises(SlicesChanged, match="several slices"):
        write_slice(job(system, topic), 0, iter([mixed]))
    assert seen(log, topic).total() == 0


def test_shuffled_rows_say_themselves_which_slice_they_are(system, log, topic):
    write_slice(job(system, topic), 0, iter([block([1]).append_column("slice", pa.array([2]))]))
    assert {one.partition for one in markers(log, topic).read_settled(PLACES)} == {3}


def test_opening_a_writer_does_not_sit_out_the_clients_half_second(system, topic):
    from time import monotonic  # noqa: PLC0415

    began = monotonic()
    for _ in range(10):
        SliceWriter(job(system, topic).settings, job(system, topic).group, Place(SLICES, 1))
    assert (monotonic() - began) / 10 < 0.3  # 0.02 here; 0.2 and more with the client's own waits
