"""Claims: which tables a database's connector captures, and for which apps.

A database has one connector, because each would make it decode its log once more. Apps share it: each
claims its tables, and a table is captured as long as an app claims it. The claims stand in the connector's
own configuration, so that there is one truth, and it is where every app looks.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import msgspec

from headwater.capture.connect import Config
from headwater.errors import SpecError

PROPERTY = "headwater.tables"
FIRST = "first"
"""Since when an outbox is captured: the connector's own snapshot has its rows, no signal asks for them."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A captured table: its key, the apps that claim it, and what asked for its snapshot."""

    key: tuple[str, ...]
    apps: tuple[str, ...]
    since: str = FIRST


Claims = Mapping[str, Claim]
Keys = Mapping[str, tuple[str, ...]]
"""Tables by their names, each with the columns of its key."""


def claims_in(config: Config | None) -> Claims:
    """What a connector captures; nothing when there is none."""
    return msgspec.json.decode((config or {}).get(PROPERTY, "{}"), type=dict[str, Claim])


def as_property(claims: Claims) -> str:
    """The claims as the connector's configuration has them."""
    return msgspec.json.encode(claims, order="sorted").decode()


def claimed(claims: Claims, app: str, tables: Keys, since: str) -> Claims:
    """The claims with an app's tables; those that are new get their snapshot by `since`."""
    return {**claims, **{name: _claim(claims, app, name, key, since) for name, key in tables.items()}}


def again(claims: Claims, names: Iterable[str], since: str) -> Claims:
    """The claims with another snapshot for these tables."""
    return {**claims, **{name: replace(claims[name], since=since) for name in names}}


def released(claims: Claims, app: str) -> Claims:
    """The claims without those of an app; a table that nobody claims any more is gone."""
    left = {name: replace(one, apps=tuple(a for a in one.apps if a != app)) for name, one in claims.items()}
    return {name: one for name, one in left.items() if one.apps}


def _claim(claims: Claims, app: str, name: str, key: tuple[str, ...], since: str) -> Claim:
    found = claims.get(name)
    if found is None:
        return Claim(key=key, apps=(app,), since=since)
    if found.key != key:
        raise SpecError(
            f"table {name!r} is captured by {', '.join(found.key)}, and app {app!r} wants it by "
            f"{', '.join(key)}",
            hint=f"captured for: {', '.join(found.apps)}; a table has one key for all",
        )
    return replace(found, apps=tuple(sorted({*found.apps, app})))
