"""Schemas: a client of the schema registry, in the Confluent registry's protocol.

A topic's schema stands under the subject `<topic>-value`, in versions. The subject's mode says which
changes are allowed: under `backward` readers of the new version can read what the version before it
wrote, under `forward` the other way round, under `full` both; `-transitive` means every version
and not only the last. Registering is checking: the registry does both in one step.
"""

import json
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args
from urllib.parse import quote

from confluent_kafka.schema_registry import ConfigCompatibilityLevel as Level
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, ServerConfig
from confluent_kafka.schema_registry.error import SchemaRegistryError

from headwater.errors import RegistryError, SchemaIncompatible, SpecError, UnknownSchema
from headwater.log.formats.framing import Kind, SchemaText
from headwater.log.formats.schema_text import schema_text
from headwater.log.registry_edge import is_missing, registry_client, registry_edge
from headwater.log.topic import Topic
from headwater.settings import Settings

Mode = Literal[
    "none", "backward", "backward-transitive", "forward", "forward-transitive", "full", "full-transitive"
]
"""Which changes of a topic's schema the registry allows."""

MODES: tuple[Mode, ...] = get_args(Mode)
_SPOKEN: dict[Kind, str] = {"avro": "AVRO", "json-schema": "JSON", "protobuf": "PROTOBUF"}
_KINDS: dict[str, Kind] = {spoken: kind for kind, spoken in _SPOKEN.items()}
_APICURIO = "/apis/ccompat/"


@dataclass(frozen=True)
class Version(SchemaText):
    """One version of a topic's schema; its id is what records carry."""

    number: int
    id: int


