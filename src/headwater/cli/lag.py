"""lag: how far readers are behind, whether it grows, and an exit code for alerts."""

import sys
import time
from contextlib import nullcontext
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.live import Live
from rich.text import Text

from headwater.cli import arguments
from headwater.cli.output import ERRORS, AsJson, is_terminal, show, table
from headwater.log.lag import PartitionLag, with_trend
from headwater.log.log import Log

ALERT = 3
_EMPTY = "no group has read anything yet"


def lag(
    group: Annotated[
        list[str] | None, typer.Argument(metavar="GROUP", help="Only these groups, not all.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Go on until interrupted (or an alert).")] = False,
    every: Annotated[
        str, typer.Option(metavar="DURATION", help="The time over which the trend is measured.")
    ] = "1s",
    most: Annotated[
        int | None,
        typer.Option("--max", min=0, metavar="N", help=f"Exit with {ALERT} if a lag is above this."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show how far consumer groups are behind, and whether it grows.

    The lag of a partition is its end minus the group's committed offset, in records, as every Kafka
    tool counts it. The trend is its change in records a second: +5.0/s falls further behind, -5.0/s
    catches up. A partition that is read but has no commit yet has no lag ("-"); for --max it counts
    as wholly unread.

        headwater lag billing --max 10000 || page-somebody
    """
    seconds = arguments.duration(every).total_seconds()
    log, groups = Log.open(), group or []
    if watch:
        _watch(log, groups, seconds, most, as_json=as_json)
    else:
        sample = _sampled(log, groups, log.lag(*groups), seconds)
        show([_row(one) for one in sample], as_json=as_json, empty=_EMPTY)
        _alert(sample, most)


def _watch(log: Log, groups: list[str], seconds: float, most: int | None, *, as_json: bool) -> None:
    """A table that changes in place on a terminal; one sample after the other in a pipe."""
    before = log.lag(*groups)
    is_live = is_terminal(sys.stdout) and not as_json
    with Live(Text("measuring …"), auto_refresh=False) if is_live else nullcontext() as live:
        while True:
            before = _sampled(log, groups, before, seconds)
            rows = [_row(one) for one in before]
            if live is None:
                show(rows, as_json=as_json, empty=_EMPTY)
            else:
                live.update(table(rows) if rows else Text(_EMPTY), refresh=True)
            _alert(before, most)


def _sampled(log: Log, groups: list[str], before: list[PartitionLag], seconds: float) -> list[PartitionLag]:
    started = time.monotonic()
    time.sleep(seconds)
    after = log.lag(*groups)
    return with_trend(before, after, time.monotonic() - started)


def _alert(sample: list[PartitionLag], most: int | None) -> None:
    above = [one for one in sample if most is not None and one.behind > most]
    for one in above:
        text = f"alert: {one.group} is {one.behind:,} behind in {one.topic}[{one.partition}], above {most:,}"
        ERRORS.print(text, style="red", markup=False, highlight=False, soft_wrap=True)
    if above:
        raise typer.Exit(ALERT)


def _row(one: PartitionLag) -> dict[str, Any]:
    fields = asdict(one)
    del fields["behind"]
    return fields
