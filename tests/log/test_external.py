"""A Kafka that is not ours: reached with SASL and TLS options as Kafka names them, never started by us."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from headwater import HeadwaterError, Log, Settings, Topic, embedded
from headwater.embedded.kafka import Kafka
from headwater.embedded.ports import LOOPBACK, a_free_port
from headwater.errors import BrokerUnreachable, SettingsError
from tests.cli.command import begin, run
from tests.log.certificates import Authority

pytestmark = pytest.mark.system
PASSWORD = 'a "quoted" s3cret\\'
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def jaas(password: str) -> str:
    return f"{LOGIN} username={quoted('alice')} password={quoted(password)};"


@dataclass(frozen=True)
class External:
    """A running Kafka with three guarded doors beside its plain one."""

    sasl: int
    tls: int
    both: int
    authority: Authority
    folder: Path

    def settings(self, port: int, options: Mapping[str, str]) -> Settings:
        return Settings(home=self.folder / "ours", kafka=f"{LOOPBACK}:{port}", kafka_options=options)

    def with_sasl(self, password: str = PASSWORD) -> Settings:
        return self.settings(self.sasl, sasl_options(password))

    def with_tls(self) -> Settings:
        return self.settings(self.tls, self.tls_options())

    def with_both(self) -> Settings:
        guarded = self.trust() | sasl_options(PASSWORD) | {"security.protocol": "SASL_SSL"}
        return self.settings(self.both, guarded)

    def trust(self) -> dict[str, str]:
        return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.authority.file)}

    def tls_options(self) -> dict[str, str]:
        own = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.authority.store("client"))}
        return {"security.protocol": "SSL", **self.trust(), **own}


def sasl_options(password: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": jaas(password),
    }


def guarded_kafka(plain: int, external: External) -> Kafka:
    """A Kafka that listens on its plain port and behind the three doors."""
    doors = {"BROKER": plain, "SASL": external.sasl, "TLS": external.tls, "BOTH": external.both}
    controller = a_free_port()
    written = ",".join(f"{name}://{LOOPBACK}:{port}" for name, port in doors.items())
    users = f"{LOGIN} user_alice={quoted(PASSWORD)};".replace("\\", "\\\\")  # a properties file escapes too
    return Kafka(
        properties={
            "listeners": f"{written},CONTROLLER://{LOOPBACK}:{controller}",
            "advertised.listeners": written,
            "listener.security.protocol.map": "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT,"
            "SASL:SASL_PLAINTEXT,TLS:SSL,BOTH:SASL_SSL",
            "controller.quorum.voters": f"1@{LOOPBACK}:{controller}",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl.plain.sasl.jaas.config": users,
            "listener.name.both.plain.sasl.jaas.config": users,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(external.authority.store("broker")),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(external.authority.file),
            "listener.name.tls.ssl.client.auth": "required",
        }
    )


@pytest.fixture(scope="module")
def external(tmp_path_factory: pytest.TempPathFactory) -> Iterator[External]:
    folder = tmp_path_factory.mktemp("external")
    made = External(a_free_port(), a_free_port(), a_free_port(), Authority(folder), folder)
    theirs = Settings(home=folder / "theirs", kafka_port=a_free_port())
    assert theirs.kafka_port is not None
    embedded.up(theirs, [guarded_kafka(theirs.kafka_port, made)], lambda *_: None)
    yield made
    embedded.down(theirs)


@pytest.mark.parametrize("door", ["with_sasl", "with_tls", "with_both"])
def test_everything_works_through_every_door(external: External, door: str) -> None:
    log = Log.open(getattr(external, door)())
    topic = Topic(f"orders-{door}", schema="id string NOT NULL, amount double", key="id")
    assert log.topics.create(topic)
    with log.writer() as writer:
        for number in range(10):
            writer.append(topic, {"id": str(number), "amount": 1.5})
    with log.read(topic) as reader:
        assert [record.value.id for record in reader] == [str(number) for number in range(10)]
    with log.join(f"readers-{door}", topic) as member:
        for count, _ in enumerate(member, start=1):
            if count == 10:
                break
        member.commit()
    (lag,) = log.lag(f"readers-{door}")
    assert (lag.committed, lag.lag) == (10, 0)


ACTS: dict[str, Callable[[Log, Topic], object]] = {
    "names": lambda log, _: log.topics.names(),
    "create": lambda log, topic: log.topics.create(topic),
    "write": lambda log, topic: log.writer().append(topic, {"id": "1"}),
    "read": lambda log, topic: log.read(topic),
    "lag": lambda log, _: log.lag(),
}


def told(act: Callable[[Log, Topic], object], settings: Settings) -> tuple[HeadwaterError, float]:
    """The error that an act ends with, and the seconds that it took."""
    began = time.monotonic()
    with pytest.raises(HeadwaterError) as raised:
        act(Log.open(settings), Topic("never", schema="id string"))
    return raised.value, time.monotonic() - began


def test_a_wrong_password_is_told_and_not_repeated_whatever_is_done_first(external: External) -> None:
    settings = external.with_sasl("not the s3cret")
    with ThreadPoolExecutor(len(ACTS)) as at_once:
        answers = list(at_once.map(lambda act: told(act, settings), ACTS.values()))
    for error, seconds in answers:
        assert isinstance(error, BrokerUnreachable)
        assert "Invalid username or password" in error.detail
        assert "SASL and TLS options" in error.hint
        assert "s3cret" not in str(error)
        assert seconds < 15


def test_a_broker_of_an_unknown_authority_is_not_trusted(external: External, tmp_path: Path) -> None:
    options = external.tls_options() | {"ssl.truststore.location": str(Authority(tmp_path).file)}
    error, _ = told(ACTS["names"], external.settings(external.tls, options))
    assert isinstance(error, BrokerUnreachable)
    assert "certificate verify failed" in error.detail


def test_a_certificate_that_does_not_exist_is_a_setting_to_change(external: External) -> None:
    options = external.tls_options() | {"ssl.truststore.location": "/nonexistent/ca.pem"}
    error, _ = told(ACTS["names"], external.settings(external.tls, options))
    assert isinstance(error, SettingsError)


def variables(settings: Settings) -> dict[str, str]:
    assert settings.kafka is not None
    options = {
        f"HEADWATER_KAFKA_{name.upper().replace('.', '_')}": value
        for name, value in settings.kafka_options.items()
    }
    return {"HEADWATER_KAFKA": settings.kafka, **options}


def test_up_and_status_start_nothing_and_say_so(external: External, tmp_path: Path) -> None:
    env = variables(external.with_sasl())
    up = run("up", folder=tmp_path, env=env)
    assert up.returncode == 0, up.stderr
    assert up.stdout == "nothing to start\n"
    assert f"kafka at {env['HEADWATER_KAFKA']} is not ours to start; it answers" in up.stderr
    assert json.loads(run("up", "--json", folder=tmp_path, env=env).stdout) == []
    rows = json.loads(run("status", "--json", folder=tmp_path, env=env).stdout)
    assert rows[0] == {
        "server": "kafka",
        "state": "external",
        "address": env["HEADWATER_KAFKA"],
        "pid": None,
        "memory_mb": None,
    }
    assert not (tmp_path / ".headwater" / "kafka").exists()


def test_down_leaves_an_external_kafka_alone(external: External, tmp_path: Path) -> None:
    env = variables(external.with_sasl())
    assert run("down", folder=tmp_path, env=env).stdout == "nothing was running\n"
    assert run("status", folder=tmp_path, env=env).returncode == 0


def test_a_wrong_password_is_one_message_on_the_command_line(external: External, tmp_path: Path) -> None:
    env = variables(external.with_sasl("not the s3cret"))
    started = [begin(verb, folder=tmp_path, env=env) for verb in ("up", "status")]
    for process in started:
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out) == (1, "")
        assert err.startswith("error: ")
        assert "Invalid username or password" in err
        assert "hint: " in err
        assert "Traceback" not in err
        assert "s3cret" not in err
