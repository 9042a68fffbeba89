"""Dead letters at rest: counted, and sent back once, whatever was buried twice or crashed in between."""

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from headwater import Log, Settings, Topic, embedded
from headwater.clock import wait_until
from headwater.errors import UnknownTopic, WriterFenced
from headwater.log.connection import Connection
from headwater.log.dead import DeadLetters, resending, topics_with_letters
from headwater.log.letter import RESENT_FROM, Letter, dead_topic, prepare
from headwater.log.letter_box import Resent
from headwater.log.member import Partition
from headwater.log.positions import Positions
from headwater.log.transfer import Transfer

pytestmark = pytest.mark.system
MOMENT = datetime(2026, 11, 16, 10, tzinfo=UTC)
HEADERS = [("trace", b"1"), ("trace", b"2"), ("empty", None), ("dead.topic", b"the sender's own")]


@pytest.fixture
def topic(log: Log, name: str) -> str:
    log.topics.create(Topic(name, schema="n int", partitions=2))
    prepare(log.topics, name)
    return name


@pytest.fixture
def transfer(system: Settings, name: str) -> Iterator[Transfer]:
    with Transfer(Connection(system), name, group=name) as made:
        yield made


def letter(topic: str, offset: int, **changed: object) -> Letter:
    usual = {
        "topic": topic,
        "partition": offset % 2,
        "offset": offset,
        "timestamp": MOMENT,
        "key": None,
        "value": f"{offset}".encode(),
        "reason": "it is not json",
        "pipeline": "bank.one",
    }
    return Letter(**(usual | changed))  # type: ignore[arg-type]


def bury(log: Log, transfer: Transfer, *letters: Letter, partition: int = -1) -> None:
    """Write letters, and wait until readers see them: that is a moment after the commit."""
    with transfer.transaction({}):
        for one in letters:
            transfer.append(
                dead_topic(one.topic),
                key=one.key,
                value=one.value,
                headers=one.written_headers(),
                partition=partition,
            )
    wait_for_readers(log, dead_topic(letters[0].topic))


def wait_for_readers(log: Log, topic: str) -> None:
    end = partial(Positions(log._connection).end, topic, range(2))
    assert wait_until(lambda: end(committed=True) == end(), timedelta(seconds=20))


def values(log: Log, topic: str) -> list[bytes]:
    wait_for_readers(log, topic)
    return sorted(record.data or b"" for record in log.read(topic))


def test_a_letter_keeps_every_byte_of_its_record(log: Log, topic: str, transfer: Transfer) -> None:
    buried = letter(topic, 7, key=b"\xff", value=b"\0\xfe", headers=HEADERS, reason="é" * 2000)
    bury(log, transfer, buried)
    (record,) = log.read(dead_topic(topic))
    read = Letter.read(record)
    assert read is not None
    assert (read.key, read.value, read.headers) == (b"\xff", b"\0\xfe", HEADERS)
    assert (read.identity, read.pipeline) == ((topic, 1, 7, MOMENT), "bank.one")
    assert read.reason == "é" * 1000
    assert abs(read.dead_at - buried.dead_at) < timedelta(milliseconds=1)


def test_letters_have_a_topic_like_their_own_and_are_kept_for_ever(log: Log, topic: str) -> None:
    made = log.topics.describe(dead_topic(topic))
    assert (made.partitions, made.config["retention.ms"]) == (2, "-1")
    log.topics.alter(topic, config={"max.message.bytes": "5000000"})
    assert prepare(log.topics, topic) == 5_010_000
    assert log.topics.describe(dead_topic(topic)).config["max.message.bytes"] == "5010000"


def test_letters_are_counted_with_their_reasons(
    log: Log, system: Settings, topic: str, transfer: Transfer
) -> None:
    bury(log, transfer, *(letter(topic, one) for one in range(5)), letter(topic, 6, reason="its key is null"))
    with log.writer() as writer:
        writer.append_bytes(dead_topic(topic), b"no letter at all")
    state = DeadLetters(topic, system).state()
    assert (state.letters, state.resent) == (6, 0)
    assert state.reasons == (("it is not json", 5), ("its key is null", 1))
    assert state.newest is not None
    assert topic in topics_with_letters(system)


def test_a_letter_of_another_topic_is_not_sent_back_here(
    log: Log, system: Settings, topic: str, transfer: Transfer
) -> None:
    strange = letter("another", 2)
    with transfer.transaction({}):
        headers = strange.written_headers()
        transfer.append(dead_topic(topic), key=None, value=strange.value, headers=headers, partition=0)
    bury(log, transfer, letter(topic, 1))
    assert DeadLetters(topic, system).state().letters == 1
    assert DeadLetters(topic, system).resend() == Resent(sent=1, doubles=0)
    assert values(log, topic) == [b"1"]


def test_resending_sends_each_record_back_once(
    log: Log, system: Settings, topic: str, transfer: Transfer
) -> None:
    bury(
        log,
        transfer,
        letter(topic, 1, headers=HEADERS),
        letter(topic, 2, key=b"k"),
        letter(topic, 3, value=None),
    )
    seen: list[tuple[int, int]] = []
    assert DeadLetters(topic, system).resend(lambda *told: seen.append(told)) == Resent(sent=3, doubles=0)
    assert seen[-1][0] == 3
    assert DeadLetters(topic, system).resend() == Resent(sent=0, doubles=0)
    wait_for_readers(log, topic)
    found = {record.data: record for record in log.read(topic)}
    assert set(found) == {b"1", b"2", None}
    assert (found[b"1"].partition, found[b"1"].headers[:-1]) == (1, HEADERS)
    name, place = found[b"1"].headers[-1]
    assert (name, (place or b"").startswith(dead_topic(topic).encode())) == (RESENT_FROM, True)
    assert found[b"2"].key == b"k"
    assert DeadLetters(topic, system).state().resent == 3


