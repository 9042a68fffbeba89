"""What a PostgreSQL lacks for capture: decoding, rights, room for a slot, the slot and the publication.

Everything is read from the catalogs, which every user may see, and nothing is changed.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
from psycopg.rows import namedtuple_row

from headwater.capture.checks.catalog import Found, tables_in
from headwater.capture.checks.findings import Finding, Group, warning
from headwater.capture.checks.tables import table_findings
from headwater.capture.database import Address

_PATIENCE_S = 10
_RESTART = "-- then restart PostgreSQL"
AGAIN = "capture the tables anew: headwater capture remove APP.py --slot; headwater capture up APP.py"
"""What mends a lost place: a new slot, and a new snapshot."""


_SERVER = """
SELECT current_setting('wal_level') AS wal_level,
       current_setting('max_replication_slots')::int AS max_slots,
       (SELECT count(*) FROM pg_replication_slots) AS slots,
       current_setting('max_wal_senders')::int AS max_senders,
       (SELECT count(*) FROM pg_stat_replication) AS senders,
       current_setting('max_slot_wal_keep_size') AS keep,
       current_user AS role, quote_ident(current_user) AS quoted,
       rolsuper OR rolreplication OR EXISTS (
           SELECT FROM pg_roles WHERE rolname = 'rds_replication' AND pg_has_role(oid, 'MEMBER')
       ) AS replicates,
       has_database_privilege(current_database(), 'CREATE') AS creates,
       current_database() AS database
FROM pg_roles WHERE rolname = current_user
"""
_SLOT = (
    "SELECT active, coalesce(wal_status, '') AS wal_status, plugin, database FROM pg_replication_slots "
    "WHERE slot_name = %s"
)
_PUBLICATION = """
SELECT pg_has_role(pubowner, 'USAGE') AS is_ours, puballtables AS has_all,
       pubinsert AS has_inserts, pubinsert AND pubupdate AND pubdelete AS has_changes, pubviaroot AS via_root,
       (SELECT array_agg(prrelid) FROM pg_publication_rel WHERE prpubid = p.oid) AS tables,
       (SELECT array_agg(prrelid) FROM pg_publication_rel AS r WHERE prpubid = p.oid
        AND coalesce(to_jsonb(r) ->> 'prattrs', to_jsonb(r) ->> 'prqual') IS NOT NULL) AS partly
