"""A broker killed with -9 while a slice commits."""

import os
import signal
from datetime import timedelta
from threading import Thread

import pytest

from headwater import Log, Settings, embedded
from headwater.clock import wait_until
from headwater.embedded.ports import a_free_port
from headwater.errors import HeadwaterError
from headwater.log.transaction import Transactions
from headwater.sink.transactions import write_slice
from tests.sink.slices_of_rows import block, forget, job, markers, numbers, sees


def quiet(*_):
    pass


@pytest.fixture
def a_system_to_break(tmp_path):
    settings = Settings(home=tmp_path, kafka_port=a_free_port())
    embedded.up(settings, [embedded.SERVERS["kafka"]], quiet)
    yield settings
    embedded.down(settings)


def test_a_broker_killed_during_the_commit_leaves_every_row_once(a_system_to_break, name, monkeypatch):
    system, topic = a_system_to_break, numbers(name, partitions=2)
    log = Log.open(system)
    log.topics.create(topic)
    markers(log, topic).make_room(3)
    forget()
    commit, kills = Transactions.commit, []

    def commit_under_fire(self):
        if not kills:
            (broker,) = (one for one in embedded.status(system) if one.name == "kafka")
            os.kill(broker.pid, signal.SIGKILL)
            kills.append(Thread(target=embedded.up, args=(system, [embedded.SERVERS["kafka"]], quiet)))
            kills[0].start()
        commit(self)

    monkeypatch.setattr(Transactions, "commit", commit_under_fire)

    def is_written():
        try:
            write_slice(job(system, topic), 0, iter([block(range(1000))]))
        except HeadwaterError:
            return False
        return True

    assert wait_until(is_written, timedelta(seconds=120))
    kills[0].join()
    forget()
    assert write_slice(job(system, topic), 0, iter([block(range(1000))])) == 0
    assert sees(Log.open(system), topic, range(1000))
