"""A sliding count for each event: columnar state side by side with Spark's transformWithState in Python.

Both sides count a card's payments of the last ten seconds, for each payment, on the same topic of JSON
records, in batches of 250,000, and write the counts to Kafka. Each runs in a process of its own, one after
the other. Rates are of warm batches: all but the first two.

    .venv/bin/python -m bench.sliding            2 million events

The last line is one JSON object: `sliding_events_per_s`, `sliding_speedup` (how many times as fast as
transformWithState), and `small_batch_ms`, what a batch of 1,000 events takes.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from bench.anew import forget
from bench.events import PAYMENTS, append, payments
from bench.sliding_plain import run as run_plain
from headwater import App, Bounded, Drop, KafkaSink, Log, Pipeline, Settings, Topic, embedded, sliding
from headwater.embedded.jars import fetch
from headwater.embedded.ports import a_free_port
from headwater.run.runner import running

EVENTS = 2_000_000
PLAIN_EVENTS = 1_000_000
BATCH, SMALL_BATCH = 250_000, 1_000
SMALL_EVENTS = 60_000
COUNTED = Topic("counted", schema="card string, paid_at timestamp, payments long", key="card", partitions=4)
FEW = replace(PAYMENTS, name="few-payments")
Batches = list[list[int]]


def counted(rows: DataFrame) -> DataFrame:
    measures = [F.count("*").alias("payments")]
    found = rows.select("card", "paid_at").transform(
        sliding, by="card", within=timedelta(seconds=10), measures=measures, fires="arrival"
    )
    return found.select("card", "paid_at", "payments")


def app(batch: int) -> App:
    """The app with one pipeline, for large batches or small ones."""
    made = Pipeline(
        f"counted-{batch}",
        counted,
        reads=[PAYMENTS if batch == BATCH else FEW],
        writes=KafkaSink(COUNTED, guarantee="at-least-once"),
        watermark=Bounded(timedelta(seconds=10)),
        late=Drop(),
        batch=batch,
    )
    return App("sliding", made)


def run_ours(batch: int, home: str, port: str) -> Batches:
    """The rows of each batch and the milliseconds that it took."""
    settings = Settings(home=Path(home), kafka_port=int(port))
    with running(app(batch), settings, once=True) as supervisor:
        supervisor.join()
    for error in supervisor.errors:
        raise SystemExit(str(error))
    return [[one.rows, one.batch_ms] for one in supervisor.pipelines[0].history]


def measured(*arguments: Any) -> Batches:
    """One side, in a process of its own."""
    command = [sys.executable, "-m", "bench.sliding", *map(str, arguments)]
    python = os.environ | {"PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=python)
    if done.returncode:
        raise SystemExit(done.stderr[-4000:])
    found: Batches = json.loads(done.stdout.splitlines()[-1])
    print(arguments[0], arguments[1], found, file=sys.stderr)
    return found


def rate(batches: Batches) -> float:
    """Events a second in warm batches that were full."""
    return statistics.median(1000 * rows / took for rows, took in batches[2:] if rows > BATCH * 0.9)


def main(count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(home=Path(folder), kafka_port=a_free_port())
        embedded.up(settings, [embedded.SERVERS["kafka"]], lambda *_: None)
        try:
            log, address = Log.open(settings), embedded.kafka_address(settings) or ""
            for topic, events in {PAYMENTS: count, FEW: SMALL_EVENTS}.items():
                log.topics.create(topic)
                append(address, topic, payments(events))
            figures = _figures(settings, log, address, min(count, PLAIN_EVENTS))
        finally:
            embedded.down(settings)
    print(json.dumps(figures))


def _figures(settings: Settings, log: Log, address: str, count: int) -> dict[str, float]:
    ours = rate(measured("ours", BATCH, settings.home, settings.kafka_port))
    small = [took for _, took in measured("ours", SMALL_BATCH, settings.home, settings.kafka_port)][20:]
    forget(log, settings, "sliding.none", COUNTED.name)
    log.topics.create(COUNTED)
    jars = fetch("spark", settings, lambda *_: None)
    classpath = ",".join(str(one) for one in sorted(jars.glob("*.jar")))
    plain = rate(measured("plain", count, BATCH, address, classpath))
    return {
        "sliding_events_per_s": round(ours),
        "sliding_speedup": round(ours / plain, 1),
        "small_batch_ms": round(statistics.median(small)),
    }


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["ours", batch, home, port]:
            print(json.dumps(run_ours(int(batch), home, port)))
        case ["plain", events, batch, address, jars]:
            print(json.dumps(run_plain(int(events), int(batch), address, jars)))
        case [*count]:
            main(int(count[0]) if count else EVENTS)
