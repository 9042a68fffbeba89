"""What a task says comes back as the error that it was.

A batch is written on other machines, and Spark tells its driver of their errors in words alone. Ours are
put into words that can be read back, whether Python raised them or an expression of Spark's.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from headwater import errors
from headwater.errors import HeadwaterError

_SPOKEN = re.compile(r"headwater\.errors\.(\w+): (.+?) \[[a-z-]+\]((?:\n  [^\n]+)*)")
_HINT = "  hint: "


def spoken(error: HeadwaterError) -> str:
    """An error in words, as a Python trace ends with them."""
    return f"{type(error).__module__}.{type(error).__name__}: {error}"


@contextmanager
def as_raised_in_tasks() -> Iterator[None]:
    """Errors of ours that tasks raised are raised here; others stay as they are."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        found = said_in(str(error))
        if found is None:
            raise
        raise found from error


def said_in(text: str) -> HeadwaterError | None:
    """The last error of ours in a text, which is the one that was raised."""
    told = [one for one in _SPOKEN.finditer(text) if _is_ours(one[1])]
    if not told:
        return None
    name, message, more = told[-1].groups()
    lines = more.splitlines()
    detail = "\n".join(one[2:] for one in lines if one and not one.startswith(_HINT))
    hint = next((one.removeprefix(_HINT) for one in lines if one.startswith(_HINT)), "")
    kind: type[HeadwaterError] = getattr(errors, name)
    return kind(message, detail=detail, hint=hint)


def _is_ours(name: str) -> bool:
    kind = getattr(errors, name, None)
    return isinstance(kind, type) and issubclass(kind, HeadwaterError) and kind is not errors.NotAcknowledged
