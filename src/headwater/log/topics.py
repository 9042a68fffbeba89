"""Topics as the broker has them: list, create, describe, alter, delete.

`create` is a statement, not an order: a topic that exists as the spec says is left as it is, one
that differs is refused with the difference. `alter` does what Kafka allows and says why not
otherwise.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from confluent_kafka import KafkaError, TopicCollection
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)

from headwater.clock import wait_until
from headwater.errors import BrokerRefused, CannotAlter, TopicExists, UnknownTopic
from headwater.log.connection import ANSWER_WITHIN, Connection, code_of, translated
from headwater.log.topic import Topic, check_name

_SHOWN = (
    "cleanup.policy",
    "retention.ms",
    "retention.bytes",
    "delete.retention.ms",
    "message.timestamp.type",
    "max.message.bytes",
)


@dataclass(frozen=True, kw_only=True)
class TopicState:
    """One topic as the broker has it."""

    name: str
    partitions: int
    replicas: int
    config: Mapping[str, str]


class Topics:
    """The broker's topics."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def names(self) -> list[str]:
        """Every topic that is not Kafka's own."""
        with translated(self._connection):
            found = self._connection.admin.list_topics(timeout=ANSWER_WITHIN).topics
        return sorted(name for name in found if not name.startswith("__"))

    def describe(self, name: str) -> TopicState:
        """A topic's partitions and settings; UnknownTopic if there is none."""
        told = self._described(name).partitions
        return TopicState(
            name=name, partitions=len(told), replicas=len(told[0].replicas), config=self._config(name)
        )

    def partitions(self, name: str) -> int:
        """How many partitions a topic has; UnknownTopic if there is none."""
        return len(self._described(name).partitions)

    def identity(self, name: str) -> str:
        """What tells a topic from a later one of the same name; UnknownTopic if there is none."""
        return str(self._described(name).topic_id)

    def create(self, topic: Topic) -> bool:
        """Make the topic; False when it stands already as the spec says, TopicExists when otherwise."""
        return self.ensure(topic.name, topic.partitions, topic.config)

    def ensure(self, name: str, partitions: int, config: Mapping[str, str]) -> bool:
        """Make a topic that has no schema of ours, such as one for dead letters."""
        new = NewTopic(name, num_partitions=partitions, config=dict(config))
        try:
            with translated(self._connection, topic=name):
                self._ask(self._connection.admin.create_topics([new], operation_timeout=ANSWER_WITHIN))
        except BrokerRefused as error:
            if code_of(error) != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
            self._need_same(name, {"partitions": str(partitions), **config})
            return False
        wait_until(lambda: self._exists(name), timedelta(seconds=ANSWER_WITHIN))
        return True

    def alter(
        self, name: str, *, partitions: int | None = None, config: Mapping[str, str] | None = None
    ) -> TopicState:
        """Grow a topic or change its settings; CannotAlter for what Kafka does not allow."""
        before = self.describe(name)
        if partitions is not None and partitions < before.partitions:
            raise CannotAlter(
                f"topic {name!r} has {before.partitions} partitions and cannot have {partitions}",
                hint="partitions only grow: a smaller topic is a new topic, and a replay into it",
            )
        if config:
            self._alter_config(name, config)
        if partitions is not None and partitions > before.partitions:
            with translated(self._connection, topic=name):
                self._ask(self._connection.admin.create_partitions([NewPartitions(name, partitions)]))
            wait_until(lambda: self.partitions(name) == partitions, timedelta(seconds=ANSWER_WITHIN))
        return self.describe(name)

    def delete(self, name: str) -> None:
        """Remove a topic and all its records."""
        with translated(self._connection, topic=name):
            self._ask(self._connection.admin.delete_topics([name], operation_timeout=ANSWER_WITHIN))
        wait_until(lambda: not self._exists(name), timedelta(seconds=ANSWER_WITHIN))

    def _described(self, name: str) -> Any:
        with translated(self._connection, topic=name):
            return self._ask(self._connection.admin.describe_topics(TopicCollection([check_name(name)])))

    def _alter_config(self, name: str, config: Mapping[str, str]) -> None:
        entries = [
            ConfigEntry(one, value, incremental_operation=AlterConfigOpType.SET)
            for one, value in config.items()
        ]
        resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=entries)
        try:
            with translated(self._connection, topic=name):
                self._ask(self._connection.admin.incremental_alter_configs([resource]))
        except BrokerRefused as error:
            if code_of(error) != KafkaError.INVALID_CONFIG:
                raise
            raise CannotAlter(f"topic {name!r} cannot have these settings", detail=error.message) from error

    def _config(self, name: str) -> dict[str, str]:
        resource = ConfigResource(ConfigResource.Type.TOPIC, name)
        with translated(self._connection, topic=name):
            entries = self._ask(self._connection.admin.describe_configs([resource]))
        return {one: entries[one].value for one in _SHOWN if one in entries}

    def _need_same(self, name: str, wanted: Mapping[str, str]) -> None:
        found = self.describe(name)
        have = {"partitions": str(found.partitions), **found.config}
        differs = [f"{one}: {have[one]}, not {value}" for one, value in wanted.items() if have[one] != value]
        if differs:
            raise TopicExists(
                f"topic {name!r} exists and is another",
                detail="\n".join(differs),
                hint=f"change the spec, or the topic: `headwater topics alter {name} …`",
            )

    def _exists(self, name: str) -> bool:
        try:
            self.partitions(name)
        except UnknownTopic:
            return False
        return True

    def _ask(self, futures: Mapping[Any, Any]) -> Any:
        return next(iter(futures.values())).result(ANSWER_WITHIN)
