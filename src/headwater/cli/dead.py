"""dead: the records that could not be used; list them, look at them, send them back."""

import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from headwater.cli import arguments
from headwater.cli.output import ERRORS, AsJson, counted, is_terminal, say, show
from headwater.cli.tail import readable, visible
from headwater.log.dead import DeadLetters, DeadState, topics_with_letters
from headwater.log.letter import Letter
from headwater.log.letter_box import Found, OnProgress

app = typer.Typer(no_args_is_help=True)
Name = Annotated[str, typer.Argument(metavar="TOPIC", help=arguments.TOPIC_HELP)]
Last = Annotated[int, typer.Option(min=1, metavar="N", help="The newest N of them.")]
USUAL = 10


@app.callback()
def dead() -> None:
    """List, show or resend dead letters, the records that were bad.

    A record that a pipeline cannot decode, that lacks its key or event time, or that a queue has given
    up, goes to <topic>.dead as it was, with the reason and its old place in its headers.
    """


@app.command("list")
def list_letters(
    topic: Annotated[
        list[str] | None, typer.Argument(metavar="TOPIC", help="Only these topics, not all.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show which topics have dead letters, how many, and why."""
    wanted = [arguments.topic_name(one) for one in topic or ()]
    states = [DeadLetters(one).state() for one in wanted or topics_with_letters()]
    rows = [_state(one, as_json=as_json) for one in states if one.letters or wanted]
    show(rows, as_json=as_json, empty="no dead letters")


@app.command("show")
def show_letters(
    topic: Name,
    last: Last = USUAL,
    as_json: AsJson = False,
) -> None:
    """Show the newest dead letters of a topic, with place and reason.

    Bytes that are not text are shown as base64:….

        headwater dead show payments --last 3
    """
    newest = deque(DeadLetters(arguments.topic_name(topic)).read(), maxlen=last)
    show([_letter(one, as_json=as_json) for one in newest], as_json=as_json, empty="no dead letters")


@app.command()
def resend(topic: Name, as_json: AsJson = False) -> None:
    """Send the dead letters of a topic back to it, each once.

    Each goes back once, with its key, value and headers, however often this is called; a record that was
    buried twice goes back once. The letters stay where they are.
    """
    name = arguments.topic_name(topic)
    with bar() as progress:
        done = DeadLetters(name).resend(progress)
    text = f"resent {counted(done.sent, 'record')} to {name}"
    record = "a record" if done.doubles == 1 else "records"
    more = f" ({counted(done.doubles, 'letter')} of {record} that went back already)" if done.doubles else ""
    say(text + more, as_json=as_json, topic=name, sent=done.sent, doubles=done.doubles)


def _state(state: DeadState, *, as_json: bool) -> dict[str, Any]:
    reasons: Any = [{"reason": why, "letters": count} for why, count in state.reasons]
    if not as_json:
        reasons = "; ".join(f"{visible(why)} ({count:,})" for why, count in state.reasons) or None
    return {
        "topic": state.topic,
        "letters": state.letters,
        "resent": state.resent,
        "newest": state.newest and state.newest.isoformat(timespec="milliseconds"),
        "reasons": reasons,
    }


def _letter(found: Found[Letter], *, as_json: bool) -> dict[str, Any]:
    letter = found.letter
    row: dict[str, Any] = {
        "partition": letter.partition,
        "offset": letter.offset,
        "dead_at": letter.dead_at.isoformat(timespec="milliseconds"),
        "by": letter.pipeline or letter.queue or None,
        "resent": found.is_resent if as_json else "yes" if found.is_resent else "no",
        "reason": letter.reason,
        "key": readable(letter.key),
        "value": readable(letter.value),
    }
    if as_json:
        return row | {"headers": [[name, readable(value)] for name, value in letter.headers]}
    return {name: visible(cell) if isinstance(cell, str) else cell for name, cell in row.items()}


@contextmanager
def bar() -> Iterator[OnProgress]:
    """A bar on standard error while many letters go back; a pipe gets none."""
    columns = (TextColumn("resending"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=ERRORS, transient=True, disable=not is_terminal(sys.stderr)) as bar:
        task = bar.add_task("resending", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
