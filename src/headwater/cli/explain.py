"""explain: what will run, before it runs."""

import json
from dataclasses import asdict
from typing import Annotated, Any

import typer

from headwater.cli.output import AsJson, progress_bar
from headwater.cli.run import AppFile, Only
from headwater.python_files import app_in
from headwater.settings import Settings


def explain(
    path: AppFile,
    only: Only = None,
    plan: Annotated[bool, typer.Option("--plan", help="Show Spark's plan too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what will run, without running it and without a broker.

    For each pipeline: what it reads and writes, the guarantee of each output and why, the operators that
    keep state, and what keeps it from real time.

        headwater explain bank.py
    """
    from headwater.run.explain import explain as explained  # noqa: PLC0415 - Spark is slow to import
    from headwater.run.session import close, session  # noqa: PLC0415

    app, settings = app_in(path).only(only or []), Settings.load()
    with progress_bar() as bar:
        spark = session(settings, app.name, progress=bar)
    try:
        found = [explained(one, spark, settings) for one in app.pipelines]
    finally:
        close(spark)
    if as_json:
        typer.echo(json.dumps([asdict(one) for one in found]))
    else:
        typer.echo("\n\n".join(_text(one, plan=plan) for one in found))


def _text(one: Any, *, plan: bool) -> str:
    lines = [
        one.pipeline,
        f"  engine     {one.engine}",
        f"  reads      {', '.join(one.reads)}",
        *(f"  writes     {two['sink']}: {two['guarantee']}, because {two['why']}" for two in one.writes),
        f"  latency    {one.latency}",
        f"  output     {one.output} ({_OUTPUT[one.output]})",
        f"  watermark  {one.watermark or 'none'}",
        *([f"  late       {one.late}"] if one.late else []),
        f"  state      {', '.join(one.stateful) or 'none'}",
        f"  real time  {_real_time(one)}",
    ]
    return "\n".join(
        [*lines, *(["  plan", *(f"    {row}" for row in one.plan.splitlines())] if plan else [])]
    )


_POSSIBLE = 'possible: latency="real-time" with guarantee="at-least-once" and output="update"'
_OUTPUT = {
    "append": "a row is written once, when it is final",
    "update": "a row is written again whenever it has changed",
    "complete": "every batch writes the whole answer",
}


def _real_time(one: Any) -> str:
    if one.latency == "real-time":
        return "yes"
    return "\n             ".join(["no", *one.refusals]) if one.refusals else _POSSIBLE
