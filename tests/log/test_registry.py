"""The registry: schemas registered once and found again, in records that other clients read and write."""

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
from headwater.errors import SpecError, Undecodable, UnknownSchema
from headwater.log.formats import codec_for
from headwater.log.registry import Schemas, Version
from headwater.log.topic import Format
from headwater.settings import Settings
from tests.log.registering import NARROW, every_format, topic

pytestmark = pytest.mark.system


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


def test_what_the_registry_does_not_hold_is_unknown(schemas: Schemas, name: str) -> None:
    with pytest.raises(UnknownSchema, match="schema 999999"):
        schemas.schema(999999)
    with pytest.raises(UnknownSchema, match=f"versions of {name}-value"):
        schemas.versions(name)
    with pytest.raises(UnknownSchema, match=f"latest version of {name}-value"):
        schemas.latest(name)


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


def test_the_embedded_registry_listens_on_loopback_only(registry: Settings) -> None:
    (state,) = (one for one in embedded.status(registry) if one.name == "registry")
    listening = [
        one.laddr.ip
        for one in psutil.Process(state.pid).net_connections()
        if one.status == psutil.CONN_LISTEN
    ]
    assert listening
    assert {ip.removeprefix("::ffff:") for ip in listening} == {"127.0.0.1"}
