"""Checks: what the captured databases lack, found before a connector is made.

Capture that fails in a worker's log, or that goes on and loses something, is worse than one that does not
start. So an app's databases are asked first; nothing is changed there. Each finding says what is wrong and
what mends it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from headwater.capture.checks import mariadb, postgres
from headwater.capture.checks.findings import Finding, Group
from headwater.capture.database import Address, Database
from headwater.capture.outbox import Outbox
from headwater.capture.plan import Capture, Plan, plans
from headwater.capture.table import Table
from headwater.errors import DatabaseUnfit
from headwater.settings import Settings

_OUTBOX = "id string NOT NULL, topic string NOT NULL, key binary, value binary NOT NULL"


def check(captures: Sequence[Capture], settings: Settings) -> list[Finding]:
    """What the databases of these lack; nothing when all is well."""
    wanted: dict[tuple[Database, Address], list[Group]] = {}
    for plan in plans(captures):
        wanted.setdefault((plan.database, plan.address(settings)), []).append(_group(plan, captures))
    return [found for place, groups in wanted.items() for found in _check(*place, groups)]


def demand(captures: Sequence[Capture], settings: Settings) -> list[Finding]:
    """The warnings; DatabaseUnfit, with all errors, when there is an error."""
    found = check(captures, settings)
    errors = [one for one in found if one.severity == "error"]
    if errors:
        reasons = f"for {len(errors)} reasons" if len(errors) > 1 else "for one reason"
        raise DatabaseUnfit(
            f"{' and '.join(sorted({one.database for one in errors}))} cannot be captured, {reasons}",
            detail="\n".join(map(str, errors)),
            hint="mend that, and look again with `headwater capture check APP.py`",
        )
    return found


def _check(database: Database, address: Address, groups: Sequence[Group]) -> Iterator[Finding]:
    server = postgres if address.kind == "postgres" else mariadb
    for found in server.check(address, groups):
        yield replace(found, database=database.name)


def _group(plan: Plan, captures: Sequence[Capture]) -> Group:
    here = [one for one in captures if one.database == plan.database]
    if not plan.is_outbox:
        return Group(slot=plan.slot, tables=[one for one in here if isinstance(one, Table)])
    (name,) = plan.tables
    ddl = next(one.ddl for one in here if isinstance(one, Outbox) and one.table == name)
    return Group(slot=plan.slot, tables=[Table(plan.database, name, schema=_OUTBOX, key="id")], ddl=ddl)
