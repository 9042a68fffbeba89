"""The text that a topic offers to the registry, in its format."""

from collections.abc import Callable, Sequence

from headwater.errors import SpecError
from headwater.log.formats.avro import avro_schema
from headwater.log.formats.framing import SchemaText
from headwater.log.formats.json_schema import json_schema_text
from headwater.log.formats.proto_schema import proto_schema, proto_version
from headwater.log.topic import Topic


def schema_text(topic: Topic, history: Callable[[], Sequence[str]]) -> SchemaText:
    """The topic's schema as text; Protobuf's depends on all earlier versions, the oldest first."""
    match topic.format:
        case "avro":
            return SchemaText("avro", avro_schema(topic))
        case "json-schema":
            return SchemaText("json-schema", json_schema_text(topic))
        case "protobuf":
            return SchemaText("protobuf", _protobuf(topic, history()))
        case "json" | "changes":
            raise SpecError(
                f"topic {topic.name!r} is {topic.format}, which has no schema in a registry",
                hint='give it format="json-schema", "avro" or "protobuf"',
            )


def _protobuf(topic: Topic, history: Sequence[str]) -> str:
    known = proto_version(topic, history)
    return proto_schema(topic, history) if known is None else history[known]
