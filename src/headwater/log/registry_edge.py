"""The edge to the registry's client: how it is made, and its errors in our own words.

The client's own patience (minutes, with retries) is cut down so that a registry that is down is
told within about five seconds; `registry_options` may say otherwise, in the client's names.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.common._httpx_compat import httpx  # whichever the client uses
from confluent_kafka.schema_registry.error import SchemaRegistryError

from headwater import embedded
from headwater.errors import (
    RegistryError,
    RegistryMissing,
    RegistryUnreachable,
    SchemaIncompatible,
    SettingsError,
    UnknownSchema,
)
from headwater.settings import Settings

_PATIENCE = {"timeout": 5, "max.retries": 0}
_NUMBERS = ("timeout", "max.retries", "retries.wait.ms", "retries.max.wait.ms", "cache.capacity")
_NOT_FOUND = (40401, 40402, 40403)  # no such subject, version, schema


def registry_client(settings: Settings) -> tuple[SchemaRegistryClient, str]:
    """A client of the registry that the settings name, and its address."""
    url = embedded.registry_url(settings)
    if url is None:
        raise RegistryMissing(
            "there is no schema registry",
            hint="start one with `headwater up --with registry`, or let HEADWATER_REGISTRY name its address",
        )
    try:
        return SchemaRegistryClient({"url": url, **_PATIENCE, **_options(settings)}), url
    except (ValueError, TypeError, OSError) as error:
        raise SettingsError("the registry's options cannot be used", detail=str(error)) from error


@contextmanager
def registry_edge(url: str, what: str) -> Iterator[None]:
    """Errors of the client inside as errors of ours; `what` was asked for."""
    try:
        yield
    except SchemaRegistryError as error:
        raise _translated(error, what) from error
    except httpx.TransportError as error:
        raise RegistryUnreachable(
            f"the schema registry at {_shown(url)} does not answer",
            detail=f"{what}: {error}",
            hint="`headwater up --with registry` starts the embedded one; `headwater status` shows it",
        ) from error
    except (ValueError, KeyError, TypeError) as error:  # it answered, but not as a registry does
        raise RegistryError(f"{_shown(url)} is not a schema registry", detail=f"{what}: {error}") from error


def is_missing(error: SchemaRegistryError) -> bool:
    """Whether it says that there is no such subject, version or schema."""
    return bool(error.http_status_code == 404 and error.error_code in _NOT_FOUND)


def _translated(error: SchemaRegistryError, what: str) -> RegistryError:
    said = str(error.error_message)
    if is_missing(error):
        return UnknownSchema(f"the registry holds no such schema: {what}", detail=said)
    if error.http_status_code == 409:
        return SchemaIncompatible(f"the registry refuses a schema: {what}", detail=said)
    if error.http_status_code in (401, 403):
        return RegistryError(
            f"the registry does not let us in: {what}",
            hint='its credentials are `"basic.auth.user.info" = "user:password"` under [registry_options]',
        )
    return RegistryError(f"the registry refused: {what}", detail=f"{said} (HTTP {error.http_status_code})")


def _options(settings: Settings) -> dict[str, Any]:
    return {
        name: float(value) if name in _NUMBERS else value for name, value in settings.registry_options.items()
    }


def _shown(url: str) -> str:
    """The address without a password that may stand in it."""
    scheme, _, rest = url.rpartition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"
