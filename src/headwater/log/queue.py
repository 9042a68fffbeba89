"""Queue: tasks for competing consumers, over a topic, with Kafka's share groups.

Beside the log, where every group sees every record in order, a queue gives each record to one
consumer at a time, in no order, until it is acknowledged. A consumer that dies, or keeps a task for
longer than the lock, loses it to another; after the last try the task goes to the dead letters.

Kafka itself throws a record away when its delivery limit is reached, and a delivery counts whether
or not the consumer came round to the task. So the limit is set well above our number of tries: a
release after the last try goes to the dead letters at once, and a task that is delivered again and
again with nobody releasing it (its consumers die, or are too slow) goes there just before the
broker would drop it.
"""

from collections import deque
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, Self, get_args

from confluent_kafka import AcknowledgeType, ShareConsumer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from headwater.clock import Deadline
from headwater.errors import BadQueue, BrokerRefused
from headwater.log.connection import ANSWER_WITHIN, Connection, open_only, raise_for, translated
from headwater.log.letter import Letter, dead_topic, prepare
from headwater.log.member import GroupStart
from headwater.log.record import Decode, Record
from headwater.log.topics import Topics
from headwater.log.writer import Writer

BROKER_LIMIT = 10
"""Deliveries after which the broker drops a record: the most that Kafka allows by default."""

LAST_DELIVERY = BROKER_LIMIT - 1
"""The delivery at which a task that nobody ever settled is buried; one more is left for a crash."""

MOST_TRIES = BROKER_LIMIT - 2
_QUIET = {"log_level": 3}  # the client says at every start that share groups are young


class Task(Record):
    """A record that is ours until it is acknowledged, released, rejected, or its lock runs out."""

    _queue: "Queue"
    is_settled: bool = False

    @property
    def tries(self) -> int:
        """How often it has been handed out, this time included."""
        return int(self._message.delivery_count())

    def acknowledge(self) -> None:
        """It is done."""
        self._queue.settle(self, AcknowledgeType.ACCEPT)

    def release(self, reason: str = "released") -> None:
        """Not now: another try, here or elsewhere; after the last one it goes to the dead letters."""
        if self.tries >= self._queue.tries:
            self.reject(reason)
        else:
            self._queue.settle(self, AcknowledgeType.RELEASE)

    def reject(self, reason: str = "rejected") -> None:
        """Never again: it goes to the dead letters with the reason."""
        self._queue.need_unsettled(self)
        self._queue.bury(self, reason)
        self._queue.settle(self, AcknowledgeType.REJECT)


