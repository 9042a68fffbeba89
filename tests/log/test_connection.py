"""Options in Kafka's names for a client that has others, and foreign errors in our words."""

from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from headwater import Settings
from headwater.errors import (
    BrokerRefused,
    BrokerUnreachable,
    HeadwaterError,
    SettingsError,
    UnknownGroup,
    UnknownTopic,
)
from headwater.log.connection import Connection, error_for, translated
from headwater.log.options import translate_options

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.fixture
def connection() -> Connection:
    return Connection(Settings(kafka="there:9092"))


@pytest.mark.parametrize(
    ("jaas", "username", "password"),
    [
        ('username="alice" password="wonder"', "alice", "wonder"),
        ('password="wonder"\n   username="alice"', "alice", "wonder"),
        ('username = "alice" password = "with space; and = sign"', "alice", "with space; and = sign"),
        (r'username="al\"ice" password="back\\slash"', 'al"ice', "back\\slash"),
        (r'username="alice" password="ends in one\\"', "alice", "ends in one\\"),
        ("""username='alice' password='say "hi"'""", "alice", 'say "hi"'),
        ("username=alice password=wonder", "alice", "wonder"),
        ('username="" password=""', "", ""),
        ('username="alice" password="x" user_alice="y" serviceName="kafka"', "alice", "x"),
    ],
)
def test_a_login_is_read_as_java_reads_it(jaas: str, username: str, password: str) -> None:
    found = translate_options({"sasl.jaas.config": f"{MODULE} {jaas};"})
    assert found == {"sasl.username": username, "sasl.password": password}


@pytest.mark.parametrize(
    "jaas", ["", f"{MODULE};", f'{MODULE} username="s3cret";', f'{MODULE} xpassword="s3cret";']
)
def test_a_login_without_a_name_or_a_password_is_refused_and_not_repeated(jaas: str) -> None:
    with pytest.raises(SettingsError, match="names no username and password") as raised:
        translate_options({"sasl.jaas.config": jaas})
    assert "s3cret" not in str(raised.value)


def test_stores_in_pem_get_the_names_of_the_python_client() -> None:
    found = translate_options(
        {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": "ca.pem",
            "ssl.keystore.type": "pem",
            "ssl.keystore.location": "me.pem",
            "ssl.key.password": "hush",
        }
    )
    assert found == {
        "security.protocol": "SSL",
        "ssl.ca.location": "ca.pem",
        "ssl.certificate.location": "me.pem",
        "ssl.key.location": "me.pem",
        "ssl.key.password": "hush",
    }


def test_certificates_in_the_options_themselves_get_the_names_of_the_python_client() -> None:
    found = translate_options(
        {
            "ssl.truststore.certificates": "CA",
            "ssl.keystore.certificate.chain": "CHAIN",
            "ssl.keystore.key": "KEY",
        }
    )
    assert found == {"ssl.ca.pem": "CA", "ssl.certificate.pem": "CHAIN", "ssl.key.pem": "KEY"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ssl.truststore.type", "JKS"),
        ("ssl.keystore.type", "PKCS12"),
        ("ssl.truststore.location", "/etc/kafka/trust.jks"),
        ("ssl.keystore.location", "me.P12"),
    ],
)
def test_a_store_of_java_is_refused_with_the_way_out(name: str, value: str) -> None:
    with pytest.raises(SettingsError) as raised:
        translate_options({name: value})
    assert raised.value.message == f"{name}={value} cannot be read by the Python client"
    assert "openssl pkcs12" in raised.value.hint


def test_other_options_are_handed_on_as_they_are() -> None:
    assert translate_options({"sasl.mechanism": "PLAIN", "client.id": "x"}) == {
        "sasl.mechanism": "PLAIN",
        "client.id": "x",
    }


def test_what_a_client_needs_wins_over_options_and_options_over_our_defaults() -> None:
    options = {"log.connection.close": "true", "acks": "0"}
    made = Connection(Settings(kafka="there:9092", kafka_options=options)).config(acks="all", linger_ms=5)
    assert made["bootstrap.servers"] == "there:9092"
    assert (made["log.connection.close"], made["acks"], made["linger.ms"]) == ("true", "all", 5)


def test_without_a_log_there_is_nothing_to_connect_to(tmp_path: Path) -> None:
    with pytest.raises(BrokerUnreachable) as raised:
        Connection(Settings(home=tmp_path))
    assert raised.value.message == "no log is running here"
    assert "headwater up" in raised.value.hint
    assert "HEADWATER_KAFKA" in raised.value.hint


def test_an_option_that_the_client_does_not_know_is_a_setting_to_change() -> None:
    connection = Connection(Settings(kafka="there:9092", kafka_options={"sasl.mechanismus": "PLAIN"}))
    with pytest.raises(SettingsError, match=r"sasl\.mechanismus"):
        _ = connection.admin


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError.UNKNOWN_TOPIC_OR_PART, UnknownTopic),
        (KafkaError._UNKNOWN_TOPIC, UnknownTopic),
        (KafkaError.GROUP_ID_NOT_FOUND, UnknownGroup),
        (KafkaError._TRANSPORT, BrokerUnreachable),
        (KafkaError._ALL_BROKERS_DOWN, BrokerUnreachable),
        (KafkaError._TIMED_OUT, BrokerUnreachable),
        (KafkaError._INVALID_ARG, SettingsError),
        (KafkaError.CLUSTER_AUTHORIZATION_FAILED, BrokerRefused),
    ],
)
def test_every_error_of_the_client_becomes_one_of_ours(
    connection: Connection, code: int, kind: type[HeadwaterError]
) -> None:
    assert type(error_for(KafkaError(code), connection, topic="t", group="g")) is kind


def test_an_unknown_topic_and_group_are_named(connection: Connection) -> None:
    topic = error_for(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART), connection, topic="payments")
    assert topic.message == "there is no topic 'payments'"
    assert "headwater topics create payments" in topic.hint
    group = error_for(KafkaError(KafkaError.GROUP_ID_NOT_FOUND), connection, group="readers")
    assert group.message == "there is no group 'readers'"


def test_the_hint_for_a_broker_that_is_away_depends_on_whose_it_is(connection: Connection) -> None:
    assert "SASL and TLS" in connection.unreachable().hint
    connection.is_embedded = True
    assert "headwater up" in connection.unreachable().hint


def test_the_foreign_error_stays_the_cause(connection: Connection) -> None:
    foreign = KafkaException(KafkaError(KafkaError._TRANSPORT))
    with pytest.raises(BrokerUnreachable) as raised, translated(connection):
        raise foreign
    assert raised.value.__cause__ is foreign


def test_an_answer_that_does_not_come_is_a_broker_that_is_away(connection: Connection) -> None:
    with pytest.raises(BrokerUnreachable, match="no answer within 10 s"), translated(connection):
        raise TimeoutError
