"""What late rows cost: the same tumbling window with late=Drop() and late=Divert(), in one run.

Two topics of payments: in one nothing is late, in the other every twentieth event is from the first
seconds, long closed. Each pipeline runs in a process of its own, four times in turn; the first run of all
warms the machine up and is not counted. Time counts from the query's start to its end, with all letters
written.

    .venv/bin/python -m bench.windows            4 million events a topic

The last line is one JSON object: `divert_idle_cost` and `divert_late_cost`, the share of time that Divert
takes beyond Drop.
"""

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from bench.anew import forget
from bench.events import PAYMENTS, Message, append, payments
from bench.functions import tumbling
from bench.pipelines_app import TUMBLING
from headwater import App, Bounded, Divert, Drop, KafkaSink, Log, Pipeline, Settings, embedded
from headwater.embedded.ports import a_free_port
from headwater.run.runner import running

EVENTS = 4_000_000
EVERY = 20
"""One event in so many is late."""

FIRST = "2026-01-01T00:00:00.000Z"
LATE = "late"
TOPICS = {"idle": replace(PAYMENTS, name="in-order"), "late": replace(PAYMENTS, name="lagging")}
ORDER = ("drop", "divert", "divert", "drop", "divert", "drop", "drop", "divert")
WARM_UP = "drop"


def app_of(case: str, choice: str) -> App:
    """The app that has one pipeline, named after its case."""
    late = Divert(LATE) if choice == "divert" else Drop()
    made = Pipeline(
        f"{case}-{choice}",
        tumbling,
        reads=[TOPICS[case]],
        writes=KafkaSink(TUMBLING, guarantee="at-least-once"),
        watermark=Bounded(timedelta(seconds=10)),
        late=late,
        batch=250_000,
    )
    return App("windows", made)


def one(case: str, choice: str, home: str, port: str) -> None:
    """Be one side; print its seconds and how many rows were late."""
    settings = Settings(home=Path(home), kafka_port=int(port))
    with running(app_of(case, choice), settings, once=True) as supervisor:
        began = time.monotonic()
        supervisor.join()
        seconds = time.monotonic() - began
    for error in supervisor.errors:
        raise SystemExit(str(error))
    print(json.dumps({"seconds": seconds, "late": supervisor.figures[0].late}))


def lagging(count: int) -> Iterator[Message]:
    """Payments of which some are from the first second."""
    for number, message in enumerate(payments(count)):
        if number % EVERY == EVERY - 1:
            value = re.sub(r'(?<="paid_at":")[^"]+', FIRST, message["value"])
            yield message | {"value": value}
        else:
            yield message


def measured(log: Log, settings: Settings, case: str) -> float:
    """How much longer Divert takes than Drop."""
    seconds = {"drop": 0.0, "divert": 0.0}
    for number, choice in enumerate([WARM_UP, *ORDER]):
        forget(log, settings, f"windows.{case}-{choice}", LATE, TUMBLING.name)
        command = [sys.executable, "-m", "bench.windows", case, choice, str(settings.home)]
        done = subprocess.run(
            [*command, str(settings.kafka_port)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(done.stderr[-4000:])
        found = json.loads(done.stdout.splitlines()[-1])
        seconds[choice] += found["seconds"] if number else 0
        print(f"{case} {choice}: {found['seconds']:.1f} s, {found['late']:,} late", file=sys.stderr)
    return seconds["divert"] / seconds["drop"] - 1


def main(count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(home=Path(folder), kafka_port=a_free_port())
        embedded.up(settings, [embedded.SERVERS["kafka"]], lambda *_: None)
        try:
            log, address = Log.open(settings), embedded.kafka_address(settings) or ""
            for case, messages in {"idle": payments, "late": lagging}.items():
                log.topics.create(TOPICS[case])
                append(address, TOPICS[case], messages(count))
            found = {f"divert_{case}_cost": round(measured(log, settings, case), 3) for case in TOPICS}
        finally:
            embedded.down(settings)
    print(json.dumps(found))


if __name__ == "__main__":
    if len(sys.argv) > 2:
        one(*sys.argv[1:])
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else EVENTS)