class Queue:
    """An iterator over tasks; close it, or use it in a `with`."""

    def __init__(
        self,
        connection: Connection,
        topic: str,
        name: str,
        decode: Decode,
        writer: Callable[[int], Writer],
        *,
        tries: int,
        lock: timedelta,
        start: GroupStart,
        at_once: int,
    ) -> None:
        if not 1 <= tries <= MOST_TRIES:
            raise BadQueue(
                f"a queue's tries are from 1 to {MOST_TRIES}, not {tries}",
                hint=f"the broker drops a record after {BROKER_LIMIT} deliveries; some are kept for crashes",
            )
        self.tries = tries
        self.dead_topic = dead_topic(topic)
        self._lock = lock
        self._connection, self._topic, self._name = connection, topic, name
        self._decode = decode
        self._pending: deque[Task] = deque()
        self._in_hand: Task | None = None
        self._locked = Deadline(lock)
        self._writer = writer(self._prepare(start))
        self._consumer = self._joined(at_once)

    def __iter__(self) -> Iterator[Task]:
        while True:
            yield from self.take(1.0)

    def take(self, within: float) -> Iterator[Task]:
        """The tasks that are here or arrive within these seconds, perhaps none.

        About `at_once`; the broker hands out whole batches as they were appended. A task that was
        not settled when the next one is asked for is released; one whose lock has run out before its
        turn is another's by then and is passed over.
        """
        self._let_go()
        if not self._pending:
            self._poll(within)
        while self._pending:
            self._in_hand = task = self._pending.popleft()
            if task.tries >= LAST_DELIVERY:
                task.reject(f"delivered {task.tries} times and never settled: consumers die or are too slow")
            elif self._locked.passed:
                self.settle(task, AcknowledgeType.RELEASE)
            else:
                yield task
            self._let_go()

    def _let_go(self) -> None:
        """Release the task in hand if nobody has settled it."""
        task, self._in_hand = self._in_hand, None
        if task is not None and not task.is_settled:
            task.release("left unsettled")

    def need_unsettled(self, task: Task) -> None:
        """A task is settled once."""
        if task.is_settled:
            raise BadQueue(f"{task!r} is settled already", hint="acknowledge, release or reject it once")

    def settle(self, task: Task, answer: AcknowledgeType) -> None:
        """Tell the broker what became of a task; used by the task's own methods."""
        self.need_unsettled(task)
        self._consumer.acknowledge(task._message, answer)  # noqa: SLF001
        self._consumer.commit_async()  # now, not after the batch: a crash or a lock may come before that
        task.is_settled = True

    def bury(self, task: Task, reason: str) -> None:
        """Write a task to the dead letters, durably, with where it came from and why."""
        letter = Letter(
            topic=task.topic,
            partition=task.partition,
            offset=task.offset,
            timestamp=task.appended_at,
            key=task.key,
            value=task.data,
            headers=task.headers,
            reason=reason,
            queue=self._name,
            tries=task.tries,
        )
        headers = {name: value for name, value in letter.written_headers() if value is not None}
        self._writer.append_bytes(self.dead_topic, task.data, key=task.key, headers=headers)
        self._writer.flush()

    def close(self) -> None:
        """Leave the queue; what was settled is told, the rest goes to others at once."""
        try:
            with translated(self._connection, group=self._name):
                self._consumer.commit_sync(ANSWER_WITHIN)
        finally:
            self._consumer.close()
            self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _poll(self, within: float) -> None:
        self._locked = Deadline(self._lock)
        with translated(self._connection, topic=self._topic, group=self._name), open_only("queue"):
            messages = [one for one in self._consumer.poll(within) if self._is_record(one)]
        self._pending.extend(Task(one, self._decode, self) for one in messages)

    def _is_record(self, message: Any) -> bool:
        error = message.error()
        if error is not None and not error.retriable():
            raise_for(error, self._connection, topic=self._topic, group=self._name)
        return error is None

    def _prepare(self, start: GroupStart) -> int:
        """Set the group and the dead letters up; tells how large a dead letter may be."""
        if start not in get_args(GroupStart):
            raise BadQueue(f"a queue starts at the beginning or the end, not at {start!r}")
        largest = prepare(Topics(self._connection), self._topic)
        self._set_group(start)
        return largest

    def _set_group(self, start: GroupStart) -> None:
        wanted = {
            "share.auto.offset.reset": "earliest" if start == "beginning" else "latest",
            "share.isolation.level": "read_committed",
            "share.record.lock.duration.ms": str(self._lock // timedelta(milliseconds=1)),
            "share.delivery.count.limit": str(BROKER_LIMIT),
        }
        entries = [
            ConfigEntry(one, to, incremental_operation=AlterConfigOpType.SET) for one, to in wanted.items()
        ]
        resource = ConfigResource(ResourceType.GROUP, self._name, incremental_configs=entries)
        try:
            with translated(self._connection, group=self._name):
                self._connection.admin.incremental_alter_configs([resource])[resource].result(ANSWER_WITHIN)
        except BrokerRefused as error:
            raise BadQueue(
                f"the broker does not allow this queue {self._name!r}",
                detail=error.message,
                hint="its limits are the broker's group.share.* settings",
            ) from error

    def _joined(self, at_once: int) -> Any:
        with translated(self._connection, group=self._name):
            consumer = ShareConsumer(
                self._connection.config(
                    group_id=self._name,
                    share_acknowledgement_mode="explicit",
                    max_poll_records=at_once,
                )
                | _QUIET
            )
            consumer.subscribe([self._topic])
        return consumer
