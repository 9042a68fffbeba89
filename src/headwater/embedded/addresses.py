"""Where each server is reached: at the address that a setting names, or at this home's own server.

An address counts only while the server listens there: before, and after, its port may be anybody's.
What has a password has it in its URL, so URLs are for clients and never for a screen.
"""

from dataclasses import replace

from headwater.embedded.passwords import password
from headwater.embedded.postgres import DATABASE, USER
from headwater.embedded.registry import PATH
from headwater.embedded.server import Running, running
from headwater.settings import Settings


def kafka_address(settings: Settings) -> str | None:
    """The address of the log: the setting's, or that of this home's broker."""
    if settings.kafka is not None:
        return settings.kafka
    found = at_its_port("kafka", settings)
    return found.address if found else None


def registry_url(settings: Settings) -> str | None:
    """The address of the schema registry: the setting's, or that of this home's."""
    if settings.registry is not None:
        return settings.registry
    found = at_its_port("registry", settings)
    return f"http://{found.address}{PATH}" if found else None


def connect_url(settings: Settings) -> str | None:
    """The URL of Kafka Connect's REST: the setting's, or that of this home's worker."""
    if settings.connect is not None:
        return settings.connect
    found = at_its_port("connect", settings)
    return f"http://{found.address}" if found else None


def postgres_url(settings: Settings) -> str | None:
    """The URL of this home's PostgreSQL, with its password."""
    found = at_its_port("postgres", settings)
    secret = found and password(settings.home / "postgres")
    return f"postgresql://{USER}:{secret}@{found.address}/{DATABASE}" if found else None


def mariadb_url(settings: Settings) -> str | None:
    """The URL of this home's MariaDB, with its password."""
    found = at_its_port("mariadb", settings)
    secret = found and password(settings.home / "mariadb")
    return f"mariadb://{USER}:{secret}@{found.address}/{DATABASE}" if found else None


def redis_url(settings: Settings) -> str | None:
    """The URL of Redis, with its password: the setting's, or that of this home's."""
    if settings.redis is not None:
        return settings.redis
    found = at_its_port("redis", settings)
    return f"redis://:{password(settings.home / 'redis')}@{found.address}/0" if found else None


def search_url(settings: Settings) -> str | None:
    """The URL of OpenSearch (or Elasticsearch): the setting's, or that of this home's."""
    if settings.search is not None:
        return settings.search
    found = at_its_port("search", settings)
    return f"http://{found.address}" if found else None


def anywhere(settings: Settings) -> Settings:
    """The settings with the addresses in them, for machines that do not know this home."""
    return replace(
        settings,
        kafka=kafka_address(settings),
        registry=registry_url(settings),
        redis=redis_url(settings),
        search=search_url(settings),
    )


def at_its_port(name: str, settings: Settings) -> Running | None:
    """The running server of this home, once it listens."""
    found = running(name, settings)
    return found if found and found.identity.listens_on(found.port) else None
