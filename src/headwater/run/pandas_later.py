"""Pandas later: workers that decode records do not load pandas, though pyarrow would.

Making its first array, pyarrow looks for pandas, to know a Series when it sees one, and loads it: 55 MB and
a third of a second in each worker, for nothing. So it looks once while there is none to be found. When a
function imports pandas after all, pyarrow is told, or it would take a Series for a list.
"""

import sys
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import pyarrow as pa
from pyarrow.lib import _pandas_api

_NAME = "pandas"


def look_now() -> None:
    """Let pyarrow look for pandas, and not find it before somebody imports it."""
    if _NAME not in sys.modules:
        with _first(_Nowhere()):
            pa.array([])
        sys.meta_path.insert(0, _Telling())


class _Nowhere(MetaPathFinder):
    """Finds no pandas, and lets nobody after it find one."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == _NAME:
            raise ModuleNotFoundError(name=name)


class _Telling(MetaPathFinder):
    """Finds pandas where it is, once, and tells pyarrow when it is loaded."""

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        if name != _NAME or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        found = find_spec(name)
        if found is not None and found.loader is not None:
            _after(found.loader)
        return found


def _after(loader: Any) -> None:
    load = loader.exec_module

    def loaded(module: ModuleType) -> None:
        load(module)
        _ = _pandas_api.pd  # asked by name, pyarrow looks again

    loader.exec_module = loaded


@contextmanager
def _first(finder: MetaPathFinder) -> Any:
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
