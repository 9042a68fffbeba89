"""The way to PostgreSQL: connections that a thread keeps, and its words as errors of ours.

Pipelines of one process run in threads of their own: on a shared connection each would stand in the
transactions of the others. An error passes when the server is away, starts, ends, is full or busy; a kept
connection that broke is replaced when somebody asks for one again. No error has the password in it.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import get_ident
from typing import Any

from headwater.capture.database import Address
from headwater.errors import SinkRefused, SinkUnreachable

_KEPT: dict[tuple[Address, int], Any] = {}
"""By address and thread; the number of a thread that has ended goes to another, and what it kept with it."""

_ALIVE: Any = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
    "application_name": "headwater",
    "options": "-c lock_timeout=60s -c timezone=UTC",
}
_FOR_GOOD = ("authentication failed", "does not exist", "no pg_hba.conf entry", "permission denied")


def connected(address: Address) -> Any:
    """The thread's connection to a database, each statement a transaction unless told otherwise."""
    kept = _KEPT.get((address, get_ident()))
    if kept is None or kept.closed:
        kept = _KEPT[address, get_ident()] = _connect(address)
    return kept


def _connect(address: Address) -> Any:
    import psycopg  # noqa: PLC0415 - only workers that write there load it

    try:
        return psycopg.connect(
            host=address.host,
            port=address.port,
            dbname=address.name,
            user=address.user,
            password=address.password,
            autocommit=True,
            **_ALIVE,
        )
    except psycopg.Error as error:
        said = str(error).strip()
        kind = SinkRefused if any(one in said for one in _FOR_GOOD) else SinkUnreachable
        raise kind(f"PostgreSQL at {address.shown} lets nobody in", detail=said) from error


@contextmanager
def translated(connection: Any) -> Iterator[None]:
    """What PostgreSQL says, as an error of ours; a connection that it refused something on is closed."""
    import psycopg  # noqa: PLC0415
    from psycopg import errors  # noqa: PLC0415

    busy = (errors.DeadlockDetected, errors.SerializationFailure, errors.LockNotAvailable)
    try:
        yield
    except busy as error:
        raise SinkUnreachable("PostgreSQL is busy with the copy", detail=_said(error)) from error
    except (psycopg.OperationalError, psycopg.InterfaceError, errors.ReadOnlySqlTransaction) as error:
        _close(connection)
        raise SinkUnreachable("PostgreSQL cannot be written to", detail=_said(error)) from error
    except psycopg.Error as error:
        _close(connection)
        raise SinkRefused("PostgreSQL refuses what it is given", detail=_said(error)) from error


def _said(error: Any) -> str:
    return str(error).strip()


def _close(connection: Any) -> None:
    with suppress(Exception):  # it is broken, perhaps
        connection.close()
