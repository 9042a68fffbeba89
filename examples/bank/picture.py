"""What the demo draws: the pipelines at work, the newest cases on the desk, and the account at the end."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table

from account import Account, Outage, quantile
from desk import Case
from headwater import App
from headwater.verify.pipeline import Verified

WIDTH = 80
SYSTEMS = {"RedisSink": "Redis", "SearchSink": "OpenSearch"}
TITLE = """[bold]A bank on this machine[/]  (all servers are real, and made anew for this)

  [dim]cardholders                                     cardholders[/]
  PostgreSQL ── Debezium ──┐                    ┌── Redis, OpenSearch
                           ├── Kafka ── Spark ──┤
            transactions ──┘                    └── alerts, late, dead letters
"""
RIGHT = "\n[bold green]Nothing was lost, nothing was doubled, every copy is equal."
WRONG = "\n[bold red]This is not what must come out: see the figures in red."
COMMANDS = """
The servers still run. Try:

  export HEADWATER_HOME={home}
  . .venv/bin/activate
  headwater tail examples/bank/bank.py:ALERTS --last 3
  headwater late show transactions-late --last 3
  headwater dead list
  headwater verify examples/bank/bank.py in-search --against database
  headwater capture status examples/bank/bank.py
  headwater explain examples/bank/bank.py
  curl '{search}/cardholders/_search?q=city:Lisbon&size=3&pretty'
  headwater run examples/bank/bank.py
  headwater down
"""


def pipelines(app: App, figures: Mapping[str, Mapping[str, Any]]) -> Table:
    """Each pipeline, and how far it is."""
    table = _table("pipeline", "state", rows=8, lag=7, took=7, late=6, dead=6)
    for one in app.pipelines:
        found = figures.get(one.name)
        if found is None:
            table.add_row(one.name, "waiting", *["-"] * 5)
            continue
        rows, lag, late, dead = (f"{found[name] or 0:,}" for name in ("rows", "lag", "late", "dead"))
        table.add_row(one.name, found["state"], rows, lag, f"{found['batch_ms'] / 1000:.1f} s", late, dead)
    return table


def cases(newest: Iterable[Case]) -> Table:
    """The newest alerts, each with the cardholder as Redis knows it."""
    table = _table("alert", "window of", "cardholder, looked up in Redis", payments=8)
    for one in newest:
        holder = "{name}, {city} ({country})".format_map(one.holder) if one.holder else "(has left the bank)"
        table.add_row(one.card, f"{one.opened_at:%H:%M}", holder, str(one.payments))
    return table


def summary(account: Account, outage: Outage, changes: int, copies: Sequence[Verified]) -> Table:
    """What went in, what came out, and how the two compare."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=0, width=WIDTH)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    for rows in (_transactions(account), _alerts(account, outage), _copies(changes, copies)):
        table.add_row()
        for what, found in rows:
            table.add_row(what, found)
    return table


def _transactions(account: Account) -> Iterator[tuple[str, str]]:
    yield "[bold]transactions sent", f"[bold]{account.day.sent:,}"
    yield f"  counted on time, in {len(account.windows):,} windows", f"{account.windows.total():,}"
    yield "  in windows that are still open", f"{len(account.day.closing):,}"
    yield "  late: diverted, with the windows that they missed", f"{account.late.total():,}"
    yield "  bad: dead letters, with the reason", f"{account.dead.total():,}"
    yield "  lost, doubled or in the wrong place", _none(account.wrong)


def _alerts(account: Account, outage: Outage) -> Iterator[tuple[str, str]]:
    yield "[bold]stolen cards, used too often within five minutes", f"[bold]{account.day.fraud.total():,}"
    yield "  alerts", f"{account.alerts.total():,}"
    yield "  missing, false or told twice", _none(account.wrong_alerts)
    usual, held_up = outage.parted(account.delays())
    for what, delays in (
        ("  from the payment to its alert, p50 / p99", usual),
        (f"  the same of the {len(held_up)} that the crash held up", held_up),
    ):
        if delays:
            yield what, f"{quantile(delays, 0.5):.1f} / {quantile(delays, 0.99):.1f} s"


def _copies(changes: int, copies: Sequence[Verified]) -> Iterator[tuple[str, str]]:
    yield "[bold]changes of cardholders in PostgreSQL", f"[bold]{changes:,}"
    for one in copies:
        system, rows = SYSTEMS[one.kind], one.verdict.whole.rows
        yield f"  rows of the {rows:,} in the table that differ in {system}", _none(one.verdict.different)


def _table(*texts: str, **numbers: int) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for name in texts:
        table.add_column(name, no_wrap=True)
    for name, width in numbers.items():
        table.add_column(name, justify="right", min_width=width)
    return table


def _none(count: int) -> str:
    return f"[bold {'red' if count else 'green'}]{count:,}"
