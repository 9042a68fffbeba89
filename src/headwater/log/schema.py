"""A topic's schema: Spark's DDL read without a Spark session, and the Python row type from it.

`"card string NOT NULL, amount double, tags array<string>"` becomes a Spark `StructType` (what
Spark will see) and a frozen row class (what Python sees), from one source. Columns may be null
unless they say NOT NULL, as in Spark. Instants (`timestamp`) are aware datetimes; `timestamp_ntz` is a
naive one.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any

import msgspec
from pyspark.sql import types as spark

from headwater.errors import SpecError

_TOKEN = re.compile(r"\s*(?:`((?:[^`]|``)+)`|'((?:[^']|\\')*)'|(\w+)|([<>(),:]))")
_SIMPLE: dict[str, Callable[[], spark.DataType]] = {
    "string": spark.StringType,
    "boolean": spark.BooleanType,
    "byte": spark.ByteType,
    "tinyint": spark.ByteType,
    "short": spark.ShortType,
    "smallint": spark.ShortType,
    "int": spark.IntegerType,
    "integer": spark.IntegerType,
    "long": spark.LongType,
    "bigint": spark.LongType,
    "float": spark.FloatType,
    "real": spark.FloatType,
    "double": spark.DoubleType,
    "date": spark.DateType,
    "timestamp": spark.TimestampType,
    "timestamp_ltz": spark.TimestampType,
    "timestamp_ntz": spark.TimestampNTZType,
    "binary": spark.BinaryType,
}
Check = Callable[[Any], str]
"""A value's complaint, or an empty text."""

_DOUBLE, _SINGLE = 1.7976931348623157e308, 3.4028234663852886e38  # JSON has no NaN and no infinity
_PYTHON: dict[type[spark.DataType], Any] = {
    spark.StringType: str,
    spark.BooleanType: bool,
    spark.BinaryType: bytes,
    spark.DateType: date,
    spark.DecimalType: Decimal,
    spark.FloatType: Annotated[float, msgspec.Meta(ge=-_SINGLE, le=_SINGLE)],
    spark.DoubleType: Annotated[float, msgspec.Meta(ge=-_DOUBLE, le=_DOUBLE)],
    spark.TimestampType: Annotated[datetime, msgspec.Meta(tz=True)],
    spark.TimestampNTZType: Annotated[datetime, msgspec.Meta(tz=False)],
}


def parse_schema(ddl: str) -> spark.StructType:
    """Spark's type of a DDL string; SpecError where Spark would refuse it too."""
    tokens = _Tokens(ddl)
    struct = _columns(tokens, end="")
    if not struct.fields:
        raise SpecError("a schema needs at least one column")
    return struct


def row_type(struct: spark.StructType, name: str = "Row") -> type[msgspec.Struct]:
    """A frozen class with a field for each column; reading it ignores columns it does not know."""
    return msgspec.defstruct(name, [_field(one) for one in struct.fields], frozen=True, kw_only=True)


def strict(row: type[msgspec.Struct]) -> type[msgspec.Struct]:
    """The same class for writing: a column that it does not know is refused."""
    return msgspec.defstruct(row.__name__, [], bases=(row,), frozen=True, forbid_unknown_fields=True)


def fits_decimal(struct: spark.StructType) -> Check:
    """A check of what Python's types cannot say: the digits of decimals, wherever they stand."""
    checks = [(one.name, check) for one in struct.fields if (check := _decimal_check(one.dataType))]

    def complaint(row: Any) -> str:
        for name, check in checks:
            value = getattr(row, name)
            if value is not None and (said := check(value)):
                return f"{said} - at `$.{name}`"
        return ""

    return complaint


def _decimal_check(kind: spark.DataType) -> Check | None:
    match kind:
        case spark.DecimalType():
            return lambda value: "" if _fits(value, kind) else f"{value} does not fit {kind.simpleString()}"
        case spark.StructType():
            return fits_decimal(kind) if "decimal" in kind.simpleString() else None
        case spark.ArrayType():
            return _each(_decimal_check(kind.elementType), iter)
        case spark.MapType():
            return _each(_decimal_check(kind.valueType), lambda found: iter(found.values()))
    return None


def _each(check: Check | None, values: Callable[[Any], Iterator[Any]]) -> Check | None:
    if check is None:
        return None
    return lambda found: next((said for one in values(found) if one is not None and (said := check(one))), "")