FROM pg_publication p WHERE pubname = %s
"""


def check(address: Address, groups: Sequence[Group]) -> list[Finding]:
    """What this server lacks for these; only that it cannot be reached, when it cannot."""
    try:
        with _connected(address) as connection:
            return list(_findings(connection, groups))
    except psycopg.OperationalError as error:
        return [_unreachable(address, str(error).strip())]


def _connected(address: Address) -> "psycopg.Connection[Any]":
    return psycopg.connect(
        host=address.host,
        port=address.port,
        dbname=address.name,
        user=address.user,
        password=address.password,
        autocommit=True,
        connect_timeout=_PATIENCE_S,
        application_name="headwater",
        row_factory=namedtuple_row,
    )


def _unreachable(address: Address, said: str) -> Finding:
    hints = {
        "password authentication failed": f"ALTER ROLE {address.user} PASSWORD '…'; or put the right "
        "password into the database's URL",
        "no password supplied": "put the password into the database's URL: postgresql://user:password@host/name",
        "does not exist": "look at the database's URL: its name and its user",
        "pg_hba.conf": "let this machine in: a line of pg_hba.conf, then SELECT pg_reload_conf();",
    }
    hint = next(
        (hint for words, hint in hints.items() if words in said), "does it run, and is its URL right?"
    )
    return Finding(f"{address.shown} cannot be reached", detail=said, hint=hint)


def _findings(connection: Any, groups: Sequence[Group]) -> Iterator[Finding]:
    server = connection.execute(_SERVER).fetchone()
    yield from _of_server(server)
    for group in groups:
        slot = connection.execute(_SLOT, [group.slot]).fetchone()
        found = tables_in(connection, [one.name for one in group.tables])
        publication = connection.execute(_PUBLICATION, [group.slot]).fetchone()
        yield from _of_room(server, slot)
        yield from _of_slot(group.slot, slot, server)
        yield from _of_publication(group, publication, server, found)
        via_root = publication is not None and publication.via_root
        for table in group.tables:
            yield from table_findings(table, found.get(table.name), group, via_root=via_root)


def _of_server(server: Any) -> Iterator[Finding]:
    if server.wal_level != "logical":
        yield Finding(
            f"wal_level is {server.wal_level}, which does not tell changes",
            hint=f"ALTER SYSTEM SET wal_level = 'logical'; {_RESTART}",
        )
    if not server.replicates:
        yield Finding(
            f"role {server.role!r} may not replicate", hint=f"ALTER ROLE {server.quoted} REPLICATION;"
        )
    if server.keep == "-1":
        yield warning(
            "a replication slot may keep any amount of WAL: while capture is away, the disk can fill",
            hint="ALTER SYSTEM SET max_slot_wal_keep_size = '20GB'; SELECT pg_reload_conf();",
        )


def _of_room(server: Any, slot: Any) -> Iterator[Finding]:
    """A slot that is there, or in use, has its room."""
    if slot is None and server.slots >= server.max_slots:
        yield Finding(
            f"all {server.max_slots} replication slots are taken",
            detail="SELECT slot_name, active, wal_status FROM pg_replication_slots; shows them",
            hint=f"ALTER SYSTEM SET max_replication_slots = {server.max_slots + 10}; {_RESTART}",
        )
    if (slot is None or not slot.active) and server.senders >= server.max_senders:
        yield Finding(
            f"all {server.max_senders} WAL senders are in use",
            detail="SELECT pid, application_name, state FROM pg_stat_replication; shows them",
            hint=f"ALTER SYSTEM SET max_wal_senders = {server.max_senders + 10}; {_RESTART}",
        )


def _of_slot(name: str, slot: Any, server: Any) -> Iterator[Finding]:
    if slot is None:
        return
    if slot.plugin != "pgoutput" or slot.database != server.database:
        yield Finding(
            f"replication slot {name!r} is another's: of {slot.plugin or 'physical replication'}"
            f"{f' in database {slot.database!r}' if slot.database else ''}",
            hint="give the Database another name, or drop that slot if nobody reads it",
        )
    elif slot.wal_status == "lost":
        yield Finding(
            f"replication slot {name!r} is lost: PostgreSQL has removed WAL that was not captured yet",
            detail="it was further behind than max_slot_wal_keep_size; the changes since then are in no log",
            hint=AGAIN,
        )
    elif slot.wal_status == "unreserved":
        yield warning(
            f"replication slot {name!r} is about to be lost, further behind than max_slot_wal_keep_size",
            hint="ALTER SYSTEM SET max_slot_wal_keep_size = '100GB'; SELECT pg_reload_conf(); "
            "-- and let capture catch up",
        )


def _of_publication(group: Group, found: Any, server: Any, there: dict[str, Found]) -> Iterator[Finding]:
    name = group.slot
    every = ", ".join(sorted(there))
    if found is None:
        if there and not (server.creates and all(one.is_owned for one in there.values())):
            yield Finding(
                f"publication {name!r} does not exist, and role {server.role!r} may not make it",
                detail="it takes the right to create in the database, and the tables' ownership",
                hint=f"CREATE PUBLICATION {name} FOR TABLE {every};\n"
                f"ALTER PUBLICATION {name} OWNER TO {server.quoted};",
            )
        return
    if not (found.has_inserts if group.only_inserts else found.has_changes):
        yield Finding(
            f"publication {name!r} does not publish all changes",
            hint=f"ALTER PUBLICATION {name} SET (publish = 'insert, update, delete, truncate');",
        )
    for table in [table for table, one in there.items() if one.oid in (found.partly or [])]:
        yield Finding(
            f"publication {name!r} publishes only some of the rows or columns of {table}",
            hint=f"ALTER PUBLICATION {name} DROP TABLE {table}; ALTER PUBLICATION {name} ADD TABLE {table};",
        )
    lacking = [table for table, one in there.items() if one.oid not in (found.tables or [])]
    if lacking and not found.has_all and not (found.is_ours and all(there[one].is_owned for one in lacking)):
        yield Finding(
            f"publication {name!r} lacks {', '.join(lacking)}, and role {server.role!r} may not add it",
            detail="changes of a table that is not published never leave the database",
            hint=f"ALTER PUBLICATION {name} ADD TABLE {', '.join(lacking)};",
        )
