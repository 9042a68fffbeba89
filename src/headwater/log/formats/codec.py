"""Codecs: rows to bytes and back, each in one format.

`encode` takes a mapping or a row, checks it against the schema and gives its bytes; `decode` gives a
row. The laws: what decodes equals what was encoded; nothing is encoded that does not fit; bytes
that are not in the format raise Undecodable, whatever they are.
"""

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from headwater.errors import Undecodable, ValueMismatch
from headwater.log.schema import fits_decimal, strict
from headwater.log.topic import Topic

Row = msgspec.Struct


class Codec(Protocol):
    """One topic's values in one format."""

    def encode(self, value: object) -> bytes:
        """The bytes of a row; ValueMismatch when it does not fit."""

    def decode(self, data: bytes) -> Row:
        """The row of these bytes; Undecodable when they are none."""


def fitting(topic: Topic) -> Callable[[object], Row]:
    """A function from a mapping (or a row) to a row that fits the topic's schema."""
    written, complaint = strict(topic.row), fits_decimal(topic.spark_schema)

    def fit(value: object) -> Row:
        try:
            row = msgspec.convert(value, written, from_attributes=True)
        except msgspec.ValidationError as error:
            raise mismatch(topic, str(error)) from error
        if said := complaint(row):
            raise mismatch(topic, said)
        return row

    return fit


def mismatch(topic: Topic, why: str) -> ValueMismatch:
    """The error for a value that does not fit."""
    return ValueMismatch(
        f"a value does not fit topic {topic.name!r}: {why}",
        detail=f"schema: {topic.schema}",
        hint="nothing of this record was written",
    )


def undecodable(topic: Topic, why: str) -> Undecodable:
    """The error for bytes that are not in the topic's format."""
    return Undecodable(f"a record of topic {topic.name!r} is not {topic.format}: {why}")


class JsonCodec:
    """Plain JSON text: what Spark, jq and people read; needs no registry."""

    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self._fit = fitting(topic)
        self._encode: Callable[[Any], bytes] = msgspec.json.Encoder(decimal_format="number").encode
        self._decode = msgspec.json.Decoder(topic.row).decode

    def encode(self, value: object) -> bytes:
        """The row as JSON, every column named, null or not."""
        try:
            return self._encode(self._fit(value))
        except UnicodeEncodeError as error:  # half of a surrogate pair is no text
            raise mismatch(self._topic, str(error)) from error

    def decode(self, data: bytes) -> Row:
        """The row of a JSON object; columns that the schema does not know are passed over."""
        try:
            return self._decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise undecodable(self._topic, str(error)) from error
