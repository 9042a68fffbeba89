"""Secrets: how a connector gets the database's password without its configuration having it.

What a connector is told stands in a topic and in every answer of Connect's REST. This home's own worker is
told the name of a file, which only its user can read. A Connect of yours may have such a provider, too: name
it in the settings then (`"database.password" = "${env:SHOP_PASSWORD}"` under `[connect_options]`); otherwise
it is sent the password, as Connect is by everybody.
"""

import os
from pathlib import Path

from headwater.capture.configs.mariadb import Kafka
from headwater.capture.connect import is_secret
from headwater.embedded.addresses import kafka_address
from headwater.embedded.connect import PASSWORDS, PROVIDER
from headwater.settings import Settings


def folder(settings: Settings) -> Path:
    """Where this home's worker finds them."""
    return settings.home.resolve() / "connect" / PASSWORDS


def told(name: str, secret: str, settings: Settings) -> str:
    """A secret as the connector is told it; another name for another one, so that it notices."""
    if settings.connect is not None or not secret:
        return secret
    place = folder(settings)
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    known = {one.read_text(): one.name for one in place.glob(f"{name}.*")}
    if secret not in known:
        file = place / f"{name}.{len(known) + 1}"
        _write(file, secret)
        return f"${{{PROVIDER}:{place}:{file.name}}}"
    return f"${{{PROVIDER}:{place}:{known[secret]}}}"


def kafka(settings: Settings) -> Kafka:
    """How a connector reaches the log by itself: as the settings say, what is secret of it as above."""
    options = {
        name: told("the-log", value, settings) if is_secret(name) else value
        for name, value in settings.kafka_options.items()
    }
    return Kafka(address=kafka_address(settings) or "", options=options)


def _write(file: Path, secret: str) -> None:
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as handle:
        handle.write(secret)
