"""The queue: each task to one consumer at a time, until it is done, rejected or out of tries."""

import contextlib
import os
import signal
import subprocess
import sys
from collections import Counter
from datetime import timedelta

import pytest

from headwater import Topic, embedded
from headwater.clock import Deadline
from headwater.errors import BadQueue, UnknownTopic
from headwater.log.writer import Writer

SOON = timedelta(seconds=2)


@pytest.fixture
def mails(log, name):
    topic = Topic(name, schema="n int", partitions=2)
    log.topics.create(topic)
    with log.writer() as writer:
        for number in range(20):
            writer.append(topic, {"n": number})
    return topic


def work(queue, handle, until, within=60):
    """Hand tasks to `handle` until `until()` holds."""
    deadline = Deadline(timedelta(seconds=within))
    while not until() and not deadline.passed:
        for task in queue.take(0.5):
            handle(task)
    assert until()


def dead(log, topic):
    return [(record.value, dict(record.headers)) for record in log.read(f"{topic.name}.dead")]


def test_competing_consumers_share_the_tasks(log, mails, name):
    done = Counter()

    def handle(task):
        done[task.value.n] += 1
        task.acknowledge()

    with log.queue(mails, name) as one, log.queue(mails, name) as two:
        deadline = Deadline(timedelta(seconds=30))
        while len(done) < 20 and not deadline.passed:
            for queue in (one, two):
                for task in queue.take(0.2):
                    handle(task)
    assert done == dict.fromkeys(range(20), 1)


def test_a_released_task_comes_again_with_its_count_and_dies_after_the_last_try(log, mails, name):
    seen = Counter()

    def handle(task):
        seen[task.value.n] += 1
        assert task.tries == seen[task.value.n]
        if task.value.n == 7:
            task.release("the mail server is down")
        else:
            task.acknowledge()

    with log.queue(mails, name, tries=3) as queue:
        work(queue, handle, until=lambda: len(seen) == 20 and seen[7] == 3)
    ((value, headers),) = dead(log, mails)
    assert value == b'{"n":7}'
    assert headers["headwater.reason"] == b"the mail server is down"
    assert (headers["headwater.topic"], headers["headwater.tries"]) == (mails.name.encode(), b"3")
    assert set(headers) >= {"headwater.partition", "headwater.offset"}


def test_a_rejected_task_dies_at_once(log, mails, name):
    seen = Counter()

    def handle(task):
        seen[task.value.n] += 1
        task.reject("no such address") if task.value.n == 3 else task.acknowledge()

    with log.queue(mails, name) as queue:
        work(queue, handle, until=lambda: len(seen) == 20)
    assert seen[3] == 1
    assert [value for value, _ in dead(log, mails)] == [b'{"n":3}']


def test_a_task_left_unsettled_is_released(log, mails, name):
    seen = Counter()

    def handle(task):
        seen[task.value.n] += 1
        if task.value.n != 5 or seen[5] == 2:
            task.acknowledge()

    with log.queue(mails, name) as queue:
        work(queue, handle, until=lambda: len(seen) == 20 and seen[5] == 2)
    assert dead(log, mails) == []


def test_a_slow_consumer_of_a_large_batch_loses_no_task_to_the_dead_letters(log, name):
    topic = Topic(name, schema="n int")
    log.topics.create(topic)
    with log.writer() as writer:
        for number in range(60):  # one batch of the broker's, longer than the lock
            writer.append(topic, {"n": number})
    done = Counter()
    with log.queue(topic, name, tries=2, lock=SOON) as queue:

        def handle(task):
            pause = Deadline(timedelta(milliseconds=60))
            while not pause.passed:
                pass
            done[task.value.n] += 1
            task.acknowledge()

        work(queue, handle, until=lambda: len(done) == 60)
    assert dead(log, topic) == []
    assert done.total() <= 64  # a task or two may be done twice, when its lock ran out under it


CONSUMER = """
import sys
from datetime import timedelta
from headwater import Log, Settings
log = Log.open(Settings(kafka=sys.argv[1]))
with log.queue(sys.argv[2], sys.argv[3], lock=timedelta(seconds=2)) as queue:
    for task in queue:
        print(task.data.decode(), flush=True)
        sys.stdin.read()
"""


def test_a_consumer_killed_while_it_holds_tasks_loses_them_to_another(log, system, mails, name):
    address = embedded.kafka_address(system)
    command = [sys.executable, "-c", CONSUMER, address, mails.name, name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True) as child:
        held = child.stdout.readline()
        os.kill(child.pid, signal.SIGKILL)
    tries = {}

    def handle(task):
        tries[task.value.n] = task.tries
        task.acknowledge()

    with log.queue(mails, name, lock=SOON) as queue:
        work(queue, handle, until=lambda: len(tries) == 20)
    assert held
    assert max(tries.values()) == 2  # what the dead one held came again
    assert dead(log, mails) == []


def test_a_queue_that_the_broker_would_not_keep_is_refused(log, mails, name):
    with pytest.raises(BadQueue, match="tries are from 1 to 8, not 9"):
        log.queue(mails, name, tries=9)
    with pytest.raises(BadQueue, match="does not allow this queue") as caught:
        log.queue(mails, name, lock=timedelta(days=1))
    assert "lock.duration" in caught.value.detail
    with pytest.raises(UnknownTopic):
        log.queue("nowhere", name)


def test_a_loop_that_is_left_goes_on_where_it_was(log, mails, name):
    done = set()
    with log.queue(mails, name) as queue:
        deadline = Deadline(timedelta(seconds=30))
        while len(done) < 20 and not deadline.passed:
            for task in queue.take(0.5):
                done.add(task.value.n)
                task.acknowledge()
                break
    assert done == set(range(20))


def test_a_handler_that_fails_leaves_the_queue_usable_and_its_task_for_another_try(log, mails, name):
    tries = Counter()

    def handle(task):
        tries[task.value.n] += 1
        if task.value.n == 4 and tries[4] == 1:
            raise ConnectionError
        task.acknowledge()

    with log.queue(mails, name) as queue:
        deadline = Deadline(timedelta(seconds=30))
        while len(tries) < 20 or tries[4] < 2:
            assert not deadline.passed
            with contextlib.suppress(ConnectionError):
                for task in queue.take(0.5):
                    handle(task)
    assert tries[4] == 2
    assert dead(log, mails) == []


def test_a_task_is_settled_once(log, mails, name):
    with log.queue(mails, name) as queue:
        deadline = Deadline(timedelta(seconds=30))
        while not deadline.passed:
            for task in queue.take(0.5):
                task.acknowledge()
                for again in (task.acknowledge, task.release, task.reject):
                    with pytest.raises(BadQueue, match="settled already"):
                        again()
                deadline = Deadline(timedelta(0))
    assert dead(log, mails) == []


def test_a_task_as_large_as_its_topic_takes_can_be_buried(log, name):
    topic = Topic(name, schema="text string")
    log.topics.create(topic)
    log.topics.alter(name, config={"max.message.bytes": "3000000"})
    with Writer(log._connection, log._settings, largest=3_000_000) as writer:
        writer.append(topic, {"text": "x" * 2_900_000})
    buried = []
    with log.queue(topic, name) as queue:
        work(queue, lambda task: buried.append(task.reject("y" * 5000)), until=lambda: buried)
    with log.queue(topic, name):  # the dead letters exist by now
        log.topics.alter(f"{name}.dead", partitions=2)
    with log.queue(topic, name):
        ((value, headers),) = dead(log, topic)
    assert (len(value) > 2_900_000, len(headers["headwater.reason"])) == (True, 1000)
    assert headers["headwater.queue"] == name.encode()
