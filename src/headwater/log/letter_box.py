"""Letter box: a topic of letters at rest; reading them, and sending their records on.

A letter that was resent stays where it is. A group stands behind the last one, and each move of it is one
transaction with the records that went out, so that resending twice, or a crash in between, doubles nothing.
A record that has several letters (from two pipelines, say) is sent once.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Generic, NamedTuple, TypeVar

from headwater.log.channel import BY_KEY
from headwater.log.connection import Connection
from headwater.log.letter import Letter, resent_headers
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
"""Letters that go out in one transaction."""

OnProgress = Callable[[int, int], None]
"""Told how many letters are looked at, and how many offsets there are to look at."""

L = TypeVar("L", bound=Letter)


class Found(NamedTuple, Generic[L]):
    """A letter where it stands, and whether it was resent."""

    record: Record
    letter: L
    is_resent: bool


@dataclass(frozen=True, kw_only=True)
class Resent:
    """What a resend did: records that went out, and letters whose record had gone out already."""

    sent: int
    doubles: int


class LetterBox(Generic[L]):
    """The letters in one topic: of every record, or of those of one topic (`of`)."""

    def __init__(self, place: str, kind: type[L], settings: Settings, *, of: str | None = None) -> None:
        self.place = place
        self._kind, self._of = kind, of
        self._log, self._connection = Log(settings), Connection(settings)

    @property
    def exists(self) -> bool:
        """Whether there is such a topic."""
        return self.place in self._log.topics.names()

    def read(self, group: str, start: Start | None = None) -> Iterator[Found[L]]:
        """The letters from a place on (the beginning) to the present end, and whether a group resent them."""
        done = self._log.groups.committed(group)
        with self._log.read(self.place, start=start) as reader:
            for record, letter in self._letters(reader):
                yield Found(record, letter, record.offset < done.get(_where(record), 0))

    def resend(self, to: str, group: str, progress: OnProgress = lambda *_: None) -> Resent:
        """Send the record of every letter that a group has not sent yet; a second call sends nothing."""
        state = Topics(self._connection).describe(to)  # UnknownTopic when it is gone
        largest = max(LARGEST, int(state.config["max.message.bytes"]))
        with Transfer(self._connection, group, group=group, largest=largest) as transfer:
            return self._resend(transfer, to, state.partitions, progress)

    def _resend(self, transfer: Transfer, to: str, partitions: int, progress: OnProgress) -> Resent:
        places = self._places(transfer)
        gone = {letter.identity for _, letter, is_resent in self.read(transfer.group) if is_resent}
        sent = doubles = 0
        with Reader(self._connection, self.place, as_bytes, starts=places, follow=False) as reader:
            total = sum(reader.ends[one] - at for one, at in places.items())
            letters = self._letters(reader)
            while some := list(islice(letters, AT_ONCE)):
                fresh = {one.identity: (record, one) for record, one in some if one.identity not in gone}
                with transfer.transaction(_behind(record for record, _ in some)):
                    for record, letter in fresh.values():
                        _send(transfer, to, letter, record, partitions)
                gone |= fresh.keys()
                sent, doubles = sent + len(fresh), doubles + len(some) - len(fresh)
                progress(sent + doubles, total)
        return Resent(sent=sent, doubles=doubles)

    def _places(self, transfer: Transfer) -> dict[int, int]:
        """Where resending goes on in each partition, or what retention has left behind that."""
        count = self._log.topics.partitions(self.place)
        first = Positions(self._connection).first(self.place, range(count))
        done = transfer.committed(Partition(self.place, one) for one in first)
        return {one: max(at, done.get(Partition(self.place, one), 0)) for one, at in first.items()}

    def _letters(self, reader: Reader) -> Iterator[tuple[Record, L]]:
        """The letters; what others have put between them is passed over."""
        for record in reader:
            letter = self._kind.read(record)
            if letter is not None and self._of in {None, letter.topic}:
                yield record, letter


def _send(transfer: Transfer, to: str, letter: Letter, record: Record, partitions: int) -> None:
    is_there = letter.key is None and letter.partition < partitions
    transfer.append(
        to,
        key=letter.key,
        value=letter.value,
        headers=resent_headers(letter, record),
        partition=letter.partition if is_there else BY_KEY,
    )


def _behind(records: Iterable[Record]) -> dict[Partition, int]:
    return {_where(one): one.offset + 1 for one in records}  # the last of each partition counts


def _where(record: Record) -> Partition:
    return Partition(record.topic, record.partition)
