"""Transactions: seen whole or not at all, with the positions they read, whoever fails in between."""

import os
import signal
from datetime import timedelta

import pytest

from headwater import Log, Topic, embedded
from headwater.clock import Deadline, wait_until
from headwater.errors import (
    NotAcknowledged,
    NoTransaction,
    OutcomeUnknown,
    PartitionsLost,
    TransactionAborted,
    ValueMismatch,
    WriterFenced,
)
from tests.log.writing import amounts, kill_broker


def eventually(condition):
    """A commit is decided when it returns; the broker's markers show it to readers a moment later."""
    return wait_until(condition, timedelta(seconds=10))


def test_a_committed_transaction_is_seen_whole_and_a_broken_one_not_at_all(log, payments):
    with log.writer(transactional_id=payments.name) as writer:
        with writer.transaction():
            writer.append(payments, {"card": "a", "amount": 1})
            writer.append(payments, {"card": "b", "amount": 2})
        with pytest.raises(ZeroDivisionError), writer.transaction():
            writer.append(payments, {"card": "a", "amount": 3})
            writer.append(payments, {"card": "b", "amount": 4 / 0})
        with writer.transaction():
            writer.append(payments, {"card": "a", "amount": 5})
    assert eventually(lambda: amounts(log, payments) == [1, 2, 5])


def test_a_bad_record_in_a_transaction_leaves_nothing_of_it(log, payments):
    with log.writer(transactional_id=payments.name) as writer:
        with pytest.raises(ValueMismatch), writer.transaction():
            writer.append(payments, {"card": "a", "amount": 1})
            writer.append(payments, {"card": "a", "amount": "much"})
    assert eventually(lambda: amounts(log, payments) == [])


def test_a_record_that_the_broker_refuses_rolls_the_transaction_back(log, payments):
    log.topics.alter(payments.name, config={"max.message.bytes": "1000"})
    with log.writer(transactional_id=payments.name) as writer:
        with pytest.raises((TransactionAborted, NotAcknowledged)), writer.transaction():
            writer.append(payments, {"card": "a", "amount": 1})
            writer.append(payments, {"card": "x" * 5000})
        with writer.transaction():
            writer.append(payments, {"card": "a", "amount": 2})
    assert eventually(lambda: amounts(log, payments) == [2])


def test_a_newer_writer_fences_the_older_and_rolls_back_what_it_left_open(log, payments):
    older = log.writer(transactional_id=payments.name)
    with pytest.raises(WriterFenced, match=payments.name), older.transaction():
        older.append(payments, {"card": "a", "amount": 1})
        newer = log.writer(transactional_id=payments.name)
        with newer.transaction():
            newer.append(payments, {"card": "a", "amount": 2})
    assert eventually(lambda: amounts(log, payments) == [2])


def test_transactions_and_appends_do_not_mix(log, payments):
    with pytest.raises(NoTransaction), log.writer() as writer, writer.transaction():
        pass
    with pytest.raises(NoTransaction), log.writer(transactional_id=payments.name) as writer:
        writer.append(payments, {"card": "a"})


@pytest.mark.parametrize("crash", [True, False])
def test_read_process_write_commits_positions_and_output_together(log, payments, name, crash):
    with log.writer() as writer:
        for number in range(20):
            writer.append(payments, {"card": "a", "amount": number})
    doubled = Topic(f"{name}-doubled", schema="amount double")
    log.topics.create(doubled)
    if crash:
        with pytest.raises(InterruptedError):
            double_once(log, payments, doubled, crash=True)
    double_once(log, payments, doubled, crash=False)
    assert eventually(lambda: amounts(log, doubled) == [2 * number for number in range(20)])
    assert {line.lag for line in log.lag(doubled.name) if line.lag is not None} == {0}


