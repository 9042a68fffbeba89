import itertools
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import msgspec
import psutil
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.timestamp_pb2 import Timestamp

from headwater import embedded
from headwater.clock import Deadline
from headwater.embedded.ports import a_free_port
from headwater.errors import (
    RegistryError,
    RegistryMissing,
    RegistryUnreachable,
    SchemaIncompatible,
    SettingsError,
    SpecError,
    Undecodable,
    UnknownSchema,
)
from headwater.log.formats import codec_for
from headwater.log.registry import MODES, Mode, Schemas, Version
from headwater.log.topic import Format, Topic
from headwater.settings import Settings

pytestmark = pytest.mark.system
WITH_SCHEMAS: tuple[Format, ...] = ("avro", "json-schema", "protobuf")
NARROW = "card string NOT NULL, amount double"
WIDE = "card string NOT NULL, amount double, country string"
every_format = pytest.mark.parametrize("form", WITH_SCHEMAS)
_numbers = itertools.count()


@pytest.fixture
def schemas(registry: Settings) -> Schemas:
    return Schemas.open(registry)


@pytest.fixture
def name() -> str:
    return f"payments-{next(_numbers)}"


def topic(name: str, schema: str, form: Format) -> Topic:
    return Topic(name, schema=schema, format=form)


def allows(schemas: Schemas, offered: Topic) -> bool:
    """What check says; register must say the same."""
    try:
        schemas.check(offered)
    except SchemaIncompatible:
        with pytest.raises(SchemaIncompatible):
            schemas.register(offered)
        return False
    return True


@every_format
def test_a_schema_is_registered_once(schemas: Schemas, name: str, form: Format) -> None:
    payments = topic(name, NARROW, form)
    schemas.check(payments)
    first = schemas.register(payments)
    assert schemas.register(payments) == first
    assert schemas.versions(name) == [1]
    assert f"{name}-value" in schemas.subjects()
    found = schemas.schema(first)
    assert found.kind == form
    assert schemas.latest(name) == Version(form, found.text, number=1, id=first)


@every_format
def test_old_and_new_readers_read_new_and_old_records(registry: Settings, name: str, form: Format) -> None:
    v1, v2 = topic(name, NARROW, form), topic(name, WIDE, form)
    old, new = (codec_for(one, lambda: Schemas.open(registry)) for one in (v1, v2))
    before = old.encode({"card": "42", "amount": 1.5})
    after = new.encode({"card": "43", "amount": None, "country": "SE"})
    assert new.decode(before) == v2.row(card="42", amount=1.5, country=None)
    assert old.decode(after) == v1.row(card="43", amount=None)
    assert old.decode(before) == v1.row(card="42", amount=1.5)
    assert new.decode(after) == v2.row(card="43", amount=None, country="SE")


@every_format
def test_an_old_writer_goes_on_after_a_new_version(registry: Settings, name: str, form: Format) -> None:
    v1, v2 = topic(name, NARROW, form), topic(name, WIDE, form)
    for one in (v1, v2):
        codec_for(one, lambda: Schemas.open(registry)).encode({"card": "42"})
    schemas = Schemas.open(registry)
    schemas.check(v1)
    assert schemas.register(v1) == schemas.version(name, 1).id
    assert schemas.versions(name) == [1, 2]


