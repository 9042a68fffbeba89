"""Catalog: a table of PostgreSQL as the catalogs have it, which every user may read.

A domain is read as the type that it is made of.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_TABLES = """
SELECT n.nspname || '.' || c.relname AS name, c.oid, c.relkind AS kind, c.relpersistence AS persistence,
       c.relreplident AS identity, c.reltoastrelid <> 0 AS has_toast,
       pg_has_role(c.relowner, 'USAGE') AS is_owned,
       has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT') AS is_readable,
       row_security_active(c.oid) AS is_filtered, quote_ident(current_user) AS role
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname || '.' || c.relname = ANY(%s) AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
"""
_COLUMNS = """
WITH RECURSIVE base AS (
    SELECT a.attnum, t.oid, t.typname, t.typtype, t.typbasetype, t.typelem,
           CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE a.atttypmod END AS typmod
    FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
    WHERE a.attrelid = %(oid)s AND a.attnum > 0 AND NOT a.attisdropped
    UNION ALL
    SELECT base.attnum, t.oid, t.typname, t.typtype, t.typbasetype, t.typelem,
           CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE base.typmod END
    FROM base JOIN pg_type t ON t.oid = base.typbasetype WHERE base.typtype = 'd'
)
SELECT a.attname AS name, format_type(a.atttypid, a.atttypmod) AS kind, a.attnotnull AS is_set,
       a.attgenerated <> '' AS is_generated, a.attndims AS dimensions, a.attstorage <> 'p' AS is_toastable,
       base.typmod, coalesce(element.typname, base.typname) AS base,
       coalesce(element.typtype, base.typtype) = 'e' AS is_enum, element.oid IS NOT NULL AS is_array
FROM base JOIN pg_attribute a ON a.attrelid = %(oid)s AND a.attnum = base.attnum
LEFT JOIN pg_type element ON element.oid = base.typelem AND element.typarray = base.oid
WHERE base.typtype <> 'd'
"""
_KEYS = """
SELECT i.indisprimary AS is_primary, i.indisreplident AS is_identity, c.relname AS name,
       array_agg(a.attname::text ORDER BY a.attnum) AS columns, bool_and(a.attnotnull) AS is_set
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey[0:i.indnkeyatts - 1])
WHERE i.indrelid = %s AND i.indisunique AND i.indisvalid AND i.indimmediate
  AND i.indpred IS NULL AND i.indexprs IS NULL
GROUP BY 1, 2, 3 ORDER BY 1 DESC, 3
"""


@dataclass(frozen=True, kw_only=True)
class Found:
    """A table as the catalogs have it."""

    oid: int
    kind: str
    persistence: str
    identity: str
    has_toast: bool
    is_owned: bool
    is_readable: bool
    is_filtered: bool
    role: str
    columns: dict[str, Any]
    keys: Sequence[Any]

    @property
    def primary(self) -> Any:
        """Its primary key."""
        return next((one for one in self.keys if one.is_primary), None)


def tables_in(connection: Any, names: Sequence[str]) -> dict[str, Found]:
    """Those of the tables that exist."""
    return {
        one.name: _found(connection, one) for one in connection.execute(_TABLES, [list(names)]).fetchall()
    }


def _found(connection: Any, row: Any) -> Found:
    columns = connection.execute(_COLUMNS, {"oid": row.oid}).fetchall()
    keys = connection.execute(_KEYS, [row.oid]).fetchall()
    told = {name: value for name, value in row._asdict().items() if name != "name"}
    return Found(**told, columns={one.name: one for one in columns}, keys=keys)
