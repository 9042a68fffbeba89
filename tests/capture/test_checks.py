"""Checks of a real PostgreSQL: what it lacks is said, and the SQL that comes with it mends it."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from headwater import Database, Settings, Table
from headwater.capture.checks import check, demand
from headwater.capture.outbox import Outbox
from headwater.embedded.ports import LOOPBACK, a_free_port
from headwater.errors import DatabaseUnfit
from headwater.log.topic import Topic

pytestmark = pytest.mark.system
NONE = Settings()
WHOLE = "id bigint PRIMARY KEY, word varchar(20)"


@pytest.fixture(scope="module")
def url(postgres: str) -> Iterator[str]:
    """The URL of a database of its own, whose tables nobody captures."""
    with psycopg.connect(postgres, autocommit=True) as server:
        server.execute("CREATE DATABASE checked")
        server.execute("CREATE ROLE capture LOGIN REPLICATION PASSWORD 'secret7'")
        yield f"{postgres.rpartition('/')[0]}/checked"
        server.execute("DROP DATABASE checked WITH (FORCE)")
        server.execute("DROP ROLE capture")


@pytest.fixture(scope="module")
def sql(url: str) -> Iterator[Any]:
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def shop(url: str) -> Database:
    return Database("checked", url)


@pytest.fixture
def guest(url: str) -> Database:
    """The same database for a user who owns nothing."""
    at = urlsplit(url)
    return Database("checked", f"postgresql://capture:secret7@{at.hostname}:{at.port}{at.path}")


def table(database: Database, name: str, schema: str = "id long, word string", key: str = "id") -> Table:
    return Table(database, f"public.{name}", schema=schema, key=key)


def errors(*captures: Any) -> list[Any]:
    return [one for one in check(captures, NONE) if one.severity == "error"]


def told(*captures: Any) -> str:
    """All that is found, errors and warnings."""
    return "\n".join(f"{one.severity}: {one}" for one in check(captures, NONE))


def test_a_database_that_lacks_nothing_gets_only_the_warning_that_wal_is_kept_without_bound(shop, sql):
    sql.execute(f"CREATE TABLE whole ({WHOLE})")
    (found,) = demand([table(shop, "whole")], NONE)
    assert (found.severity, found.database) == ("warning", "checked")
    assert "the disk can fill" in found.what
    assert "ALTER SYSTEM SET max_slot_wal_keep_size" in found.hint


def test_a_wrong_password_is_told_without_it_and_alone(shop):
    wrong = Database("checked", (shop.url or "").replace(urlsplit(shop.url or "").password or "", "Wr0ng!"))
    (found,) = check([table(wrong, "whole")], NONE)
    assert "password authentication failed" in found.detail
    assert "ALTER ROLE headwater PASSWORD '…'" in found.hint
    assert "Wr0ng!" not in repr(found)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        (f"postgresql://me@{LOOPBACK}:{a_free_port()}/shop", "does it run"),
        ("postgresql://{user}:{password}@{host}/nowhere", "its name and its user"),
        ("postgresql://{user}@{host}/checked", "put the password into the database's URL"),
    ],
)
def test_a_database_that_cannot_be_reached_is_told_alone(postgres, url, why):
    at = urlsplit(postgres)
    given = url.format(user=at.username, password=at.password, host=f"{at.hostname}:{at.port}")
    (found,) = check([table(Database("checked", given), "whole")], NONE)
    assert "cannot be reached" in found.what
    assert why in found.hint


def test_all_errors_are_raised_at_once_with_what_mends_each(shop, sql):
    sql.execute("CREATE TABLE keyless (id bigint, word text)")
    with pytest.raises(DatabaseUnfit, match="checked cannot be captured, for 3 reasons") as raised:
        demand([table(shop, "keyless"), table(shop, "absent")], NONE)
    assert "'public.keyless' has no key" in raised.value.detail
    assert "mend: ALTER TABLE public.keyless ADD PRIMARY KEY (id);" in raised.value.detail
    assert "PostgreSQL refuses its updates and deletes" in raised.value.detail
    assert "'public.absent' does not exist" in raised.value.detail


def test_what_mends_a_table_without_a_key_mends_it(shop, sql):
    sql.execute("CREATE TABLE bare (id bigint, word varchar(9))")
    found = errors(table(shop, "bare"))
    assert len(found) == 2
    sql.execute(found[0].hint)
    assert not errors(table(shop, "bare"))


def test_a_user_without_rights_is_told_each_and_needs_no_more_than_these(guest, sql):
    sql.execute(f"CREATE TABLE theirs ({WHOLE})")
    sql.execute("ALTER ROLE capture NOREPLICATION")
    found = errors(table(guest, "theirs"))
    assert [one.what for one in found] == [
        "role 'capture' may not replicate",
        "publication 'headwater_checked' does not exist, and role 'capture' may not make it",
        "table 'public.theirs' may not be read, as its snapshot needs",
    ]
    for one in found:
        sql.execute(one.hint)
    assert not errors(table(guest, "theirs"))
    sql.execute(f"CREATE TABLE more ({WHOLE}); GRANT SELECT ON more TO capture")
    (found,) = errors(table(guest, "theirs"), table(guest, "more"))
    assert (
        "publication 'headwater_checked' lacks public.more, and role 'capture' may not add it" in found.what
    )
    sql.execute(found.hint)
    assert not errors(table(guest, "theirs"), table(guest, "more"))
    sql.execute("DROP PUBLICATION headwater_checked")


def test_a_publication_that_leaves_changes_out_is_told(shop, sql):
    sql.execute(f"CREATE TABLE partly ({WHOLE})")
    sql.execute("CREATE PUBLICATION headwater_checked FOR TABLE partly WITH (publish = 'insert')")
    (found,) = errors(table(shop, "partly"))
    sql.execute(found.hint)
    assert not errors(table(shop, "partly"))
    sql.execute("ALTER PUBLICATION headwater_checked SET TABLE partly (id)")
    (found,) = errors(table(shop, "partly"))
    assert "publishes only some of the rows or columns of public.partly" in found.what
    sql.execute("ALTER PUBLICATION headwater_checked SET TABLE partly WHERE (id > 7)")
    sql.execute(errors(table(shop, "partly"))[0].hint)
    assert not errors(table(shop, "partly"))
    sql.execute("DROP PUBLICATION headwater_checked")


@pytest.mark.parametrize(
    ("name", "ddl", "why"),
    [
        ("seen", "CREATE VIEW seen AS SELECT 1::bigint AS id, 'x'::text AS word", "is a view"),
        ("hasty", f"CREATE UNLOGGED TABLE hasty ({WHOLE})", "SET LOGGED"),
        ("parts", f"CREATE TABLE parts ({WHOLE}) PARTITION BY RANGE (id)", "publish_via_partition_root"),
        ("mute", f"CREATE TABLE mute ({WHOLE}); ALTER TABLE mute REPLICA IDENTITY NOTHING", "IDENTITY FULL"),
        ("odd", "CREATE TABLE odd (id bigint, word text, PRIMARY KEY (id, word))", "its keys: id, word"),
        ("thin", "CREATE TABLE thin (id bigint PRIMARY KEY)", "no column 'word'"),
        (
            "made",
            "CREATE TABLE made (id bigint PRIMARY KEY, word text GENERATED ALWAYS AS ('x') STORED)",
            "is generated",
        ),
        ("lists", "CREATE TABLE lists (id bigint PRIMARY KEY, word text[])", "declare it as array<string>"),
        (
            "deep",
            "CREATE TABLE deep (id bigint PRIMARY KEY, word text[][])",
            "no connector writes its values",
        ),
        ("geo", "CREATE TABLE geo (id bigint PRIMARY KEY, word point)", "no connector writes its values"),
        ("wide", "CREATE TABLE wide (id numeric(40) PRIMARY KEY, word text)", "declare it as string"),
    ],
)
def test_a_table_that_would_not_come_whole_is_refused_with_the_reason(shop, sql, name, ddl, why):
    sql.execute(ddl)
    assert why in "\n".join(map(str, errors(table(shop, name))))


def test_a_key_that_is_not_the_primary_one_needs_its_index_as_the_identity(shop, sql):
    sql.execute("CREATE TABLE named (id bigint PRIMARY KEY, word varchar(20) NOT NULL UNIQUE)")
    (found,) = errors(table(shop, "named", key="word"))
    assert "do not tell its key word" in found.what
    sql.execute(found.hint)
    assert not errors(table(shop, "named", key="word"))


def test_large_values_are_a_warning_and_arrays_an_error_until_the_identity_is_full(shop, sql):
    sql.execute("CREATE TABLE large (id bigint PRIMARY KEY, word text, tags text[])")
    assert "warning: checked: column word of table 'public.large'" in told(table(shop, "large"))
    tagged = table(shop, "large", "id long, word string, tags array<string>")
    (found,) = errors(tagged)
    assert "would come as null" in found.what
    assert "writes the whole old row" in found.detail
    sql.execute(found.hint)
    assert "public.large" not in told(tagged)


def test_what_is_declared_as_never_null_and_may_be_is_a_warning(shop, sql):
    sql.execute("CREATE TABLE blank (id bigint PRIMARY KEY, word text)")
    assert "ALTER COLUMN word SET NOT NULL" in told(table(shop, "blank", "id long, word string NOT NULL"))


def test_a_decimal_for_a_number_without_bounds_is_a_warning(shop, sql):
    sql.execute("CREATE TABLE bound (id bigint PRIMARY KEY, word numeric, cents numeric(12, 2))")
    found = told(table(shop, "bound", "id long, word decimal(38,18), cents decimal(10,2)"))
    assert "may exceed decimal(38,18)" in found
    assert "declare it as decimal(12,2)" in found


def test_row_security_that_hides_rows_is_an_error(guest, sql):
    sql.execute(f"CREATE TABLE secret ({WHOLE}); ALTER TABLE secret ENABLE ROW LEVEL SECURITY")
    sql.execute("GRANT SELECT ON secret TO capture")
    (found,) = [one for one in errors(table(guest, "secret")) if "row security hides rows" in one.what]
    sql.execute(found.hint)
    assert "row security" not in told(table(guest, "secret"))


def test_a_slot_of_somebody_else_is_told(shop, sql):
    sql.execute(f"CREATE TABLE slotted ({WHOLE})")
    sql.execute("SELECT pg_create_logical_replication_slot('headwater_checked', 'test_decoding')")
    (found,) = errors(table(shop, "slotted"))
    assert "replication slot 'headwater_checked' is another's: of test_decoding" in found.what
    sql.execute("SELECT pg_drop_replication_slot('headwater_checked')")


def test_an_outbox_without_its_table_is_told_the_table_and_needs_no_more(shop, sql):
    outbox = Outbox(shop, topics=[Topic("placed", schema="id long", key="id")])
    (found,) = errors(outbox)
    assert "table 'public.outbox' does not exist" in found.what
    sql.execute(found.hint)
    assert not errors(outbox)
    assert not [one for one in check([outbox], NONE) if "outbox" in one.what]