CHANGES: dict[str, tuple[str, str]] = {
    "add": (NARROW, WIDE),
    "drop": (WIDE, NARROW),
    "require": (NARROW, WIDE + " NOT NULL"),
    "widen": ("n int", "n long"),
    "retype": (NARROW, "card int NOT NULL, amount double"),
}
ALLOWED: dict[tuple[Format, Mode], set[str]] = {  # the table in docs/how-to/evolve-a-schema.md
    ("avro", "backward"): {"add", "drop", "widen"},
    ("avro", "forward"): {"add", "drop", "require"},
    ("avro", "full"): {"add", "drop"},
    ("json-schema", "backward"): {"add", "widen"},
    ("json-schema", "forward"): {"drop"},
    ("json-schema", "full"): set(),
    ("protobuf", "backward"): {"add", "require"},  # Protobuf does not know NOT NULL
    ("protobuf", "forward"): {"drop"},
    ("protobuf", "full"): {"add", "drop", "require"},
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(("form", "mode"), ALLOWED)
def test_a_mode_allows_some_changes_and_refuses_others(
    schemas: Schemas, name: str, form: Format, mode: Mode, change: str
) -> None:
    before, after = (topic(name, schema, form) for schema in CHANGES[change])
    schemas.register(before)
    schemas.set_mode(name, mode)
    assert allows(schemas, after) == (change in ALLOWED[form, mode])


def test_a_refused_avro_change_says_what_is_wrong(schemas: Schemas, name: str) -> None:
    schemas.register(topic(name, NARROW, "avro"))
    with pytest.raises(SchemaIncompatible) as refused:
        schemas.register(topic(name, NARROW + ", country string NOT NULL", "avro"))
    assert str(refused.value).startswith(
        f"the schema of topic '{name}' changes in a way that its mode 'backward' does not allow"
    )
    assert "country at /fields/2" in refused.value.detail
    assert "evolve-a-schema" in refused.value.hint


@pytest.mark.parametrize(("mode", "added"), [("backward", False), ("forward", True), ("full", False)])
def test_a_column_that_is_not_null_can_be_added_only_forward(
    schemas: Schemas, name: str, mode: Mode, added: bool
) -> None:
    schemas.register(topic(name, NARROW, "avro"))
    schemas.set_mode(name, mode)
    assert allows(schemas, topic(name, NARROW + ", country string NOT NULL", "avro")) == added


@every_format
def test_a_transitive_mode_looks_at_every_version(schemas: Schemas, name: str, form: Format) -> None:
    schemas.register(topic(name, "card string, amount double", form))
    schemas.set_mode(name, "none")
    schemas.register(topic(name, "card string", form))
    back = topic(name, "card string, amount string", form)
    schemas.set_mode(name, "full-transitive")
    assert not allows(schemas, back)
    schemas.set_mode(name, "forward" if form == "json-schema" else "backward")
    assert allows(schemas, back) == (form != "json-schema")


def test_a_new_registry_is_backward(schemas: Schemas, name: str) -> None:
    assert schemas.mode(name) == "backward"
    schemas.register(topic(name, NARROW, "avro"))
    assert schemas.mode(name) == "backward"


@pytest.mark.parametrize("mode", MODES)
def test_a_mode_that_was_set_is_the_one_that_holds(schemas: Schemas, name: str, mode: Mode) -> None:
    schemas.register(topic(name, NARROW, "avro"))
    schemas.set_mode(name, mode)
    assert schemas.mode(name) == mode
    schemas.set_mode(name, "forward")
    assert schemas.mode(name) == "forward"


@every_format
def test_mode_none_allows_everything(schemas: Schemas, name: str, form: Format) -> None:
    schemas.register(topic(name, NARROW, form))
    schemas.set_mode(name, "none")
    schemas.set_mode(name, "none")
    other = topic(name, "nothing int NOT NULL, card boolean", form)
    assert allows(schemas, other)
    schemas.register(other)
    assert schemas.versions(name) == [1, 2]


def test_a_mode_that_is_none_is_refused(schemas: Schemas, name: str) -> None:
    with pytest.raises(SpecError, match="'sideways' is not a mode"):
        schemas.set_mode(name, "sideways")  # type: ignore[arg-type]


def test_a_mode_can_be_set_before_the_first_schema(schemas: Schemas, name: str) -> None:
    schemas.set_mode(name, "full")
    assert schemas.mode(name) == "full"
    schemas.register(topic(name, NARROW, "avro"))
    assert schemas.mode(name) == "full"
    assert not allows(schemas, topic(name, NARROW + ", country string NOT NULL", "avro"))


def test_mode_none_needs_a_schema_first(schemas: Schemas, name: str) -> None:
    with pytest.raises(UnknownSchema, match=f"set the mode of {name}-value"):
        schemas.set_mode(name, "none")


def test_what_the_registry_does_not_hold_is_unknown(schemas: Schemas, name: str) -> None:
    with pytest.raises(UnknownSchema, match="schema 999999"):
        schemas.schema(999999)
    with pytest.raises(UnknownSchema, match=f"versions of {name}-value"):
        schemas.versions(name)
    with pytest.raises(UnknownSchema, match=f"latest version of {name}-value"):
        schemas.latest(name)


def test_a_topic_keeps_its_format(schemas: Schemas, name: str) -> None:
    schemas.register(topic(name, NARROW, "avro"))
    for ask in (schemas.check, schemas.register):
        with pytest.raises(SchemaIncompatible, match="is protobuf, but its registered schema is avro"):
            ask(topic(name, NARROW, "protobuf"))


def test_plain_json_has_no_schema(schemas: Schemas, name: str) -> None:
    with pytest.raises(SpecError, match="which has no schema in a registry"):
        schemas.register(topic(name, NARROW, "json"))


def test_plain_json_never_asks_for_the_registry() -> None:
    payments = topic("payments", NARROW, "json")
    codec = codec_for(payments, lambda: pytest.fail("asked"))
    assert codec.decode(codec.encode({"card": "42"})) == payments.row(card="42")


BUSY = (
    "s string NOT NULL, b boolean, y byte, h short, i int, l long, f float, d double, x binary, dt date, "
    "at timestamp, local timestamp_ntz, dec decimal(12,2), a array<string>, m map<string, long>, "
    "st struct<n int, deep struct<at timestamp>>, many array<struct<n int NOT NULL>>"
)


@every_format
def test_the_registry_takes_every_type(registry: Settings, name: str, form: Format) -> None:
    busy = topic(name, BUSY, form)
    codec = codec_for(busy, lambda: Schemas.open(registry))
    value = {"s": "", "a": ["x"], "m": {"k": 1}, "many": [{"n": 1}], "st": {"deep": {}}}
    assert codec.decode(codec.encode(value)) == msgspec.convert(value, busy.row)


@every_format
def test_a_record_of_another_topic_without_our_columns_is_undecodable(
    registry: Settings, name: str, form: Format
) -> None:
    other = codec_for(topic(f"{name}-other", "n int", form), lambda: Schemas.open(registry))
    with pytest.raises(Undecodable, match="card"):
        codec_for(topic(name, NARROW, form), lambda: Schemas.open(registry)).decode(other.encode({"n": 1}))


def confluent(registry: Settings) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": embedded.registry_url(registry)})


def test_confluents_own_deserializers_read_our_records(registry: Settings, name: str) -> None:
    context = SerializationContext(name, MessageField.VALUE)
    value = {"card": "42", "amount": 1.5}
    with confluent(registry) as client:
        data = codec_for(topic(name, NARROW, "avro"), lambda: Schemas.open(registry)).encode(value)
        assert AvroDeserializer(client)(data, context) == value
        data = codec_for(topic(f"{name}-j", NARROW, "json-schema"), lambda: Schemas.open(registry)).encode(
            value
        )
        assert JSONDeserializer(None, schema_registry_client=client)(data, context) == value


def test_we_read_the_records_of_confluents_own_serializers(registry: Settings, name: str) -> None:
    context = SerializationContext(name, MessageField.VALUE)
    theirs = '{"type": "record", "name": "P", "fields": [{"name": "card", "type": "string"}]}'
    payments = topic(name, NARROW, "avro")
    with confluent(registry) as client:
        data = AvroSerializer(client, theirs)({"card": "42"}, context)
    codec = codec_for(payments, lambda: Schemas.open(registry))
    assert codec.decode(data) == payments.row(card="42", amount=None)


def test_confluents_protobuf_deserializer_reads_our_records_and_we_read_an_index_spelt_out(
    registry: Settings, name: str
) -> None:
    context = SerializationContext(name, MessageField.VALUE)
    instant = topic(name, "seconds long, nanos int", "protobuf")
    codec = codec_for(instant, lambda: Schemas.open(registry))
    value = Timestamp(seconds=7, nanos=9)
    assert ProtobufDeserializer(Timestamp, {})(codec.encode({"seconds": 7, "nanos": 9}), context) == value
    frame = codec.encode({"seconds": 7, "nanos": 9})[:5]
    assert codec.decode(frame + b"\x02\x00" + value.SerializeToString()) == instant.row(seconds=7, nanos=9)


def test_without_a_registry_there_is_a_hint(tmp_path: Path) -> None:
    with pytest.raises(RegistryMissing, match="there is no schema registry") as missing:
        Schemas.open(Settings(home=tmp_path))
    assert "headwater up --with registry" in missing.value.hint
    assert "HEADWATER_REGISTRY" in missing.value.hint


@pytest.fixture
def silent() -> Iterator[int]:
    """A port that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@every_format
def test_a_registry_that_is_down_is_told_at_once_and_nothing_is_encoded(form: Format) -> None:
    settings = Settings(registry=f"http://127.0.0.1:{a_free_port()}")
    codec = codec_for(topic("payments", NARROW, form), lambda: Schemas.open(settings))
    deadline = Deadline(timedelta(seconds=5))
    with pytest.raises(RegistryUnreachable, match="does not answer") as unreachable:
        codec.encode({"card": "42"})
    assert not deadline.passed
    assert "headwater up --with registry" in unreachable.value.hint


def test_a_registry_that_never_answers_is_given_up_after_five_seconds(silent: int) -> None:
    schemas = Schemas.open(Settings(registry=f"http://127.0.0.1:{silent}"))
    deadline = Deadline(timedelta(seconds=8))
    with pytest.raises(RegistryUnreachable):
        schemas.register(topic("payments", NARROW, "avro"))
    assert not deadline.passed


def test_how_long_to_wait_is_an_option(silent: int) -> None:
    patience = {"timeout": "0.1"}
    schemas = Schemas.open(Settings(registry=f"http://127.0.0.1:{silent}", registry_options=patience))
    deadline = Deadline(timedelta(seconds=2))
    with pytest.raises(RegistryUnreachable):
        schemas.subjects()
    assert not deadline.passed


def test_an_option_that_the_client_does_not_know_is_refused() -> None:
    settings = Settings(registry="http://127.0.0.1:1", registry_options={"colour": "blue"})
    with pytest.raises(SettingsError, match="the registry's options cannot be used"):
        Schemas.open(settings)
    with pytest.raises(SettingsError, match="the registry's options cannot be used"):
        Schemas.open(Settings(registry="http://127.0.0.1:1", registry_options={"timeout": "soon"}))


@contextmanager
def answering(status: int, body: bytes, seen: list[str]) -> Iterator[str]:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers.get("Authorization", ""))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_something_else_that_answers_is_not_a_registry() -> None:
    with (
        answering(200, b"<html>hello</html>", []) as url,
        pytest.raises(RegistryError, match="not a schema registry"),
    ):
        Schemas.open(Settings(registry=url)).subjects()


def test_credentials_are_sent_and_a_refusal_names_their_option() -> None:
    seen: list[str] = []
    with answering(401, b"{}", seen) as url:
        settings = Settings(registry=url, registry_options={"basic.auth.user.info": "ann:secret"})
        with pytest.raises(RegistryError, match="does not let us in") as refused:
            Schemas.open(settings).subjects()
    assert seen == ["Basic YW5uOnNlY3JldA=="]
    assert "basic.auth.user.info" in refused.value.hint
    assert "secret" not in str(refused.value)


def test_a_password_in_the_address_is_not_shown() -> None:
    schemas = Schemas.open(Settings(registry=f"http://ann:secret@127.0.0.1:{a_free_port()}"))
    with pytest.raises(RegistryUnreachable) as unreachable:
        schemas.subjects()
    assert "secret" not in str(unreachable.value)


def test_a_failure_of_the_registrys_own_is_passed_on() -> None:
    body = b'{"error_code": 50001, "message": "backend store down"}'
    with (
        answering(500, body, []) as url,
        pytest.raises(RegistryError, match="the registry refused") as refused,
    ):
        Schemas.open(Settings(registry=url)).subjects()
    assert refused.value.detail == "backend store down (HTTP 500)"


def test_the_embedded_registry_listens_on_loopback_only(registry: Settings) -> None:
    (state,) = (one for one in embedded.status(registry) if one.name == "registry")
    listening = [
        one.laddr.ip
        for one in psutil.Process(state.pid).net_connections()
        if one.status == psutil.CONN_LISTEN
    ]
    assert listening
    assert {ip.removeprefix("::ffff:") for ip in listening} == {"127.0.0.1"}
