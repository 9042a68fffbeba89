"""Transactions of one producer: begun, committed or rolled back, and what a failure means.

A commit that fails is settled into one of three ends: rolled back (nothing is visible), fenced
(another writer owns the id), or unknown (it was sent and its answer did not come). After the last
two the writer is of no use any more; a new one with the same id settles what was left.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from threading import Thread
from typing import Any, NoReturn

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from headwater.clock import Deadline
from headwater.errors import OutcomeUnknown, TransactionAborted, WriterFenced
from headwater.log.connection import Connection, raise_for, translated
from headwater.log.member import STALE, Member, partitions_lost

_FENCED = (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH)  # noqa: SLF001
SEND_WITHIN = timedelta(seconds=15)
"""How long a group's broker has to take offsets; the client's own limit is not always kept."""

_ANEW = "open a new writer with the same transactional id: that settles it; then read what is there"


class Transactions:
    """The transactional side of a producer; making it fences older ones of the same id."""

    def __init__(self, producer: Any, identifier: str, connection: Connection, within: timedelta) -> None:
        self._producer = producer
        self._identifier = identifier
        self._connection = connection
        self._within = within
        self._unsettled = ""
        self.is_open = False
        with translated(connection):
            producer.init_transactions(within.total_seconds())

    def begin(self) -> None:
        """Open a transaction."""
        if self._unsettled:
            raise OutcomeUnknown(
                "this writer's last transaction was never settled", detail=self._unsettled, hint=_ANEW
            )
        with self.translated():
            self._producer.begin_transaction()
        self.is_open = True

    def add_positions(self, member: Member) -> None:
        """Let the positions of a group's member become part of the transaction."""
        try:
            self._send_offsets(member.next_offsets(), member.metadata())
        except KafkaException as error:
            if error.args[0].code() in STALE:
                raise partitions_lost(member.group, error.args[0].str()) from error
            self.give_up(error)

    def add_offsets(self, offsets: list[TopicPartition], group: Any) -> None:
        """Let offsets of a group (its metadata, as a consumer has them) become part of the transaction."""
        with self.translated():
            self._send_offsets(offsets, group)

    def _send_offsets(self, offsets: list[TopicPartition], group: Any) -> None:
        """Send them, under a deadline of our own: a client whose broker died here may wait for ever.

        It is then left behind with its thread, and the transaction to whoever opens the next writer.
        """
        failed: list[KafkaException] = []
        sending = Thread(target=self._ask_to_send, args=(offsets, group, failed), daemon=True)
        sending.start()
        sending.join(SEND_WITHIN.total_seconds())
        if sending.is_alive():
            self.is_open = False
            self._unsettled = "the group's broker did not answer"
            raise self._connection.unreachable(self._unsettled)
        if failed:
            raise failed[0]

    def _ask_to_send(self, offsets: list[TopicPartition], group: Any, failed: list[KafkaException]) -> None:
        try:
            self._producer.send_offsets_to_transaction(offsets, group, self._within.total_seconds())
        except KafkaException as error:
            failed.append(error)

    def commit(self) -> None:
        """Make it visible, or raise what became of it."""
        with self.translated():  # a writer that was fenced meanwhile is told so here
            waiting = self._producer.flush(self._within.total_seconds())
        if waiting:  # the commit itself was not sent yet
            self._roll_back("records were not acknowledged in time")
        deadline = Deadline(self._within)
        while self.is_open:
            try:
                self._producer.commit_transaction(max(1.0, deadline.left))
                self.is_open = False
            except KafkaException as error:
                self._settle(error, deadline)

    def abort(self) -> None:
        """Roll it back; when the broker is away it does so itself after the transaction's time."""
        self.is_open = False
        try:
            self._producer.abort_transaction(self._within.total_seconds())
        except KafkaException as error:
            self._unsettled = error.args[0].str()
            if _is_final(error.args[0]):
                self.give_up(error)

    def _roll_back(self, why: str) -> NoReturn:
        self.abort()
        raise TransactionAborted(
            "the transaction was rolled back: nothing of it is visible",
            detail=why,
            hint="begin it again: none of its records was written",
        )

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Errors in the block become ours, a fenced producer's first of all."""
        try:
            yield
        except KafkaException as error:
            self.give_up(error)

    def give_up(self, error: KafkaException) -> NoReturn:
        """Raise what a producer's error means; the transaction is over only when the producer is."""
        reason: KafkaError = error.args[0]
        if _is_final(reason):
            self.is_open = False
            self._unsettled = reason.str()
        if reason.code() in _FENCED or "fenced" in reason.str().lower():
            raise WriterFenced(
                f"another writer took over the transactional id {self._identifier!r}",
                detail=reason.str(),
                hint="one id belongs to one writer at a time; what this one had not committed is rolled back",
            ) from error
        raise_for(reason, self._connection, cause=error)

    def _settle(self, error: KafkaException, deadline: Deadline) -> None:
        """Decide what a failed commit means; returns only when it can be tried again."""
        reason: KafkaError = error.args[0]
        if _is_final(reason):
            self.give_up(error)
        if reason.txn_requires_abort():
            self._roll_back(reason.str())
        if deadline.passed or not reason.retriable():
            self.is_open = False
            self._unsettled = reason.str()
            raise OutcomeUnknown(
                "the commit was sent and its answer did not come", detail=reason.str(), hint=_ANEW
            ) from error


def _is_final(reason: KafkaError) -> bool:
    return bool(reason.fatal()) or reason.code() in _FENCED
