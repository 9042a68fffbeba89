"""Kafka Connect with Debezium's connectors: one distributed worker, which writes sources exactly once.

Its own state lives in three topics of the log. Each connector has a folder of its own under
`plugins`, because two versions of Debezium would not go together on one class path. The worker learns of
them by the service files in their jars: to scan every class takes four times as long.
"""

import http.client
import json
import shutil
import socket
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headwater.embedded.addresses import kafka_address
from headwater.embedded.jars import class_path
from headwater.embedded.kafka import LOG4J
from headwater.embedded.ports import LOOPBACK
from headwater.embedded.server import EndsOn, Place
from headwater.errors import ServerUnavailable
from headwater.settings import Settings

_HEAP = ("-Xms32m", "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_PLUGINS = ("connect-postgres", "connect-mariadb")
_READER = "DirectoryConfigProvider"
_CLIENTS = ("", "producer.", "consumer.", "admin.")
PROVIDER, PASSWORDS = "directory", "passwords"
"""Connectors name a file of this folder where a password belongs; only its owner can read it."""


@dataclass(frozen=True, kw_only=True)
class Connect:
    """A Connect worker on one machine; `properties` are laid over ours."""

    properties: Mapping[str, str] = field(default_factory=dict)
    name: str = "connect"
    bundles: Sequence[str] = ("connect", *_PLUGINS)
    usual_port: int = 8083
    other_ports: Sequence[str] = ()
    ends_on: EndsOn = "SIGTERM"

    def wanted_port(self, settings: Settings) -> int | None:
        """The port that the user insists on."""
        return settings.connect_port

    def prepare(self, place: Place) -> Sequence[str | Path]:
        """Lay its plugins out, write its properties (with passwords, perhaps), tell its command."""
        _lay_out(place)
        (place.folder / PASSWORDS).mkdir(mode=0o700, exist_ok=True)
        config = place.folder / "worker.properties"
        config.touch(mode=0o600)
        lines = {**_properties(place), **self.properties}
        config.write_text("".join(f"{name}={_escaped(value)}\n" for name, value in lines.items()))
        log4j = place.folder / "log4j2.properties"
        log4j.write_text(LOG4J)
        options = (*_HEAP, f"-Dlog4j2.configurationFile={log4j}", "-cp", class_path(place.bundles[self.name]))
        return [place.java, *options, "org.apache.kafka.connect.cli.ConnectDistributed", config]

    def answers(self, port: int) -> bool:
        """Whether it lists its connectors, which it can only as a member of its group."""
        try:
            with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/connectors", timeout=2) as answer:
                return isinstance(json.load(answer), list)
        except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError):
            return False


def _lay_out(place: Place) -> None:
    plugins = place.folder / "plugins"
    shutil.rmtree(plugins, ignore_errors=True)
    plugins.mkdir()
    for one in _PLUGINS:
        (plugins / one).symlink_to(place.bundles[one], target_is_directory=True)


def _properties(place: Place) -> dict[str, str]:
    settings, address = place.settings, kafka_address(place.settings)
    if address is None:
        raise ServerUnavailable(
            "connect needs a log, and this home's kafka does not run", hint="headwater up"
        )
    if not any(_is_open(one) for one in address.split(",")):
        raise ServerUnavailable(f"connect cannot reach kafka at {address}", hint="does that broker run?")
    copies = "1" if settings.is_embedded else "-1"
    topics = {f"{one}.storage.topic": f"headwater-connect-{one}s" for one in ("config", "offset")}
    return {
        "bootstrap.servers": address,
        "listeners": f"http://{LOOPBACK}:{place.ports['main']}",
        "rest.advertised.host.name": LOOPBACK,
        "group.id": "headwater-connect",
        **topics,
        "status.storage.topic": "headwater-connect-status",
        **{f"{one}.storage.replication.factor": copies for one in ("config", "offset", "status")},
        "offset.storage.partitions": "4",
        "status.storage.partitions": "1",
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "plugin.path": str(place.folder / "plugins"),
        "plugin.discovery": "service_load",
        "exactly.once.source.support": "enabled",
        "connector.client.config.override.policy": "All",
        "config.providers": PROVIDER,
        f"config.providers.{PROVIDER}.class": f"org.apache.kafka.common.config.provider.{_READER}",
        f"config.providers.{PROVIDER}.param.allowed.paths": str(place.folder.resolve() / PASSWORDS),
        "session.timeout.ms": "6000",  # one killed with -9 is missed after this
        "heartbeat.interval.ms": "1500",
        "offset.flush.interval.ms": "1000",
        "scheduled.rebalance.max.delay.ms": "0",
        **{who + name: value for who in _CLIENTS for name, value in settings.kafka_options.items()},
    }


def _is_open(address: str) -> bool:
    host, _, port = address.strip().rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=3).close()
    except (OSError, ValueError):
        return False
    return True


def _escaped(value: str) -> str:
    """A value as a file of Java's properties has it."""
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
