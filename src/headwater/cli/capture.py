"""capture: an app's databases checked, its connectors registered, looked at, held up and removed."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwater.app import App
from headwater.cli import arguments
from headwater.cli.capture_check import app_that_captures, check
from headwater.cli.capture_figures import row_of
from headwater.cli.lag import ALERT
from headwater.cli.output import ERRORS, AsJson, is_confirmed, note, say, show
from headwater.cli.run import AppFile
from headwater.errors import BadPipeline
from headwater.settings import Settings

if TYPE_CHECKING:
    from headwater.capture.capturing import Capturing
    from headwater.capture.health import Health

app = typer.Typer(no_args_is_help=True)
_EMPTY = "this app captures nothing: App(…, captures=[TABLE])"


@app.callback()
def capture() -> None:
    """Capture an app's tables: their changes, from the database's log.

    An app says what it captures: App(…, captures=[ORDERS]). Each database has one connector in Kafka
    Connect, which all apps share. `headwater run` registers it, too.
    """


app.command()(check)


@app.command()
def up(path: AppFile, as_json: AsJson = False) -> None:
    """Have all that an app captures captured, and wait until it is.

    The rows that are there are read in chunks, while the changes of all tables go on in the order of the
    commits; what is interrupted goes on where it was. A table that is added later gets its rows likewise.

        headwater up --with capture --with postgres
        headwater capture up shop.py
    """
    from headwater.capture.capturing import ensure  # noqa: PLC0415 - database drivers: few verbs need them

    found = app_that_captures(path)
    ensure(found.name, found.captures, Settings.load())
    show([_row(one.health(), as_json=as_json) for one in _all(found)], as_json=as_json, empty=_EMPTY)


@app.command()
def status(
    path: AppFile,
    most_bytes: Annotated[
        str | None,
        typer.Option("--max-wal", metavar="SIZE", help="Alert when the database keeps more: 500MB, 10GB."),
    ] = None,
    most_lag: Annotated[
        str | None,
        typer.Option("--max-lag", metavar="DURATION", help="Alert when it is further behind: 60s."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show how capture is, and what it costs the databases.

    `lag` is what is committed and not yet in Kafka. `retained` is what the database keeps of its log
    because of this connector: one that stands still fills the disk, unless the database has a limit
    (max_slot_wal_keep_size), and then changes are lost. The state is `snapshot` while an outbox's first
    events are read. The exit code is 3 when a connector is not under way and not paused, when it
    cannot read its database, when its slot is lost or a table is not published, at 80 % of the limit, and
    above --max-wal or --max-lag.
    A MariaDB keeps its log up to an age and a size, whoever reads it: these are the limits there.

        headwater capture status shop.py --max-wal 10GB || page-somebody
    """
    size = arguments.size(most_bytes) if most_bytes else None
    lag = arguments.duration(most_lag) if most_lag else None
    found = [one.health() for one in _all(path)]
    show([_row(one, as_json=as_json) for one in found], as_json=as_json, empty=_EMPTY)
    alerts = [(one, why) for one in found for why in one.alerts(size, lag)]
    for one, why in alerts:
        cause = f"\n  {one.cause}" if one.cause else ""
        text = f"alert: {one.connector}: {why}{cause}"
        ERRORS.print(text, style="red", markup=False, highlight=False, soft_wrap=True)
    if alerts:
        raise typer.Exit(ALERT)


@app.command()
def pause(path: AppFile, as_json: AsJson = False) -> None:
    """Let capture rest; the databases keep their logs meanwhile."""
    wanted = _all(path)
    for one in wanted:
        one.pause()
    names = [one.plan.name for one in wanted]
    say(f"paused {' and '.join(names)}: `headwater capture resume` goes on", as_json=as_json, paused=names)


@app.command()
def resume(path: AppFile, as_json: AsJson = False) -> None:
    """Let capture go on where it was, after a pause or a failure."""
    wanted = _all(path)
    for one in wanted:
        one.resume()
    names = [one.plan.name for one in wanted]
    say(f"running: {' and '.join(names)}", as_json=as_json, running=names)


@app.command()
def snapshot(
    path: AppFile,
    table: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this table; may be given again.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Read rows of captured tables once more, beside their changes.

    They come as operation `read`, in chunks; changes go on, and a row that changes meanwhile comes as it
    is then. A table that was added to an app needs no call: it gets its rows by itself.

        headwater capture snapshot shop.py --table public.orders
    """
    wanted = [one for one in _all(path) if not one.plan.is_outbox]
    known = {name for one in wanted for name in one.plan.tables}
    for name in table or []:
        if name not in known:
            raise BadPipeline(
                f"this app does not capture {name!r}", hint=f"it captures: {', '.join(sorted(known))}"
            )
    asked = []
    for one in wanted:
        names = [name for name in one.plan.tables if not table or name in table]
        if names:
            one.snapshot(names)
            asked += names
    say(f"asked for the rows of {' and '.join(asked)}", as_json=as_json, asked=asked)


@app.command()
def remove(
    path: AppFile,
    slot: Annotated[
        bool, typer.Option("--slot", help="Its place in the database's log, too: asks first.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove an app's connectors; says what remains.

    Without --slot the database keeps its log from here on, until the app is captured again: nothing is
    lost, and the disk fills. (A MariaDB keeps it for as long as its settings say.) With --slot the place
    is forgotten; to capture the tables again, delete their topics first, because rows that were deleted
    meanwhile would stay in them.
    """
    if slot and not yes and not is_confirmed("drop the slots, so that changes from now on are never told?"):
        note("nothing was removed (--yes removes without asking)")
        raise typer.Exit(1)
    told = [_removed(one, for_good=slot) for one in _all(path)]
    if as_json:
        show(told, as_json=True, empty="")
        return
    for one in told:
        typer.echo(f"removed {one['connector']}" if one["removed"] else f"{one['connector']} goes on")
        for left in one["remains"]:
            typer.echo(f"  remains: {left}")


def _removed(one: "Capturing", *, for_good: bool) -> dict[str, Any]:
    gone = one.remove(for_good=for_good)
    remains = [f"topic {topic.name}" for topic in one.plan.topics]
    if not gone:
        remains = ["the connector, for the tables of other apps", *remains]
    elif not for_good:
        remains = [one.place, *remains]
    return {"connector": one.plan.name, "removed": gone, "remains": remains}


def _all(path: str | App) -> "list[Capturing]":
    from headwater.capture.capturing import capturing  # noqa: PLC0415 - database drivers: few verbs need them

    found = app_that_captures(path) if isinstance(path, str) else path
    return capturing(found.name, found.captures, Settings.load())


def _row(one: "Health", *, as_json: bool) -> dict[str, Any]:
    return asdict(one) if as_json else row_of(one)
