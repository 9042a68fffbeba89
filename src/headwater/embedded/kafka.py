"""Kafka: a real broker and its controller in one process (KRaft), for one machine.

It binds to loopback only, creates no topic on its own and keeps its data in `<home>/kafka/data`.
The heap is small on purpose: the log lives in files, not in the heap.
"""

import base64
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from headwater.embedded.jars import class_path
from headwater.embedded.ports import LOOPBACK
from headwater.embedded.server import EndsOn, Place
from headwater.errors import ServerFailed
from headwater.settings import Settings

_HEAP = ("-Xms96m", "-Xmx320m", "-XX:+UseSerialGC", "-XX:MaxMetaspaceSize=96m", "-Xss512k")
LOG4J = """\
rootLogger.level=WARN
rootLogger.appenderRef.console.ref=console
appender.console.type=Console
appender.console.name=console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d{ISO8601} %p %m (%c{1})%n
logger.kafka.name=kafka.server.KafkaRaftServer
logger.kafka.level=INFO
"""


@dataclass(frozen=True, kw_only=True)
class Kafka:
    """A single-node Kafka; `properties` are laid over our server.properties."""

    properties: Mapping[str, str] = field(default_factory=dict)
    name: str = "kafka"
    bundles: Sequence[str] = ("kafka",)
    usual_port: int = 9092
    other_ports: Sequence[str] = ("controller",)
    ends_on: EndsOn = "SIGTERM"

    def wanted_port(self, settings: Settings) -> int | None:
        """The port that the user insists on."""
        return settings.kafka_port

    def prepare(self, place: Place) -> Sequence[str | Path]:
        """Write its properties, format its storage once, tell its command."""
        config = place.folder / "server.properties"
        lines = {**self._properties(place), **self.properties}
        config.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        (place.folder / "log4j2.properties").write_text(LOG4J)
        if not (place.data / "meta.properties").exists():
            _format(place, config)
        return _java(place, "kafka.Kafka", str(config))

    def answers(self, port: int) -> bool:
        """Whether it serves every partition that it holds: after a crash they come back one by one."""
        client = AdminClient({"bootstrap.servers": f"{LOOPBACK}:{port}", "log_level": 0, **_FRESH})
        try:
            held = client.list_topics(timeout=1)
        except KafkaException:
            return False
        partitions = (one for topic in held.topics.values() for one in topic.partitions.values())
        return bool(held.brokers) and all(one.leader >= 0 for one in partitions)

    def _properties(self, place: Place) -> dict[str, str]:
        broker, controller = place.ports["main"], place.ports["controller"]
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"BROKER://{LOOPBACK}:{broker},CONTROLLER://{LOOPBACK}:{controller}",
            "advertised.listeners": f"BROKER://{LOOPBACK}:{broker}",
            "listener.security.protocol.map": "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "BROKER",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@{LOOPBACK}:{controller}",
            "log.dirs": str(place.data),
            "broker.session.timeout.ms": "4000",  # one killed with -9 is let in again only after this
            "broker.heartbeat.interval.ms": "1000",
            "auto.create.topics.enable": "false",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "8",
            "offsets.retention.minutes": "525600",  # a pipeline may rest for a year and know where it was
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "8",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "share.coordinator.state.topic.num.partitions": "8",
            "group.initial.rebalance.delay.ms": "0",
            # Kafka's defaults (5 s and 45 s) are the times to join a queue and to miss a dead consumer.
            "group.share.heartbeat.interval.ms": "1000",
            "group.share.session.timeout.ms": "6000",
            "group.share.min.session.timeout.ms": "3000",
            "group.share.min.heartbeat.interval.ms": "1000",
            "group.share.min.record.lock.duration.ms": "1000",
        }


_FRESH = {"socket.connection.setup.timeout.ms": 1000, "reconnect.backoff.max.ms": 100}


def _cluster_id() -> str:
    """A random id as Kafka writes them; one that began with "-" would be taken for an option."""
    return "A" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")[1:]


def _format(place: Place, config: Path) -> None:
    command = _java(place, "kafka.tools.StorageTool", "format", "-t", _cluster_id(), "-c", str(config))
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=place.environment)
    if done.returncode:
        raise ServerFailed(
            "kafka could not format its storage",
            detail="\n".join(_words(done.stdout + done.stderr)[-5:]),
            hint=f"is {place.folder} a folder that you can write to?",
        )


def _words(said: str) -> list[str]:
    return [line for line in said.splitlines() if not line.startswith("\tat ")]


def _java(place: Place, *arguments: str) -> Sequence[str | Path]:
    log4j = f"-Dlog4j2.configurationFile={place.folder / 'log4j2.properties'}"
    return [place.java, *_HEAP, log4j, "-cp", class_path(place.bundles["kafka"]), *arguments]
