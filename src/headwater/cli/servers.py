"""up, down, status: the embedded servers of this folder."""

from enum import StrEnum
from typing import Annotated

import typer

from headwater import embedded
from headwater.cli.output import AsJson, counted, note, progress_bar, say, show
from headwater.log.connection import Connection
from headwater.log.topics import Topics
from headwater.settings import Settings


class Extra(StrEnum):
    """Servers beside Kafka, and sets of them."""

    registry = "registry"
    postgres = "postgres"
    mariadb = "mariadb"
    redis = "redis"
    search = "search"
    connect = "connect"
    capture = "capture"


_SETS = {Extra.capture: "connect"}  # and the log, which is started anyway

With = Annotated[
    list[Extra] | None,
    typer.Option("--with", metavar="SERVER", help="Another server beside Kafka; may be repeated."),
]


def up(extra: With = None, as_json: AsJson = False) -> None:
    """Start this folder's servers; running ones are left alone.

    These are Kafka and those that --with names. The first time, their files are fetched (46 MB for
    Kafka) into a cache that all projects share. Data stays in .headwater/ between starts.

    registry: schemas, for Avro, Protobuf and JSON Schema. postgres, mariadb: a database, ready for
    capture. capture (or connect): Kafka Connect with Debezium's connectors. redis, search: where
    copies go (search is an OpenSearch).

        headwater up --with capture --with postgres
    """
    settings = Settings.load()
    asked = {_SETS.get(one, one.value) for one in extra or []} | (
        {"kafka"} if settings.is_embedded else set()
    )
    wanted = [name for name in embedded.SERVERS if name in asked]
    if not settings.is_embedded:
        topics = counted(len(Topics(Connection(settings)).names()), "topic")
        note(f"kafka at {settings.kafka} is not ours to start; it answers and has {topics}")
    with progress_bar() as progress:
        started = embedded.up(settings, [embedded.SERVERS[name] for name in wanted], progress)
    for one in started:
        wanted_port = embedded.SERVERS[one.name].wanted_port(settings)
        if wanted_port not in (None, one.port):
            note(
                f"note: {one.name} runs already, on port {one.port}, not {wanted_port}: "
                "`headwater down`, then `headwater up`, moves it"
            )
    rows = [{"server": one.name, "address": one.address, "pid": one.pid} for one in started]
    show(rows, as_json=as_json, empty="nothing to start")


def down(as_json: AsJson = False) -> None:
    """Stop this folder's servers; their data stays."""
    stopped = embedded.down(Settings.load())
    text = f"stopped {' and '.join(stopped)}" if stopped else "nothing was running"
    say(text, as_json=as_json, stopped=stopped)


def status(as_json: AsJson = False) -> None:
    """Show this folder's servers: their state, address and memory."""
    settings = Settings.load()
    rows: list[dict[str, object]] = [
        {
            "server": one.name,
            "state": one.state,
            "address": one.address,
            "pid": one.pid,
            "memory_mb": one.resident_bytes // 1_000_000,
        }
        for one in embedded.status(settings)
        if settings.is_embedded or one.name != "kafka"
    ]
    if not settings.is_embedded:
        rows.insert(0, _external(settings))
    show(rows, as_json=as_json, empty="no servers")


def _external(settings: Settings) -> dict[str, object]:
    Topics(Connection(settings)).names()
    return {"server": "kafka", "state": "external", "address": settings.kafka, "pid": None, "memory_mb": None}
