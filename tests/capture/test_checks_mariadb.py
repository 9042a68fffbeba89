"""Checks of a real MariaDB: what it lacks is said, and the SQL that comes with it mends it."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from headwater import Database, Settings, Table
from headwater.capture.checks import check
from tests.capture.captured import Sql

pytestmark = pytest.mark.system
NONE = Settings()
SCHEMA = "id long, word string"


@pytest.fixture(scope="module")
def sql(mariadb: str) -> Iterator[Any]:
    run = Sql(mariadb)
    run("CREATE USER capture@'127.0.0.1' IDENTIFIED BY 'secret7'", "CREATE DATABASE checked")
    run("GRANT SELECT ON checked.* TO capture@'127.0.0.1'")
    yield run
    run("DROP DATABASE checked", "DROP USER capture@'127.0.0.1'")
    run.close()


@pytest.fixture
def shop(mariadb: str, sql: Any) -> Database:
    assert sql
    return Database("checked", mariadb)


@pytest.fixture
def guest(mariadb: str, sql: Any) -> Database:
    assert sql
    at = urlsplit(mariadb)
    return Database("checked", f"mariadb://capture:secret7@{at.hostname}:{at.port}/checked")


def table(database: Database, name: str, schema: str = SCHEMA) -> Table:
    return Table(database, f"checked.{name}", schema=schema, key="id")


def errors(*captures: Any) -> list[Any]:
    return [one for one in check(captures, NONE) if one.severity == "error"]


def told(*captures: Any) -> str:
    return "\n".join(f"{one.severity}: {one}" for one in check(captures, NONE))


def test_a_database_that_lacks_nothing_gets_only_the_warning_that_its_log_stays_for_ever(shop, sql):
    sql("CREATE TABLE checked.whole (id bigint PRIMARY KEY, word varchar(20))")
    (found,) = check([table(shop, "whole")], NONE)
    assert (found.severity, found.what) == ("warning", "the log is never removed: the disk can fill")


def test_a_wrong_password_is_told_without_it_and_alone(mariadb):
    at = urlsplit(mariadb)
    wrong = Database("checked", f"mariadb://{at.username}:Wr0ng!@{at.hostname}:{at.port}/headwater")
    (found,) = check([table(wrong, "whole")], NONE)
    assert "Access denied" in found.detail
    assert "ALTER USER headwater IDENTIFIED BY '…'" in found.hint
    assert "Wr0ng!" not in repr(found)


def test_a_table_that_is_seen_and_may_not_be_read_is_told(guest, sql):
    sql("REVOKE SELECT ON checked.* FROM capture@'127.0.0.1'")
    sql("CREATE TABLE checked.closed (id bigint PRIMARY KEY, word varchar(9))")
    sql("GRANT INSERT ON checked.closed TO capture@'127.0.0.1'")
    found = [one for one in errors(table(guest, "closed")) if "may not read" in one.what]
    sql(found[0].hint)
    assert "may not read" not in told(table(guest, "closed"))
    sql("GRANT SELECT ON checked.* TO capture@'127.0.0.1'")


def test_a_user_without_rights_is_told_each_and_needs_no_more_than_these(guest, sql):
    sql("CREATE TABLE checked.theirs (id bigint PRIMARY KEY, word text)")
    found = errors(table(guest, "theirs"))
    assert [one.what.partition("'capture@127.0.0.1' ")[2] for one in found] == [
        *("has no right REPLICATION SLAVE", "has no right BINLOG MONITOR", "has no right RELOAD"),
        "may not make and write checked.headwater_signals, through which capture asks for rows",
    ]
    for one in found:
        sql(one.hint)
    assert not errors(table(guest, "theirs"))


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("binlog_format", "STATEMENT", "has statements, and not the rows"),
        ("binlog_row_image", "MINIMAL", "has only some columns"),
        ("binlog_row_metadata", "MINIMAL", "does not name the columns"),
        ("binlog_expire_logs_seconds", "3600", "removed after 1 h"),
    ],
)
def test_a_log_that_does_not_tell_whole_rows_is_told_and_mended(shop, sql, name, value, why):
    sql(f"SET GLOBAL {name} = {value}")
    try:
        (found,) = [one for one in check([table(shop, "whole")], NONE) if why in one.what]
        sql(found.hint)
        assert why not in told(table(shop, "whole"))
    finally:
        sql(f"SET GLOBAL {name} = DEFAULT") if "expire" in name else None


@pytest.mark.parametrize(
    ("name", "columns", "why"),
    [
        ("keyless", "id bigint, word text", "has no key"),
        ("odd", "id bigint, word varchar(9), PRIMARY KEY (id, word)", "its keys: id,word"),
        ("thin", "id bigint PRIMARY KEY", "no column 'word'"),
        ("named", "id bigint PRIMARY KEY, word inet6", "MODIFY word varchar(64)"),
        ("huge", "id bigint unsigned PRIMARY KEY, word text", "declare it as decimal(20,0)"),
        ("other", "id bigint PRIMARY KEY, word blob", "declare it as binary"),
        ("placed", "id bigint PRIMARY KEY, word point", "no connector writes its values"),
    ],
)
def test_a_table_that_would_not_come_whole_is_refused_with_the_reason(shop, sql, name, columns, why):
    sql(f"CREATE TABLE checked.{name} ({columns})")
    assert why in "\n".join(map(str, errors(table(shop, name))))


def test_a_table_that_is_not_there_and_a_view_are_refused(shop, sql):
    sql("CREATE VIEW checked.seen AS SELECT 1 AS id, 'x' AS word")
    assert "does not exist" in errors(table(shop, "absent"))[0].what
    assert "is a view" in errors(table(shop, "seen"))[0].what


def test_a_table_that_nobody_captures_and_that_stops_capture_all_the_same_is_a_warning(shop, sql):
    sql("CREATE TABLE checked.elsewhere (id bigint PRIMARY KEY, place inet6)")
    (found,) = [one for one in check([table(shop, "whole")], NONE) if "checked.elsewhere" in one.what]
    assert "although nobody captures it" in found.what
    assert "skip.unparseable.ddl" in found.hint
    sql(found.hint.splitlines()[0])
    assert "checked.elsewhere" not in told(table(shop, "whole"))


def test_a_tinyint_of_one_digit_may_be_a_boolean_or_a_number(shop, sql):
    sql("CREATE TABLE checked.flags (id bigint PRIMARY KEY, word tinyint(1))")
    assert not errors(table(shop, "flags", "id long, word boolean"))
    assert not errors(table(shop, "flags", "id long, word byte"))


def test_moments_that_may_be_zero_are_a_warning(shop, sql):
    sql("CREATE TABLE checked.moments (id bigint PRIMARY KEY, word datetime)")
    assert "word of table 'checked.moments' may be 0000-00-00" in told(
        table(shop, "moments", "id long, word timestamp_ntz")
    )
