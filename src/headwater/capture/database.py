"""Database: where tables are captured from, as a frozen spec; its password is never printed.

Where the spec has no address, the settings have it under the database's name
(`HEADWATER_DATABASE_SHOP`, or `shop` under `[databases]`), so that the same program runs against another one;
without either it is the embedded PostgreSQL, or else the embedded MariaDB, if that runs.
"""

import re
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import SplitResult, unquote, urlsplit

from headwater import embedded
from headwater.errors import SpecError
from headwater.settings import Settings

Kind = Literal["postgres", "mariadb"]
_KINDS: dict[str, Kind] = {"postgresql": "postgres", "postgres": "postgres", "mariadb": "mariadb"}
_PORTS: dict[Kind, int] = {"postgres": 5432, "mariadb": 3306}
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_FORM = 'write it as "postgresql://user:password@host:5432/name" or "mariadb://…"'


@dataclass(frozen=True, kw_only=True)
class Address:
    """A database's address, taken apart."""

    kind: Kind
    host: str
    port: int
    name: str
    user: str
    password: str = field(default="", repr=False)

    @property
    def shown(self) -> str:
        """The address for people: without the password."""
        return f"{self.user}@{self.host}:{self.port}/{self.name}"


@dataclass(frozen=True)
class Database:
    """A database whose tables are captured; its name begins the names of their topics.

    Small letters, digits and underscores: the name also names the replication slot and the publication.
    """

    name: str
    url: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise SpecError(
                f"{self.name!r} cannot be the name of a database",
                hint="use 1 to 40 small letters, digits and underscores, beginning with a letter: it names "
                "topics and a replication slot",
            )
        if self.url is not None:
            _ = parsed(self.name, self.url)

    def address(self, settings: Settings) -> Address:
        """Where it is: the spec's word, that of the settings, or the embedded PostgreSQL or MariaDB."""
        here = self.url or settings.databases.get(self.name)
        url = here or embedded.postgres_url(settings) or embedded.mariadb_url(settings)
        if url is None:
            raise SpecError(
                f"database {self.name!r} has no address",
                hint=f'set HEADWATER_DATABASE_{self.name.upper()}, write Database("{self.name}", '
                '"postgresql://user:password@host/name"), or start one: headwater up --with postgres',
            )
        return parsed(self.name, url)


def parsed(name: str, url: str) -> Address:
    """A database's address from its URL; the errors do not repeat it, because of its password."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # the error of the standard library would say the port's text
        raise SpecError(f"the address of database {name!r} cannot be read", hint=_FORM) from None
    kind = _KINDS.get(parts.scheme)
    if kind is None:
        known = ", ".join(sorted({*_KINDS}))
        raise SpecError(
            f"database {name!r} is of a kind that is not known: {parts.scheme or 'none'!r}",
            hint=f"known: {known}; {_FORM}",
        )
    found = Address(
        kind=kind,
        host=parts.hostname or "",
        port=port or _PORTS[kind],
        name=unquote(parts.path.lstrip("/")),
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
    )
    _check_whole(name, found, parts)
    return found


def _check_whole(name: str, found: Address, parts: SplitResult) -> None:
    for what, value in (("host", found.host), ("user", found.user), ("name", found.name)):
        if not value:
            raise SpecError(f"the address of database {name!r} has no {what}", hint=_FORM)
    if parts.query or parts.fragment:
        raise SpecError(
            f"the address of database {name!r} has options, which are not taken over",
            hint="the connector's own options stand in the settings: [connect_options]",
        )
