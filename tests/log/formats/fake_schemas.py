"""A registry in memory that allows every change: enough for codecs."""

from headwater.errors import UnknownSchema
from headwater.log.formats.framing import SchemaText
from headwater.log.formats.schema_text import schema_text
from headwater.log.topic import Topic


class FakeSchemas:
    """The schemas of one subject, numbered as they come."""

    def __init__(self) -> None:
        self.known: list[SchemaText] = []

    def register(self, topic: Topic) -> int:
        return self.add(schema_text(topic, lambda: [one.text for one in self.known]))

    def add(self, offered: SchemaText) -> int:
        if offered not in self.known:
            self.known.append(offered)
        return self.known.index(offered) + 1

    def schema(self, schema_id: int) -> SchemaText:
        if not 0 < schema_id <= len(self.known):
            raise UnknownSchema(f"no schema {schema_id}")
        return self.known[schema_id - 1]