@dataclass
class _Tokens:
    """The DDL's words, one ahead; a quoted name or text keeps its kind."""

    text: str

    def __post_init__(self) -> None:
        self._all = list(self._split())
        self._at = 0

    def peek(self) -> str:
        return self._all[self._at][1] if self._at < len(self._all) else ""

    def take(self) -> str:
        word = self.peek()
        self._at += 1
        return word

    def take_name(self) -> str:
        kind, word = self._all[self._at] if self._at < len(self._all) else ("end", "")
        if kind not in ("name", "word"):
            self.refuse(f"expected a column's name, found {word or 'the end'!r}")
        self._at += 1
        return word

    def expect(self, word: str) -> None:
        found = self.take()
        if found.lower() != word.lower():
            self.refuse(f"expected {word!r}, found {found or 'the end'!r}")

    def refuse(self, why: str) -> None:
        raise SpecError(
            f"the schema cannot be read: {why}",
            detail=self.text,
            hint='write it as in Spark SQL: "card string NOT NULL, amount double, paid_at timestamp"',
        )

    def _split(self) -> Iterator[tuple[str, str]]:
        position, text = 0, self.text.rstrip()
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                self.refuse(f"{text[position:].strip()[:20]!r} is not part of the language")
                return
            quoted, said, word, mark = match.groups()
            kind = "name" if quoted else "text" if said is not None else "word" if word else "mark"
            yield kind, (quoted or "").replace("``", "`") or said or word or mark or ""
            position = match.end()


def _columns(tokens: _Tokens, end: str) -> spark.StructType:
    fields: list[spark.StructField] = []
    while tokens.peek() != end:
        if fields:
            tokens.expect(",")
        fields.append(_column(tokens, in_struct=bool(end)))
    names = [one.name for one in fields]
    for name in names:
        if names.count(name) > 1:
            tokens.refuse(f"column {name!r} stands twice")
    return spark.StructType(fields)


def _column(tokens: _Tokens, *, in_struct: bool) -> spark.StructField:
    name = tokens.take_name()
    if not name.isidentifier():
        tokens.refuse(f"column {name!r} cannot be the name of a Python attribute")
    if in_struct and tokens.peek() == ":":
        tokens.take()
    kind = _type(tokens)
    nullable = True
    if tokens.peek().lower() == "not":
        tokens.take()
        tokens.expect("null")
        nullable = False
    if tokens.peek().lower() == "comment":
        tokens.take()
        return spark.StructField(name, kind, nullable, {"comment": tokens.take()})
    return spark.StructField(name, kind, nullable)


def _type(tokens: _Tokens) -> spark.DataType:
    word = tokens.take().lower()
    if word in _SIMPLE:
        return _SIMPLE[word]()
    if word in ("decimal", "dec", "numeric"):
        return _decimal(tokens)
    if word == "array":
        return spark.ArrayType(_inside(tokens))
    if word == "map":
        tokens.expect("<")
        key = _type(tokens)
        tokens.expect(",")
        value = _type(tokens)
        tokens.expect(">")
        return spark.MapType(key, value)
    if word == "struct":
        tokens.expect("<")
        struct = _columns(tokens, end=">")
        tokens.expect(">")
        return struct
    known = ", ".join([*_SIMPLE, "decimal(p,s)", "array<>", "map<>", "struct<>"])
    tokens.refuse(f"{word or 'the end'!r} is not a type; known: {known}")
    raise AssertionError("unreachable")


def _inside(tokens: _Tokens) -> spark.DataType:
    tokens.expect("<")
    kind = _type(tokens)
    tokens.expect(">")
    return kind


def _decimal(tokens: _Tokens) -> spark.DecimalType:
    if tokens.peek() != "(":
        return spark.DecimalType(10, 0)
    tokens.take()
    precision, scale = tokens.take(), "0"
    if tokens.peek() == ",":
        tokens.take()
        scale = tokens.take()
    tokens.expect(")")
    if not (precision.isdigit() and scale.isdigit() and int(scale) <= int(precision) <= 38):
        tokens.refuse(f"decimal({precision},{scale}) is not a type")
    return spark.DecimalType(int(precision), int(scale))


def _field(column: spark.StructField) -> tuple[str, Any] | tuple[str, Any, Any]:
    kind = python_type(column.dataType, column.name)
    return (column.name, kind | None, None) if column.nullable else (column.name, kind)


def python_type(kind: spark.DataType, name: str = "Row") -> Any:
    """The Python annotation of a Spark type, with the bounds that Spark's type has."""
    match kind:
        case spark.ByteType() | spark.ShortType() | spark.IntegerType() | spark.LongType():
            return _integer(kind)
        case spark.ArrayType():
            return list[python_type(kind.elementType, name) | None]  # type: ignore[misc]
        case spark.MapType():
            key = python_type(kind.keyType, name)
            return dict[key, python_type(kind.valueType, name) | None]  # type: ignore[misc,valid-type]
        case spark.StructType():
            return row_type(kind, name)
    return _PYTHON[type(kind)]


def _integer(kind: spark.DataType) -> Any:
    bits = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}[kind.simpleString()]
    return Annotated[int, msgspec.Meta(ge=-(2 ** (bits - 1)), le=2 ** (bits - 1) - 1)]


def _fits(value: Decimal, kind: spark.DecimalType) -> bool:
    if not value.is_finite():
        return False
    _, digits, exponent = value.as_tuple()
    scale = max(0, -int(exponent))
    return scale <= kind.scale and len(digits) + int(exponent) <= kind.precision - kind.scale
