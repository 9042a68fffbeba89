"""What the tests of the registry share: a topic in any format that has schemas."""

import pytest

from headwater.log.topic import Format, Topic

WITH_SCHEMAS: tuple[Format, ...] = ("avro", "json-schema", "protobuf")
NARROW = "card string NOT NULL, amount double"
every_format = pytest.mark.parametrize("form", WITH_SCHEMAS)


def topic(name: str, schema: str, form: Format) -> Topic:
    return Topic(name, schema=schema, format=form)
