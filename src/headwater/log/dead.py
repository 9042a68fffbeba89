"""Dead letters at rest: which topics have some, what stands in them, and sending them back.

A letter that was resent stays where it is. The group `headwater.resend.<topic>` stands behind the last
one, and each move of it is one transaction with the records that went back, so that resending twice, or
a crash in between, doubles nothing. A record that was buried twice (by two pipelines, say) is sent
back once.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import NamedTuple

from headwater.errors import UnknownTopic
from headwater.log.channel import BY_KEY
from headwater.log.connection import Connection
from headwater.log.letter import SUFFIX, Letter, dead_topic, resent_headers
from headwater.log.log import Log
from headwater.log.member import Partition
from headwater.log.positions import Positions, Start
from headwater.log.reader import Reader
from headwater.log.record import Record, as_bytes
from headwater.log.topics import Topics
from headwater.log.transfer import Transfer
from headwater.log.writer import LARGEST
from headwater.settings import Settings

AT_ONCE = 10_000
"""Letters that go back in one transaction."""

_TOP = 3
OnProgress = Callable[[int, int], None]
"""Told how many letters are looked at, and how many offsets there are to look at."""


class Found(NamedTuple):
    """A letter where it stands, and whether it was resent."""

    record: Record
    letter: Letter
    is_resent: bool


@dataclass(frozen=True, kw_only=True)
class DeadState:
    """The dead letters of one topic, counted; the reasons that stand there most often first."""

    topic: str
    letters: int
    resent: int
    newest: datetime | None
    reasons: tuple[tuple[str, int], ...]


@dataclass(frozen=True, kw_only=True)
class Resent:
    """What a resend did: records that went back, and letters whose record had gone back already."""

    sent: int
    doubles: int


class DeadLetters:
    """The dead letters of one topic; UnknownTopic if it has no place for any."""

    def __init__(self, topic: str, settings: Settings | None = None) -> None:
        settings = settings or Settings.load()
        self.topic = topic
        self._dead = dead_topic(topic)
        self._log, self._connection = Log(settings), Connection(settings)
        if self._dead not in self._log.topics.names():
            raise UnknownTopic(
                f"topic {topic!r} has no dead letters", hint="`headwater dead list` shows which topics have"
            )

    def read(self, start: Start | None = None) -> Iterator[Found]:
        """The letters from a place on (the beginning), up to the present end."""
        done = self._log.groups.committed(resending(self.topic))
        with self._log.read(self._dead, start=start) as reader:
            for record, letter in _letters(reader, self.topic):
                yield Found(record, letter, record.offset < done.get(_where(record), 0))

    def state(self) -> DeadState:
        """The letters counted; reads them all."""
        reasons: Counter[str] = Counter()
        resent, newest = 0, None
        for _, letter, is_resent in self.read():
            reasons[letter.reason] += 1
            resent += is_resent
            newest = letter.dead_at if newest is None else max(newest, letter.dead_at)
        top = tuple(reasons.most_common(_TOP))
        return DeadState(topic=self.topic, letters=reasons.total(), resent=resent, newest=newest, reasons=top)

    def resend(self, progress: OnProgress = lambda *_: None) -> Resent:
        """Send every letter that has not gone back yet to its topic; a second call sends nothing."""
        state = Topics(self._connection).describe(self.topic)  # UnknownTopic when it is gone
        largest = max(LARGEST, int(state.config["max.message.bytes"]))
        name = resending(self.topic)
        with Transfer(self._connection, name, group=name, largest=largest) as transfer:
            return self._resend(transfer, state.partitions, progress)

    def _resend(self, transfer: Transfer, partitions: int, progress: OnProgress) -> Resent:
        places = self._places(transfer)
        gone = {letter.identity for _, letter, is_resent in self.read() if is_resent}
        sent = doubles = 0
        with Reader(self._connection, self._dead, as_bytes, starts=places, follow=False) as reader:
            total = sum(reader.ends[one] - at for one, at in places.items())
            letters = _letters(reader, self.topic)
            while some := list(islice(letters, AT_ONCE)):
                fresh = {one.identity: (record, one) for record, one in some if one.identity not in gone}
                with transfer.transaction(_behind(record for record, _ in some)):
                    for record, letter in fresh.values():
                        _send_back(transfer, letter, record, partitions)
                gone |= fresh.keys()
                sent, doubles = sent + len(fresh), doubles + len(some) - len(fresh)
                progress(sent + doubles, total)
        return Resent(sent=sent, doubles=doubles)

    def _places(self, transfer: Transfer) -> dict[int, int]:
        """Where resending goes on in each partition, or what retention has left behind that."""
        count = self._log.topics.partitions(self._dead)
        first = Positions(self._connection).first(self._dead, range(count))
        done = transfer.committed(Partition(self._dead, one) for one in first)
        return {one: max(at, done.get(Partition(self._dead, one), 0)) for one, at in first.items()}


def topics_with_letters(settings: Settings | None = None) -> list[str]:
    """The topics that have a place for dead letters."""
    names = Log.open(settings).topics.names()
    return [name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX) and name != SUFFIX]


def resending(topic: str) -> str:
    """The group, and the transactional id, of a topic's resends."""
    return f"headwater.resend.{topic}"


def _letters(reader: Reader, topic: str) -> Iterator[tuple[Record, Letter]]:
    """The letters of a topic; what others have put between them is passed over."""
    for record in reader:
        letter = Letter.read(record)
        if letter is not None and letter.topic == topic:
            yield record, letter


def _send_back(transfer: Transfer, letter: Letter, record: Record, partitions: int) -> None:
    is_there = letter.key is None and letter.partition < partitions
    transfer.append(
        letter.topic,
        key=letter.key,
        value=letter.value,
        headers=resent_headers(letter, record),
        partition=letter.partition if is_there else BY_KEY,
    )


def _behind(records: Iterable[Record]) -> dict[Partition, int]:
    return {_where(one): one.offset + 1 for one in records}  # the last of each partition counts


def _where(record: Record) -> Partition:
    return Partition(record.topic, record.partition)
