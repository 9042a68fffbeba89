"""late: the records that came after the watermark; look at them, send them into a correction."""

from collections import deque
from typing import Annotated, Any

import typer

from headwater.cli import arguments
from headwater.cli.dead import USUAL, Last, bar
from headwater.cli.output import AsJson, counted, say, show
from headwater.cli.tail import readable, visible
from headwater.log.late import LateLetters
from headwater.log.late_letter import LateLetter
from headwater.log.letter_box import Found

app = typer.Typer(no_args_is_help=True)
Name = Annotated[str, typer.Argument(metavar="TOPIC", help="The late topic, as in late=Divert(TOPIC).")]


@app.callback()
def late() -> None:
    """Show or resend late letters: records that missed their windows.

    A pipeline with late=Divert("payments-late") sends a record that comes after its windows were closed to
    that topic as it was, with the windows, the watermark and its old place in its headers.
    """


@app.command("show")
def show_letters(
    topic: Name,
    last: Last = USUAL,
    as_json: AsJson = False,
) -> None:
    """Show the newest late letters of a topic, with what they missed.

    `late_by` is how far the watermark was ahead of the event.

        headwater late show payments-late --last 3
    """
    newest = deque(LateLetters(arguments.topic_name(topic)).read(), maxlen=last)
    show([_letter(one, as_json=as_json) for one in newest], as_json=as_json, empty="no late letters")


@app.command()
def resend(
    topic: Name,
    to: Annotated[str, typer.Option(metavar="TOPIC", help="Where a pipeline that corrects reads them.")],
    as_json: AsJson = False,
) -> None:
    """Send the records of late letters to another topic, each once.

    In their own topic they would be late again. Each goes out once to that topic, however often this is
    called; the letters stay where they are.

        headwater late resend payments-late --to payments-corrections
    """
    target = arguments.topic_name(to)
    with bar() as progress:
        done = LateLetters(arguments.topic_name(topic)).resend(target, progress)
    text = f"resent {counted(done.sent, 'record')} to {target}"
    say(text, as_json=as_json, topic=target, sent=done.sent, doubles=done.doubles)


def _letter(found: Found[LateLetter], *, as_json: bool) -> dict[str, Any]:
    letter = found.letter
    missed: Any = [[start.isoformat(), end.isoformat()] for start, end in letter.missed]
    row: dict[str, Any] = {
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "event_at": letter.event_at.isoformat(),
        "late_by": str(letter.late_by),
        "missed": missed if as_json else "; ".join(f"{start} to {end}" for start, end in missed) or None,
        "by": letter.pipeline,
        "key": readable(letter.key),
        "value": readable(letter.value),
    }
    if as_json:
        more = {"watermark": letter.watermark.isoformat(), "dead_at": letter.dead_at.isoformat()}
        return row | more | {"headers": [[name, readable(value)] for name, value in letter.headers]}
    return {name: visible(cell) if isinstance(cell, str) else cell for name, cell in row.items()}
