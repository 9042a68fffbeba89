"""The error tree: every class with a code of its own, drawn where it stands."""

import inspect
import re

import pytest

from headwater import errors
from headwater.errors import HeadwaterError, NotAcknowledged, PortTaken, Unacknowledged

CLASSES = [one for _, one in inspect.getmembers(errors, inspect.isclass) if issubclass(one, HeadwaterError)]
GROUPS = {
    "HeadwaterError",
    "ServerError",
    "LogError",
    "RecordError",
    "WriteError",
    "RunError",
    "SinkError",
    "CaptureError",
}
"""Classes that are never raised themselves, so that they need no code."""

every_class = pytest.mark.parametrize("kind", CLASSES, ids=lambda one: one.__name__)


def drawn() -> dict[str, tuple[str | None, str]]:
    """Every class of the docstring's tree with its parent and what stands behind it."""
    found: dict[str, tuple[str | None, str]] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        match = re.fullmatch(r"((?:[│ ]   )*(?:[├└]── )?)([A-Z]\w+)(?: +(.*))?", line)
        if match and (match[1] or match[2] == "HeadwaterError"):
            depth = len(match[1]) // 4
            found[match[2]] = (path[depth - 1] if depth else None, match[3] or "")
            path[depth:] = [match[2]]
    return found


@every_class
def test_every_class_is_drawn_under_its_parent(kind: type[HeadwaterError]) -> None:
    parent, _ = drawn()[kind.__name__]
    expected = None if kind is HeadwaterError else kind.__bases__[0].__name__
    assert parent == expected


@every_class
def test_every_class_is_drawn_with_its_code(kind: type[HeadwaterError]) -> None:
    _, words = drawn()[kind.__name__]
    assert kind.__name__ in GROUPS or words.split(":")[0] == kind.code


def test_nothing_is_drawn_that_does_not_exist() -> None:
    assert sorted(drawn()) == sorted(one.__name__ for one in CLASSES)


def test_every_code_is_unique() -> None:
    codes = [one.code for one in CLASSES if one.__name__ not in GROUPS]
    assert len(set(codes)) == len(codes)
    assert HeadwaterError.code not in codes


@every_class
def test_every_code_is_kebab_case(kind: type[HeadwaterError]) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", kind.code)


@every_class
def test_every_class_says_what_it_means(kind: type[HeadwaterError]) -> None:
    assert (kind.__doc__ or "").strip().endswith(".")


def test_the_text_of_an_error_has_its_message_code_detail_and_hint() -> None:
    error = PortTaken("port 1 is taken", detail="by one\nand by two", hint="take another")
    assert str(error) == ("port 1 is taken [port-taken]\n  by one\n  and by two\n  hint: take another")
    assert (error.message, error.detail, error.hint) == (
        *("port 1 is taken", "by one\nand by two", "take another"),
    )


def test_an_error_without_detail_and_hint_is_one_line() -> None:
    assert str(PortTaken("port 1 is taken")) == "port 1 is taken [port-taken]"


def test_records_that_were_not_acknowledged_come_with_their_error() -> None:
    record = Unacknowledged("payments", b"42", b"{}", "timed out")
    error = NotAcknowledged("1 records were not acknowledged", records=(record,))
    assert error.records == (record,)
    assert (record.topic, record.key, record.value, record.reason) == (
        *("payments", b"42", b"{}", "timed out"),
    )
