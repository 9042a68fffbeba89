import struct
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal

import msgspec
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import SpecError, Undecodable, ValueMismatch
from headwater.log.formats.framing import SchemaText
from headwater.log.formats.proto_schema import proto_schema, proto_version
from headwater.log.formats.proto_text import parse_proto
from headwater.log.formats.protobuf import ProtobufCodec
from headwater.log.topic import Topic
from tests.log.formats.fake_schemas import FakeSchemas
from tests.log.formats.rows import EPOCH, Case, cases

PAYMENTS = Topic("payments", schema="card string NOT NULL, amount double", format="protobuf")

THEIRS = """
// a file that other people wrote
syntax = 'proto3';
package com.acme.pay;
import "google/protobuf/timestamp.proto";
option java_package = "com.acme; // not a comment";
option (their.option) = { list: [1, 2], nested { deep: "}" } };

enum Colour { RED = 0; BLUE = 1; }
message Unrelated { repeated int32 numbers = 1 [packed = true]; }
message Envelope {
  /* message Fake { string card = 9; } */
  reserved 4, 10 to 12, 1000 to max;
  reserved "old", "older";
  message Payment {
    string card = 3 [(their.check) = { min: 1 }, deprecated = true];
    oneof amount_or_note { double amount = 5; string note = 6; }
    Colour colour = 7;
    map<string, .com.acme.pay.Envelope.Tag> tags = 0x8;
    google.protobuf.Timestamp at = 9;
    sint64 delta = 10;
    optional int32 maybe = 11;
  }
  message Tag { string value = 2; }
  Payment payment = 1;
}
service Payments { rpc Pay (Envelope) returns (Unrelated) { option (x) = 1; } }
"""


def topic(schema: str, name: str = "payments") -> Topic:
    return Topic(name, schema=schema, format="protobuf")


def framed(schema_id: int, payload: bytes) -> bytes:
    return b"\0" + struct.pack(">I", schema_id) + payload


@given(cases("protobuf"))
def test_what_decodes_equals_what_was_encoded(case: Case) -> None:
    codec = ProtobufCodec(case.topic, FakeSchemas())
    assert codec.decode(codec.encode(case.value)) == msgspec.convert(case.value, case.topic.row)


def test_a_record_is_framed_with_the_schemas_id_and_the_first_messages_index() -> None:
    data = ProtobufCodec(PAYMENTS, FakeSchemas()).encode({"card": "42", "amount": None})
    assert data == framed(1, b"\0" + b"\x0a\x0242")


def test_the_schema_reads_as_a_person_would_write_it() -> None:
    busy = topic("card string NOT NULL, at timestamp, tags array<string>, m map<int, struct<n long>>")
    assert proto_schema(busy) == (
        'syntax = "proto3";\n'
        'import "google/protobuf/timestamp.proto";\n'
        "\n"
        "message Payments {\n"
        "  optional string card = 1;\n"
        "  optional google.protobuf.Timestamp at = 2;\n"
        "  repeated string tags = 3;\n"
        "  message m_record {\n"
        "    optional int64 n = 1;\n"
        "  }\n"
        "  map<int32, m_record> m = 4;\n"
        "}\n"
    )


def test_null_and_zero_and_empty_are_three_things() -> None:
    codec = ProtobufCodec(topic("n int, s string, at timestamp, x struct<n int>"), FakeSchemas())
    for value in ({}, {"n": 0, "s": "", "at": EPOCH, "x": {}}, {"x": {"n": 0}}):
        kept = {"n": None, "s": None, "at": None, "x": None} | value
        assert codec.decode(codec.encode(value)) == msgspec.convert(kept, codec._topic.row)


def test_a_column_keeps_its_number_wherever_it_stands() -> None:
    first = proto_schema(topic("a int, b int, c int"))
    second = parse_proto(proto_schema(topic("c int, new int, a int"), [first])).messages["Payments"]
    assert {one.name: one.number for one in second.fields.values()} == {"c": 3, "new": 4, "a": 1}


def test_a_number_is_never_used_again() -> None:
    history = [proto_schema(topic("a int, b int"))]
    history.append(proto_schema(topic("a int"), history))
    third = parse_proto(proto_schema(topic("a int, c string"), history)).messages["Payments"]
    assert third.fields["c"].number == 3


def test_a_column_that_comes_back_has_its_old_number_again() -> None:
    history = [proto_schema(topic("a int, b int"))]
    history.append(proto_schema(topic("a int"), history))
    history.append(proto_schema(topic("a int, c string"), history))
    fourth = parse_proto(proto_schema(topic("b int, a int"), history)).messages["Payments"]
    assert fourth.fields["b"].number == 2


