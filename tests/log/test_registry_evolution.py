"""A schema that changes: what each mode allows, and what old and new readers make of it."""

import pytest

from headwater.errors import SchemaIncompatible, SpecError, UnknownSchema
from headwater.log.formats import codec_for
from headwater.log.registry import MODES, Mode, Schemas
from headwater.log.topic import Format, Topic
from headwater.settings import Settings
from tests.log.registering import NARROW, every_format, topic

pytestmark = pytest.mark.system
WIDE = "card string NOT NULL, amount double, country string"


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


def test_a_topic_keeps_its_format(schemas: Schemas, name: str) -> None:
    schemas.register(topic(name, NARROW, "avro"))
    for ask in (schemas.check, schemas.register):
        with pytest.raises(SchemaIncompatible, match="is protobuf, but its registered schema is avro"):
            ask(topic(name, NARROW, "protobuf"))