class Schemas:
    """The schemas of topics, as a registry keeps them."""

    def __init__(self, client: SchemaRegistryClient, url: str) -> None:
        self._client = client
        self._url = url
        self._closed = weakref.finalize(self, client.close)

    @classmethod
    def open(cls, settings: Settings) -> Self:
        """The registry that the settings name, or the embedded one; nothing is asked of it yet."""
        return cls(*registry_client(settings))

    def close(self) -> None:
        """Let go of the connection; this happens by itself when the last user is gone."""
        self._closed()

    def check(self, topic: Topic) -> None:
        """SchemaIncompatible when the topic's schema would not be allowed; a first one always is."""
        offered = self._offered(topic)
        if not self._is_allowed(topic, offered):
            raise _incompatible(topic, self.mode(topic.name), f"offered: {offered.text}")

    def register(self, topic: Topic) -> int:
        """The id of the topic's schema, a new version if it is new; SchemaIncompatible if not allowed."""
        offered = self._offered(topic)
        try:
            with registry_edge(self._url, f"register {_subject(topic.name)}"):
                return int(self._client.register_schema(_subject(topic.name), _spoken(offered)))
        except SchemaIncompatible as error:
            raise _incompatible(topic, self.mode(topic.name), error.detail) from error

    def schema(self, schema_id: int) -> SchemaText:
        """The schema of an id."""
        with registry_edge(self._url, f"schema {schema_id}"):
            return _schema_text(self._client.get_schema(schema_id))

    def subjects(self) -> list[str]:
        """All subjects, in order."""
        with registry_edge(self._url, "list the subjects"):
            return sorted(self._client.get_subjects())

    def versions(self, topic_name: str) -> list[int]:
        """The numbers of a topic's versions, the oldest first."""
        with registry_edge(self._url, f"versions of {_subject(topic_name)}"):
            return sorted(self._client.get_versions(_subject(topic_name)))

    def version(self, topic_name: str, number: int) -> Version:
        """One version of a topic's schema."""
        with registry_edge(self._url, f"version {number} of {_subject(topic_name)}"):
            return _version(self._client.get_version(_subject(topic_name), number))

    def latest(self, topic_name: str) -> Version:
        """The last version of a topic's schema."""
        client: Any = self._client
        client.clear_latest_caches()  # it would repeat its first answer for ever
        with registry_edge(self._url, f"latest version of {_subject(topic_name)}"):
            return _version(client.get_latest_version(_subject(topic_name)))

    def mode(self, topic_name: str) -> Mode:
        """The mode that holds for a topic: its own, or the registry's."""
        path = f"config/{quote(_subject(topic_name), safe='')}"
        with registry_edge(self._url, f"mode of {_subject(topic_name)}"):
            try:  # the client's own call cannot ask for the mode that holds, only for a subject's own
                said = self._client._rest_client.get(path, {"defaultToGlobal": "true"})  # noqa: SLF001
            except SchemaRegistryError as error:
                if not is_missing(error):
                    raise
                said = self._client._rest_client.get("config")  # noqa: SLF001
            return _mode(said["compatibilityLevel"])

    def set_mode(self, topic_name: str, mode: Mode) -> None:
        """Give a topic a mode of its own; the embedded registry takes `none` only after a first schema."""
        if mode not in MODES:
            raise SpecError(f"{mode!r} is not a mode", hint=f"known: {', '.join(MODES)}")
        subject = _subject(topic_name)
        with registry_edge(self._url, f"set the mode of {subject}"):
            level = Level(mode.upper().replace("-", "_"))
            self._client.set_config(subject, ServerConfig(compatibility=level))
        if mode == "none" and self.mode(topic_name) != "none":
            self._insist_on_none(subject)

    def _insist_on_none(self, subject: str) -> None:
        """Apicurio takes NONE for "no mode of its own", and the global one holds again; its own API can."""
        base, found, _ = self._url.partition(_APICURIO)
        if not found:
            raise RegistryError(f"the registry does not keep mode 'none' for {subject}")
        path = f"apis/registry/v3/groups/default/artifacts/{quote(subject, safe='')}/rules"
        body = json.dumps({"ruleType": "COMPATIBILITY", "config": "NONE"})
        with registry_edge(self._url, f"set the mode of {subject}"):
            rest = self._client._rest_client  # noqa: SLF001 - for its credentials
            answer = rest.send_http_request(base, path, "POST", {"Content-Type": "application/json"}, body)
        if answer.status_code >= 300:
            raise RegistryError(f"the registry does not keep mode 'none' for {subject}", detail=answer.text)

    def _is_allowed(self, topic: Topic, offered: SchemaText) -> bool:
        subject, schema = _subject(topic.name), _spoken(offered)
        if not self._has(lambda: self._client.get_versions(subject)):
            return True
        if self._has(lambda: self._client.lookup_schema(subject, schema)):
            return True  # a version that was allowed stays allowed
        every = self.mode(topic.name).endswith("transitive")
        ask = self._client.test_compatibility_all_versions if every else self._client.test_compatibility
        with registry_edge(self._url, f"check {subject}"):
            return bool(ask(subject, schema))

    def _has(self, ask: Callable[[], object]) -> bool:
        try:
            with registry_edge(self._url, "look up a schema"):
                ask()
        except UnknownSchema:
            return False
        return True

    def _offered(self, topic: Topic) -> SchemaText:
        try:
            offered = schema_text(topic, lambda: self._history(topic.name))
        except ValueError as error:
            why = "an earlier version of its schema cannot be read"
            raise RegistryError(f"topic {topic.name!r}: {why}", detail=str(error)) from error
        self._check_kind(topic)
        return offered

    def _history(self, topic_name: str) -> list[str]:
        try:
            found = [self.version(topic_name, one) for one in self.versions(topic_name)]
        except UnknownSchema:
            return []
        return [one.text for one in found if one.kind == "protobuf"]

    def _check_kind(self, topic: Topic) -> None:
        try:
            kind = self.latest(topic.name).kind
        except UnknownSchema:
            return
        if kind != topic.format:
            raise SchemaIncompatible(
                f"topic {topic.name!r} is {topic.format}, but its registered schema is {kind}",
                hint="a topic keeps its format: make a new topic for the new one",
            )


def _subject(topic_name: str) -> str:
    return f"{topic_name}-value"


def _spoken(schema: SchemaText) -> Schema:
    return Schema(schema.text, _SPOKEN[schema.kind])


def _schema_text(schema: Any) -> SchemaText:
    return SchemaText(_KINDS[schema.schema_type or "AVRO"], schema.schema_str)


def _version(found: Any) -> Version:
    schema = _schema_text(found.schema)
    return Version(schema.kind, schema.text, number=found.version, id=found.schema_id)


def _mode(level: str) -> Mode:
    return next(mode for mode in MODES if mode == level.lower().replace("_", "-"))


def _incompatible(topic: Topic, mode: Mode, detail: str) -> SchemaIncompatible:
    return SchemaIncompatible(
        f"the schema of topic {topic.name!r} changes in a way that its mode {mode!r} does not allow",
        detail=detail,
        hint="nothing was written; docs/how-to/evolve-a-schema.md shows which changes each mode allows",
    )
