"""The schema registry: Apicurio, spoken to through the Confluent registry's protocol.

Its schemas live in a file database (H2) that writes through at once: with the default delay an
acknowledged schema would be lost on kill -9.

A new registry is given the mode BACKWARD before it counts as started. Its property for that
(`apicurio.rules.global.compatibility`) is not used: it is obeyed but not told, so that clients that
ask for the mode hear NONE.
"""

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headwater.embedded.jars import unpacked
from headwater.embedded.ports import LOOPBACK
from headwater.embedded.server import EndsOn, Place
from headwater.settings import Settings

PATH = "/apis/ccompat/v7"
_HEAP = ("-Xms32m", "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


@dataclass(frozen=True, kw_only=True)
class Registry:
    """A schema registry on one machine."""

    name: str = "registry"
    bundles: Sequence[str] = ("registry",)
    usual_port: int = 8081
    other_ports: Sequence[str] = ("management",)
    ends_on: EndsOn = "SIGTERM"

    def wanted_port(self, settings: Settings) -> int | None:
        """The port that the user insists on."""
        return settings.registry_port

    def prepare(self, place: Place) -> Sequence[str | Path]:
        """Unpack it once, tell its command."""
        program = unpacked(next(place.bundles["registry"].glob("*.tar.gz")))
        settings = {
            "quarkus.http.host": LOOPBACK,
            "quarkus.http.port": place.ports["main"],
            "quarkus.management.host": LOOPBACK,
            "quarkus.management.port": place.ports["management"],
            "apicurio.storage.sql.kind": "h2",
            "apicurio.datasource.url": f"jdbc:h2:file:{place.data / 'schemas'};WRITE_DELAY=0",
            "quarkus.http.access-log.enabled": "false",
            'quarkus.log.category."io.apicurio.registry.logging.audit".level': "WARN",
        }
        options = [f"-D{name}={value}" for name, value in settings.items()]
        return [place.java, *_HEAP, *options, "-jar", next(program.glob("*-runner.jar"))]

    def answers(self, port: int) -> bool:
        """Whether it lists its subjects; one without any is given its mode first."""
        try:
            if not _ask(port, "subjects") and _ask(port, "config") == {"compatibilityLevel": "NONE"}:
                _ask(port, "config", {"compatibility": "BACKWARD"})
        except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError):
            return False
        return True


def _ask(port: int, path: str, put: dict[str, str] | None = None) -> object:
    request = urllib.request.Request(
        f"http://{LOOPBACK}:{port}{PATH}/{path}",
        data=json.dumps(put).encode() if put else None,
        headers={"Content-Type": "application/json"},
        method="PUT" if put else "GET",
    )
    with urllib.request.urlopen(request, timeout=1) as answer:  # noqa: S310 - http on loopback
        return json.load(answer)
