"""The codec of a topic, by its format; only formats with a schema ask for the registry."""

from collections.abc import Callable

from headwater.log.formats.avro import AvroCodec
from headwater.log.formats.codec import Codec, JsonCodec
from headwater.log.formats.framing import Registered
from headwater.log.formats.json_schema import JsonSchemaCodec
from headwater.log.formats.protobuf import ProtobufCodec
from headwater.log.topic import Topic


def codec_for(topic: Topic, schemas: Callable[[], Registered]) -> Codec:
    """The topic's codec; `schemas` is called only when the format needs a registry."""
    match topic.format:
        case "json":
            return JsonCodec(topic)
        case "json-schema":
            return JsonSchemaCodec(topic, schemas())
        case "avro":
            return AvroCodec(topic, schemas())
        case "protobuf":
            return ProtobufCodec(topic, schemas())
