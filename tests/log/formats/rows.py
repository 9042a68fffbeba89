"""Random schemas with random rows that fit them."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from headwater.log.topic import Format, Topic

type_and_value = tuple[str, st.SearchStrategy[Any]]


def whole(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


SCALARS: list[type_and_value] = [
    ("string", st.text(max_size=8)),
    ("boolean", st.booleans()),
    ("byte", whole(8)),
    ("short", whole(16)),
    ("int", whole(32)),
    ("long", whole(64)),
    ("float", st.floats(width=32, allow_nan=False, allow_infinity=False)),
    ("double", st.floats(allow_nan=False, allow_infinity=False)),
    ("binary", st.binary(max_size=8)),
    ("date", st.dates()),
    ("timestamp", st.datetimes(timezones=st.just(UTC))),
    ("timestamp_ntz", st.datetimes()),
    ("decimal(12,3)", st.decimals(-999_999_999, 999_999_999, places=3)),
    ("decimal(38,0)", st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal)),
]


@dataclass(frozen=True)
class Case:
    """A topic and a value that fits it."""

    topic: Topic
    value: dict[str, Any]


@st.composite
def cases(draw: st.DrawFn, form: Format) -> Case:
    ddl, values = _columns(draw, form, depth=2)
    return Case(Topic("some-rows", schema=ddl, format=form), draw(values))


def _columns(draw: st.DrawFn, form: Format, depth: int) -> tuple[str, st.SearchStrategy[dict[str, Any]]]:
    columns: list[str] = []
    values: dict[str, st.SearchStrategy[Any]] = {}
    for at in range(draw(st.integers(1, 4))):
        ddl, value = _type(draw, form, depth)
        has_null = draw(st.booleans())
        columns.append(f"c{at} {ddl}{'' if has_null else ' NOT NULL'}")
        can_be_null = has_null and not (form == "protobuf" and ddl.startswith(("array", "map")))
        values[f"c{at}"] = st.none() | value if can_be_null else value
    return ", ".join(columns), st.fixed_dictionaries(values)


def _type(draw: st.DrawFn, form: Format, depth: int) -> type_and_value:
    shapes: list[Callable[[], type_and_value]] = [lambda: draw(st.sampled_from(SCALARS))] * 4
    if depth:
        shapes += [
            lambda: _array(*_element(draw, form, depth), form),
            lambda: _map(*_element(draw, form, depth), form),
            lambda: _struct(draw, form, depth - 1),
        ]
    return draw(st.sampled_from(shapes))()


def _element(draw: st.DrawFn, form: Format, depth: int) -> type_and_value:
    """What stands in a list or map: in Protobuf no list and no map."""
    if form != "protobuf":
        return _type(draw, form, depth - 1)
    as_struct = depth > 1 and draw(st.booleans())
    return _struct(draw, form, 0) if as_struct else draw(st.sampled_from(SCALARS))


def _array(ddl: str, value: st.SearchStrategy[Any], form: Format) -> type_and_value:
    inside = value if form == "protobuf" else st.none() | value
    return f"array<{ddl}>", st.lists(inside, max_size=3)


def _map(ddl: str, value: st.SearchStrategy[Any], form: Format) -> type_and_value:
    inside = value if form == "protobuf" else st.none() | value
    return f"map<string, {ddl}>", st.dictionaries(st.text(max_size=4), inside, max_size=3)


def _struct(draw: st.DrawFn, form: Format, depth: int) -> type_and_value:
    ddl, values = _columns(draw, form, depth)
    return f"struct<{ddl}>", values


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
