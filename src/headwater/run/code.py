"""Code: what tells a pipeline's function from another version of it, in any process that has loaded it.

Two that are equal make the same rows. What counts is the function as Python has compiled it, with the values,
functions and classes of the user's own that it names, in whatever module; of the standard library and
installed packages, names alone.
"""

import inspect
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from functools import partial
from hashlib import sha256
from types import CodeType, FunctionType, ModuleType
from typing import Any

from headwater.app import Pipeline
from headwater.sink.contract import KeyedSink

_INSTALLED = tuple(sysconfig.get_path(one) for one in ("stdlib", "purelib", "platlib"))
_PLAIN = (str, bytes, int, float, bool, type(None))


def code_of(pipeline: Pipeline) -> str:
    """The code of a pipeline that keeps copies, in sixteen letters."""
    reads = [(one.topic.name, one.topic.schema) for one in pipeline.sources]
    keys = [(one.name, one.keyed) for one in pipeline.sinks if isinstance(one, KeyedSink)]
    logic = pipeline.sql or "\n".join(_told(pipeline.function, set()))
    return sha256(repr((reads, keys, pipeline.output, logic)).encode()).hexdigest()[:16]


def _told(value: Any, seen: set[int]) -> Iterator[str]:
    """What there is to say of a value that a function uses."""
    if isinstance(value, FunctionType | type):
        if id(value) not in seen:
            seen.add(id(value))
            yield from _class(value, seen) if isinstance(value, type) else _function(value, seen)
    elif isinstance(value, set | frozenset):  # in no order that the next process knows
        yield from sorted(map(repr, value))
    elif (inside := _inside(value)) is not None:
        for one in inside:
            yield from _told(one, seen)
    else:
        yield repr(value) if isinstance(value, _PLAIN) else _name(value)


def _inside(value: Any) -> Iterable[Any] | None:
    match value:
        case partial():
            return (value.func, value.args, value.keywords)
        case dict():
            return value.items()
        case tuple() | list():
            return value
    return None


def _class(kind: type, seen: set[int]) -> Iterator[str]:
    yield _name(kind)
    if _is_own(sys.modules.get(kind.__module__)):
        for one in vars(kind).values():
            if isinstance(one, FunctionType):
                yield from _told(one, seen)


def _function(given: FunctionType, seen: set[int]) -> Iterator[str]:
    function: Any = inspect.unwrap(given)  # Spark wraps those that it calls for each row
    yield _name(function)
    if not _is_own(sys.modules.get(function.__module__)):
        return
    codes = list(_codes(function.__code__))
    for code in codes:
        yield code.co_code.hex()
        for one in (*code.co_names, *code.co_consts):
            if not isinstance(one, CodeType):
                yield from _told(one, seen)
    named = {name for code in codes for name in code.co_names}
    used = list(_named(function.__globals__, named))
    cells = [one.cell_contents for one in function.__closure__ or ()]
    for value in (*used, *cells, function.__defaults__, function.__kwdefaults__):
        yield from _told(value, seen)


def _named(values: dict[str, Any], names: set[str]) -> Iterator[Any]:
    """The values of these names, also those that are asked of a module of the user's own."""
    for name in sorted(names & values.keys()):
        value = values[name]
        yield value
        if isinstance(value, ModuleType) and _is_own(value):
            yield from (vars(value)[one] for one in sorted(names & vars(value).keys()))


def _is_own(module: ModuleType | None) -> bool:
    """Whether it is the user's own; what no module is known for was loaded from a file by its path."""
    file = getattr(module, "__file__", None)
    return module is None or module.__name__ == "__main__" or bool(file and not file.startswith(_INSTALLED))


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _codes(one)


def _name(value: Any) -> str:
    return str(getattr(value, "__qualname__", type(value).__qualname__))