def test_numbers_inside_of_structs_are_kept_too() -> None:
    first = proto_schema(topic("s array<struct<a int, b int>>"))
    second = parse_proto(proto_schema(topic("s array<struct<c int, b int>>"), [first]))
    inner = second.messages["Payments"].messages["s_record"]
    assert {one.name: one.number for one in inner.fields.values()} == {"c": 3, "b": 2}


def test_numbers_that_other_people_reserved_are_left_alone() -> None:
    earlier = 'syntax = "proto3"; message Payments { reserved 7 to 9, 100 to max; string a = 2; }'
    made = parse_proto(proto_schema(topic("a string, b int"), [earlier])).messages["Payments"]
    assert {one.name: one.number for one in made.fields.values()} == {"a": 2, "b": 10}


def test_an_older_version_is_known_again() -> None:
    old, new = topic("a int, b int"), topic("a int, c int")
    history = [proto_schema(old)]
    history.append(proto_schema(new, history))
    assert proto_version(old, history) == 0
    assert proto_version(new, history) == 1
    assert proto_version(topic("z int"), history) is None


def test_a_new_reader_reads_old_records_and_an_old_one_new_records() -> None:
    schemas = FakeSchemas()
    wider = topic("country string, card string NOT NULL, amount double, l array<int>")
    old, new = ProtobufCodec(PAYMENTS, schemas), ProtobufCodec(wider, schemas)
    data = old.encode({"card": "42", "amount": 1.5})
    assert new.decode(data) == wider.row(card="42", amount=1.5, country=None, l=None)
    data = new.encode({"card": "42", "country": "SE", "l": [1]})
    assert old.decode(data) == PAYMENTS.row(card="42", amount=None)


def test_a_null_list_that_was_left_empty_is_read_as_an_empty_one() -> None:
    codec = ProtobufCodec(topic("l array<int>, m map<string, int>"), FakeSchemas())
    assert codec.decode(codec.encode({"l": [], "m": {}})) == codec._topic.row(l=[], m={})


