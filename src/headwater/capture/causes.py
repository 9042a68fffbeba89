"""Causes: what a connector's failure means, out of a trace of Java's.

Mostly it is what the innermost cause says. Where that leads nobody anywhere, it is said in other words.
"""

import re

_GONE = "the database no longer has what was not read"
_MEANINGS = {
    r"binlog files have been purged|[Bb]inlog.* no longer available on the server": (
        f"{_GONE}: its binary log was purged, or begun anew"
    ),
    "no longer available on the server": f"{_GONE}: its slot is gone, or was made anew",
    r"couldn't be parsed\..*? with the statement '((?:.|\n){1,2000}?)'\s*$": (
        "Debezium cannot read a statement of somebody's, and so not what comes after it: {}"
    ),
    "history topic .*missing": (
        "the topic of its history is gone or empty, so what stands in the binary log cannot be read"
    ),
}
"""What to say in place of words in a trace."""


def cause_of(trace: str) -> str:
    """What a trace of Java's says in the end: the innermost cause, without its class."""
    for words, meaning in _MEANINGS.items():
        if found := re.search(words, trace, re.MULTILINE):
            return meaning.format(*found.groups())
    lines = [line for line in trace.splitlines() if line and not line.startswith(("\t", " "))]
    causes = [line for line in lines if line.startswith("Caused by: ")]
    said = causes[-1].removeprefix("Caused by: ") if causes else next(iter(lines), "")
    name, colon, words = said.partition(": ")
    return words if colon and " " not in name else said