def double_once(log, source, target, *, crash):
    with log.join(target.name, source) as member, log.writer(transactional_id=target.name) as writer:
        taken = []
        while len(taken) < 20:
            taken += [record.value.amount for record in member.take(1.0)]
        with writer.transaction(reads=member):
            for amount in taken:
                writer.append(target, {"amount": 2 * amount})
            if crash:
                raise InterruptedError


def test_a_broker_that_goes_away_in_a_transaction_leaves_nothing_of_it(fragile):
    log, topic = Log.open(fragile), Topic("payments", schema="n int")
    log.topics.create(topic)
    writer = log.writer(transactional_id="t", deliver_within=timedelta(seconds=4))
    with pytest.raises(TransactionAborted), writer.transaction():
        for number in range(100):
            writer.append(topic, {"n": number})
        kill_broker(fragile)
        writer.append(topic, {"n": 100})
    embedded.up(fragile, [embedded.SERVERS["kafka"]], lambda *_: None)
    with log.writer(transactional_id="t") as again, again.transaction():
        again.append(topic, {"n": 1000})
    assert eventually(lambda: [record.value.n for record in log.read(topic)] == [1000])


def test_after_a_rolled_back_transaction_the_same_records_come_again(log, payments, name):
    with log.writer() as writer:
        for number in range(20):
            writer.append(payments, {"card": "a", "amount": number})
    copy = Topic(f"{name}-copy", schema="amount double")
    log.topics.create(copy)

    def copy_some(*, fail):
        with writer.transaction(reads=member):
            taken = [record.value.amount for record in member.take(0.5)]
            for amount in taken:
                writer.append(copy, {"amount": amount})
            if taken and fail:
                raise InterruptedError
        return len(taken)

    with log.join(name, payments) as member, log.writer(transactional_id=name) as writer:
        for _ in range(2):
            with pytest.raises(InterruptedError):
                while True:
                    copy_some(fail=True)
        done, deadline = 0, Deadline(timedelta(seconds=60))
        while done < 20 and not deadline.passed:
            done += copy_some(fail=False)
    assert eventually(lambda: amounts(log, copy) == list(range(20)))


def test_a_member_that_lost_its_partitions_rolls_back_and_the_writer_goes_on(log, payments, name):
    with log.writer() as writer:
        writer.append(payments, {"card": "a", "amount": 1})
    with log.join(name, payments) as member, log.writer(transactional_id=name) as writer:
        assert eventually(lambda: list(member.take(0.2)))
        stale, offsets = member.metadata(), member.next_offsets()
        member.close()
        with log.join(name, payments) as other:
            assert eventually(lambda: other.assignment() or list(other.take(0.2)))
            member.metadata, member.next_offsets, member.rewind = lambda: stale, lambda: offsets, lambda: None
            with pytest.raises(PartitionsLost), writer.transaction(reads=member):
                writer.append(payments, {"card": "a", "amount": 2})
        with writer.transaction():
            writer.append(payments, {"card": "a", "amount": 3})
    assert eventually(lambda: amounts(log, payments) == [1, 3])


def test_a_commit_without_an_answer_is_of_unknown_outcome_and_a_new_writer_settles_it(fragile):
    log, topic = Log.open(fragile), Topic("payments", schema="n int")
    log.topics.create(topic)
    (kafka,) = (one for one in embedded.status(fragile) if one.name == "kafka")
    writer = log.writer(transactional_id="t", deliver_within=timedelta(seconds=5))
    with pytest.raises(OutcomeUnknown), writer.transaction():
        writer.append(topic, {"n": 1})
        writer.flush()
        os.kill(kafka.pid, signal.SIGSTOP)
    with pytest.raises(OutcomeUnknown, match="never settled"), writer.transaction():
        pass
    os.kill(kafka.pid, signal.SIGCONT)
    with log.writer(transactional_id="t") as again, again.transaction():
        again.append(topic, {"n": 2})
    assert eventually(lambda: [record.value.n for record in log.read(topic)] in ([1, 2], [2]))
