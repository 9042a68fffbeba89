"""The codec of a topic, by its format; only formats with a schema ask for the registry.

A format's libraries are loaded when a topic has that format: Avro's and Protobuf's are 10 MB in every
process.
"""
# ruff: noqa: PLC0415

from collections.abc import Callable

from headwater.log.formats.changes import ChangesCodec
from headwater.log.formats.codec import Codec, JsonCodec
from headwater.log.formats.framing import Registered
from headwater.log.topic import Topic


def codec_for(topic: Topic, schemas: Callable[[], Registered]) -> Codec:
    """The topic's codec; `schemas` is called only when the format needs a registry."""
    match topic.format:
        case "json":
            return JsonCodec(topic)
        case "changes":
            return ChangesCodec(topic)
        case "json-schema":
            from headwater.log.formats.json_schema import JsonSchemaCodec

            return JsonSchemaCodec(topic, schemas())
        case "avro":
            from headwater.log.formats.avro import AvroCodec

            return AvroCodec(topic, schemas())
        case "protobuf":
            from headwater.log.formats.protobuf import ProtobufCodec

            return ProtobufCodec(topic, schemas())
