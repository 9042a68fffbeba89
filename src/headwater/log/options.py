"""Options of Kafka's clients, translated.

They keep the names of Kafka's own (Java) clients, because people have them at hand and Spark takes
them as they are. The Python client (librdkafka) names a few differently, and what it cannot do (a
JKS store) is refused with the way out.
"""

import re
from collections.abc import Mapping

from headwater.errors import SettingsError

_RENAMED = {
    "ssl.truststore.location": "ssl.ca.location",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
}
_STORES = ("ssl.truststore.location", "ssl.keystore.location")
_STORE_TYPES = ("ssl.truststore.type", "ssl.keystore.type")
_JAAS = re.compile(
    r"""\b(?P<name>username|password)\s*=\s*"""
    r"""(?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>(?:[^'\\]|\\.)*)'|(?P<bare>[\w.-]+))"""
)
_JAVA_STORE = re.compile(r"\.(jks|p12|pfx|keystore|truststore)$", re.IGNORECASE)


def translate_options(options: Mapping[str, str]) -> dict[str, str]:
    """Kafka's client options in librdkafka's names."""
    found: dict[str, str] = {}
    for name, value in options.items():
        found |= _translate(name, value)
    return found


def _translate(name: str, value: str) -> dict[str, str]:
    if name == "sasl.jaas.config":
        return _login(value)
    if name in _STORE_TYPES and value.upper() == "PEM":
        return {}
    if name in _STORE_TYPES or (name in _STORES and _JAVA_STORE.search(value)):
        raise SettingsError(
            f"{name}={value} cannot be read by the Python client",
            hint="use PEM files: openssl pkcs12 -in store.p12 -nodes -out store.pem",
        )
    if name == "ssl.keystore.location":
        return {"ssl.certificate.location": value, "ssl.key.location": value}
    return {_RENAMED.get(name, name): value}


def _login(jaas: str) -> dict[str, str]:
    said = {
        f"sasl.{one['name']}": re.sub(r"\\(.)", r"\1", one["double"] or one["single"] or one["bare"] or "")
        for one in _JAAS.finditer(jaas)
    }
    if set(said) != {"sasl.username", "sasl.password"}:
        raise SettingsError(
            "sasl.jaas.config names no username and password",
            hint='…PlainLoginModule required username="…" password="…";',
        )
    return said