@pytest.mark.parametrize(
    ("schema", "value", "why"),
    [
        ("l array<int>", {}, "protobuf has no null array, only an empty one - at `\\$.l`"),
        ("m map<string, int>", {}, "protobuf has no null map, only an empty one"),
        ("l array<int>", {"l": [1, None]}, "protobuf has no null inside of arrays"),
        ("m map<string, int>", {"m": {"a": None}}, "protobuf has no null inside of maps"),
        ("n int", {"n": "seven"}, "Expected `int"),
        ("n int NOT NULL", {}, "missing required field `n`"),
        ("f float", {"f": 1e39}, "Expected `float` <="),
        ("s struct<d decimal(4,2)>", {"s": {"d": Decimal("1.234")}}, "1.234 does not fit"),
        ("t string", {"t": "\ud800"}, "surrogates|UTF-8|utf-8"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(schema: str, value: object, why: str) -> None:
    with pytest.raises(ValueMismatch, match=why):
        ProtobufCodec(topic(schema), FakeSchemas()).encode(value)


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ("l array<array<int>>", "no lists or maps right inside lists or maps"),
        ("m map<string, array<int>>", "no lists or maps right inside lists or maps"),
        ("m map<double, int>", "a map's key is a text, a whole number or a boolean"),
        ("`größe` int", "cannot be named in protobuf"),
    ],
)
def test_a_schema_that_protobuf_cannot_say_is_refused(schema: str, why: str) -> None:
    with pytest.raises(SpecError, match=why):
        ProtobufCodec(topic(schema), FakeSchemas())


def theirs() -> bytes:
    """A Payment of THEIRS, written with a descriptor made by hand."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="theirs.proto", syntax="proto3")
    tag = file.message_type.add(name="Tag")
    tag.field.add(name="value", number=2, type=field.TYPE_STRING, label=1)
    payment = file.message_type.add(name="Payment")
    entry = payment.nested_type.add(name="TagsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=field.TYPE_STRING, label=1)
    entry.field.add(name="value", number=2, type=field.TYPE_MESSAGE, type_name=".Tag", label=1)
    payment.field.add(name="card", number=3, type=field.TYPE_STRING, label=1)
    payment.field.add(name="note", number=6, type=field.TYPE_STRING, label=1)
    payment.field.add(name="tags", number=8, type=field.TYPE_MESSAGE, type_name=".Payment.TagsEntry", label=3)
    payment.field.add(name="delta", number=10, type=field.TYPE_SINT64, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    message = message_factory.GetMessageClass(pool.FindMessageTypeByName("Payment"))(note="n", delta=-3)
    message.tags["a"].value = "b"
    data: bytes = message.SerializeToString()
    return data


def test_records_of_another_peoples_schema_are_read() -> None:
    schemas = FakeSchemas()
    schema_id = schemas.add(SchemaText("protobuf", THEIRS))
    ours = topic(
        "card string NOT NULL, amount double, note string, tags map<string, struct<value string>>, "
        "at timestamp, delta long, maybe int, missing string"
    )
    # Payment is the first message inside of the second: two indexes, 1 and 0, in zigzag
    row = ProtobufCodec(ours, schemas).decode(framed(schema_id, b"\x04\x02\x00" + theirs()))
    assert msgspec.to_builtins(row) == {
        "card": "",  # without `optional`, proto3 means the empty text when it says nothing
        "amount": None,
        "note": "n",
        "tags": {"a": {"value": "b"}},
        "at": None,
        "delta": -3,
        "maybe": None,
        "missing": None,
    }


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ("card array<string>", "column 'card' is array<string> here and string there"),
        ("card timestamp", "column 'card' is timestamp here and string there"),
        ("card struct<n int>", "here and string there"),
        ("card int", "Expected `int"),
        ("at string", "here and google.protobuf.Timestamp there"),
        ("tags string", "here and map<string, .com.acme.pay.Envelope.Tag> there"),
        ("colour string", "here and Colour there"),
    ],
)
def test_a_column_of_another_type_than_its_writers_is_undecodable(schema: str, why: str) -> None:
    schemas = FakeSchemas()
    schema_id = schemas.add(SchemaText("protobuf", THEIRS))
    with pytest.raises(Undecodable, match=why):
        ProtobufCodec(topic(schema), schemas).decode(framed(schema_id, b"\x04\x02\x00" + theirs()))


def test_an_instant_outside_of_pythons_years_is_undecodable() -> None:
    codec = ProtobufCodec(topic("at timestamp"), FakeSchemas())
    data = codec.encode({"at": datetime(9999, 12, 31, tzinfo=UTC)})
    assert len(data) == 15
    later = b"\x0a\x07\x08\xff\xff\xff\xff\xff\x7f"
    with pytest.raises(Undecodable, match="date value out of range"):
        codec.decode(data[:6] + later)


@given(st.binary(max_size=40))
def test_garbage_is_undecodable_or_a_row_but_never_another_error(data: bytes) -> None:
    busy = topic(
        "s string, n long, d decimal(9,2), at timestamp, l array<date>, m map<string, timestamp_ntz>"
    )
    codec = ProtobufCodec(busy, FakeSchemas())
    codec.encode({"l": [], "m": {}})
    for one in (data, framed(1, data), framed(1, b"\0" + data)):
        with suppress(Undecodable):
            assert isinstance(codec.decode(one), busy.row)


@given(
    st.text()
    | st.lists(st.sampled_from(["message", "A", "{", "}", "=", "1", ";", "map", "<", ">"])).map(" ".join)
)
def test_a_text_that_is_no_schema_is_refused_and_nothing_else(text: str) -> None:
    with suppress(ValueError):
        parse_proto(text)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\0\0\0\0", "4 bytes are too few"),
        (b"\x0a\x02\x34\x32\0\0", "its first byte is 10, not 0"),
        (framed(99, b"\0"), "its schema 99 is unknown to the registry"),
        (framed(1, b""), "the message's position in its schema cannot be read"),
        (framed(1, b"\x02\x08\x0a\x0242"), "its schema has no message 4"),
        (framed(1, b"\x01\x0a\x0242"), "position"),
        (framed(1, b"\0\x0a\x0942"), "Error parsing message"),
        (framed(1, b"\0"), r"Expected `str`, got `null` - at `\$.card`"),
        (framed(2, b"\0"), "its schema 2 is avro"),
        (framed(3, b"\0"), "its schema 3 cannot be used: the schema's text ends too early"),
    ],
)
def test_what_is_not_a_record_is_undecodable(data: bytes, why: str) -> None:
    schemas = FakeSchemas()
    codec = ProtobufCodec(PAYMENTS, schemas)
    codec.encode({"card": "42"})
    schemas.add(SchemaText("avro", '"string"'))
    schemas.add(SchemaText("protobuf", "message A {"))
    with pytest.raises(Undecodable, match=why):
        codec.decode(data)
