"""What a connector for MariaDB is told, where it stands, and what its failures mean: no server is needed."""

from pathlib import Path

import pytest

from headwater import Database, Settings, Table
from headwater.capture import secrets
from headwater.capture.causes import cause_of
from headwater.capture.claims import FIRST, claimed
from headwater.capture.configs.mariadb import Kafka
from headwater.capture.health import Health
from headwater.capture.plan import plans
from headwater.capture.sources.mariadb import placed

NONE: dict[str, int | None] = {}
FILES = {"binlog.999998": 70, "binlog.999999": 1000, "binlog.1000000": 500}


def config(name: str, kafka: Kafka) -> dict[str, str]:
    database = Database(name, "mariadb://me:secret@127.0.0.1/shop")
    (plan,) = plans([Table(database, "shop.orders", schema="id long", key="id")])
    claims = claimed({}, "bank", plan.tables, FIRST)
    return plan.config(claims, plan.address(Settings()), "secret", kafka, {})


def test_each_database_has_a_number_among_the_servers_that_stays():
    kafka = Kafka(address="127.0.0.1:9092")
    numbers = [int(config(name, kafka)["database.server.id"]) for name in ("shop", "bank", "shop")]
    assert numbers[0] == numbers[2] != numbers[1]
    assert all(2**31 <= one < 2**32 for one in numbers)


def test_its_history_is_reached_as_the_log_is():
    told = config("shop", Kafka(address="kafka:9093", options={"security.protocol": "SASL_SSL"}))
    history = "schema.history.internal"
    assert told[f"{history}.kafka.bootstrap.servers"] == "kafka:9093"
    assert told[f"{history}.kafka.topic"] == "headwater-history.shop"
    assert [told[f"{history}.{one}.security.protocol"] for one in ("producer", "consumer")] == [
        "SASL_SSL"
    ] * 2


def test_what_is_secret_of_the_way_to_the_log_stands_in_a_file(tmp_path: Path):
    options = {"sasl.jaas.config": 'user "me" password "S3cret!";', "security.protocol": "SASL_SSL"}
    found = secrets.kafka(Settings(home=tmp_path, kafka="kafka:9093", kafka_options=options))
    assert "S3cret!" not in str(found.options)
    assert found.options["security.protocol"] == "SASL_SSL"
    (file,) = secrets.folder(Settings(home=tmp_path)).iterdir()
    assert file.read_text() == options["sasl.jaas.config"]


def test_what_is_ahead_of_a_place_is_in_its_file_and_in_those_after_it():
    offset = {"file": "binlog.999999", "pos": 400, "ts_sec": 100}
    found = placed(offset, FILES, {"binlog_expire_logs_seconds": 3600}, now=130)
    assert (found.state, found.position) == ("kept", "binlog.999999:400")
    assert (found.lag_bytes, found.retained_bytes) == (1100, 1500)
    assert (found.lag_s, found.limit_s) == (30, 3600)
    at_the_end = placed({"file": "binlog.1000000", "pos": 500, "ts_sec": 100}, FILES, NONE, now=130)
    assert (at_the_end.lag_bytes, at_the_end.lag_s) == (0, 0)


@pytest.mark.parametrize(
    ("file", "position", "why"),
    [("binlog.999997", 4, "thrown away"), ("binlog.1000000", 501, "begun anew, and not so far yet")],
)
def test_a_place_that_is_not_there_is_purged(file, position, why):
    assert placed({"file": file, "pos": position}, FILES, NONE, now=1).state == "purged", why


def test_who_is_nearly_as_far_behind_as_the_log_is_kept_is_an_alert():
    found = Health(connector="headwater-shop", state="running", slot="kept", lag_s=2881, limit_s=3600)
    assert list(found.alerts()) == ["it is 2,881 s behind, and the log is thrown away after 3,600"]
    purged = Health(connector="headwater-shop", state="running", slot="purged")
    assert list(purged.alerts()) == ["its place is purged: the database has thrown away what was not read"]


def test_a_statement_that_cannot_be_read_is_told_and_not_how_a_parser_stumbled():
    trace = """org.apache.kafka.connect.errors.ConnectException: An exception occurred
	at a.b(C.java:1)
Caused by: io.debezium.text.ParsingException: DDL statement couldn't be parsed. Please open an issue at \
https://x/y with the statement 'CREATE TABLE t (
  ip inet6)'
no viable alternative
Caused by: org.antlr.v4.runtime.NoViableAltException
"""
    assert cause_of(trace).endswith("and so not what comes after it: CREATE TABLE t (\n  ip inet6)")


def test_a_log_that_is_gone_is_told_in_words_that_lead_somewhere():
    trace = """io.debezium.DebeziumException: Could not find GTID state requested by slave in any binlog \
files. Probably the slave state is too old and required binlog files have been purged.
	at a.b(C.java:1)"""
    assert cause_of(trace).endswith("what was not read: its binary log was purged, or begun anew")


def test_a_history_that_somebody_deleted_is_told():
    trace = "io.debezium.DebeziumException: The db history topic is missing. You may attempt to recover it"
    assert cause_of(trace).startswith("the topic of its history is gone or empty")