def test_a_record_that_was_buried_twice_goes_back_once(
    log: Log, system: Settings, topic: str, transfer: Transfer
) -> None:
    bury(log, transfer, letter(topic, 1), letter(topic, 1, pipeline="bank.two"), partition=1)
    assert DeadLetters(topic, system).resend() == Resent(sent=1, doubles=1)
    bury(
        log, transfer, letter(topic, 1, pipeline="bank.three"), partition=0
    )  # read before those in partition 1
    assert DeadLetters(topic, system).resend() == Resent(sent=0, doubles=1)
    assert values(log, topic) == [b"1"]


def test_a_record_of_a_topic_that_was_made_anew_is_another(
    log: Log, system: Settings, topic: str, transfer: Transfer
) -> None:
    bury(log, transfer, letter(topic, 1))
    DeadLetters(topic, system).resend()
    bury(log, transfer, letter(topic, 1, timestamp=MOMENT + timedelta(days=1), value=b"new"))
    assert DeadLetters(topic, system).resend() == Resent(sent=1, doubles=0)
    assert values(log, topic) == [b"1", b"new"]


def test_a_record_that_dies_again_has_a_new_letter_and_goes_back_again(
    log: Log, system: Settings, topic: str, transfer: Transfer
) -> None:
    bury(log, transfer, letter(topic, 1, headers=[("h", b"1")]))
    DeadLetters(topic, system).resend()
    wait_for_readers(log, topic)
    (back,) = log.read(topic)
    bury(log, transfer, letter(topic, 9, headers=back.headers))
    assert DeadLetters(topic, system).resend().sent == 1
    wait_for_readers(log, topic)
    assert [len(record.headers) for record in log.read(topic)] == [2, 2]


def test_what_a_queue_gave_up_can_be_resent(log: Log, system: Settings, name: str) -> None:
    log.topics.create(Topic(name, schema="n int", partitions=2))
    with log.writer() as writer:
        writer.append_bytes(name, b"5", headers={"h": b"1"})
    given_up = 0
    with log.queue(name, name) as queue:
        while not given_up:
            for task in queue.take(0.5):
                task.reject("no")
                given_up += 1
    (found,) = DeadLetters(name, system).read()
    assert (found.letter.queue, found.letter.tries, found.letter.reason) == (name, 1, "no")
    assert DeadLetters(name, system).resend().sent == 1
    wait_for_readers(log, name)
    again = max(log.read(name), key=lambda record: len(record.headers))
    assert (again.data, again.headers[0], len(again.headers)) == (b"5", ("h", b"1"), 2)


CHILD = """
import os, signal, sys
from headwater import Settings
from headwater.log import dead, letter_box
from headwater.log.transaction import Transactions
letter_box.AT_ONCE = 3
point, number, commit = sys.argv[3], iter(range(99)), Transactions.commit
def die(self):
    last = next(number) == 1
    if last and point == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    commit(self)
    if last:
        os.kill(os.getpid(), signal.SIGKILL)
Transactions.commit = die
dead.DeadLetters(sys.argv[2], Settings(kafka=sys.argv[1])).resend()
"""


@pytest.mark.parametrize(("point", "left"), [("before", 7), ("after", 4)])
def test_a_resend_that_is_killed_is_finished_by_the_next(
    log: Log, system: Settings, topic: str, transfer: Transfer, point: str, left: int
) -> None:
    bury(log, transfer, *(letter(topic, one) for one in range(10)))
    address = embedded.kafka_address(system) or ""
    child = subprocess.run([sys.executable, "-c", CHILD, address, topic, point], check=False, timeout=60)
    assert child.returncode == -signal.SIGKILL
    assert DeadLetters(topic, system).resend().sent == left
    assert Counter(values(log, topic)) == Counter(f"{one}".encode() for one in range(10))


def test_of_two_resends_at_once_the_older_is_fenced(
    log: Log, system: Settings, topic: str, transfer: Transfer
) -> None:
    bury(log, transfer, letter(topic, 1))
    name = resending(topic)
    with Transfer(Connection(system), name, group=name) as older:
        with pytest.raises(WriterFenced):
            with older.transaction({Partition(dead_topic(topic), 1): 1}):
                older.append(topic, key=None, value=b"never seen", headers=[])
                assert DeadLetters(topic, system).resend().sent == 1
    assert values(log, topic) == [b"1"]


def test_a_topic_without_letters_says_so(log: Log, system: Settings, topic: str, transfer: Transfer) -> None:
    with pytest.raises(UnknownTopic, match="topic 'nowhere' has no dead letters"):
        DeadLetters("nowhere", system)
    bury(log, transfer, letter(topic, 1))
    log.topics.delete(topic)
    with pytest.raises(UnknownTopic, match="there is no topic"):
        DeadLetters(topic, system).resend()
    assert DeadLetters(topic, system).state().letters == 1
