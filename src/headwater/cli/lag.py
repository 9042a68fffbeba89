"""lag: how far readers are behind, whether it grows, and an exit code for alerts."""

import json
import time
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.live import Live
from rich.text import Text

from headwater.cli import arguments
from headwater.cli.output import ERRORS, AsJson, show, table
from headwater.log.lag import PartitionLag, with_trend
from headwater.log.log import Log

ALERT = 3


def lag(
    group: Annotated[list[str] | None, typer.Argument(help="Only these groups.")] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Go on until interrupted.")] = False,
    every: Annotated[
        str, typer.Option(help="The time between two samples: the trend is measured over it.")
    ] = "1s",
    most: Annotated[
        int | None, typer.Option("--max", help=f"Exit with {ALERT} when a lag is above this.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the lag of consumer groups: per partition, with its trend in records a second.

    lag = end - committed, the figure that every Kafka tool shows. A partition that is read but has
    no commit yet has no lag there ("-"); for --max it counts as wholly unread.

        headwater lag --max 10000 || page-somebody
    """
    log, groups, seconds = Log.open(), group or [], arguments.duration(every).total_seconds()
    if watch:
        _watch(log, groups, seconds, most, as_json=as_json)
    else:
        sample = _sampled(log, groups, log.lag(*groups), seconds)
        show([_row(one) for one in sample], as_json=as_json, empty="no groups yet")
        _alert(sample, most)


def _watch(log: Log, groups: list[str], seconds: float, most: int | None, *, as_json: bool) -> None:
    before = log.lag(*groups)
    with Live(Text("measuring …"), auto_refresh=False, redirect_stdout=False) as live:
        while True:
            before = _sampled(log, groups, before, seconds)
            rows = [_row(one) for one in before]
            if as_json:
                typer.echo(json.dumps(rows))
            else:
                live.update(table(rows) if rows else Text("no groups yet"), refresh=True)
            _alert(before, most)


def _sampled(log: Log, groups: list[str], before: list[PartitionLag], seconds: float) -> list[PartitionLag]:
    started = time.monotonic()
    time.sleep(seconds)
    after = log.lag(*groups)
    return with_trend(before, after, time.monotonic() - started)


def _alert(sample: list[PartitionLag], most: int | None) -> None:
    above = [one for one in sample if most is not None and one.behind > most]
    for one in above:
        ERRORS.print(
            f"alert: {one.group} is {one.behind:,} behind in {one.topic}[{one.partition}], above {most:,}",
            style="red",
            highlight=False,
        )
    if above:
        raise typer.Exit(ALERT)


def _row(one: PartitionLag) -> dict[str, Any]:
    fields = asdict(one)
    del fields["behind"]
    return fields
