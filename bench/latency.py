"""How long a record takes through a pipeline: real time beside micro-batches, in one run.

Each pipeline runs as an app does. One thread produces 200 records a second, on a timetable that does not
wait for answers; another reads the output. A record's latency begins just before it is handed to the producer
and ends when the consumer has an output row that counts it in: the row itself, or, for the windowed
count, the first row of its card and window that was made after it. So both clients' time is in it, for both
sides alike; both ends are read on one clock. Only what was sent after the warm-up is counted, all of it:
a record without an answer would be a failure, not an outlier.

    .venv/bin/python -m bench.latency [seconds of each measurement]
"""

import json
import sys
import tempfile
import threading
import time
from datetime import timedelta
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from bench.latency_clients import WINDOW, Run, Stopwatch, consume, produce
from bench.latency_picture import at, drawn, told
from headwater import Log, Settings, Topic, embedded
from headwater.app import App, Pipeline
from headwater.clock import wait_until
from headwater.embedded.ports import a_free_port
from headwater.process.event_time import Bounded, Drop
from headwater.run.runner import running
from headwater.sink.kafka import KafkaSink

PARTITIONS = 2
WARM_UP = 15.0
PICTURE = Path(__file__).parent / "results" / "latency.svg"
SCHEMA = "card string, amount double, paid_at timestamp, number long"


def runs() -> list[Run]:
    lengths = (None, timedelta(seconds=2), timedelta(seconds=30))
    both = [Run("stateless", "micro-batch"), Run("windowed", "micro-batch")]
    return both + [Run(work, "real-time", every) for work in ("stateless", "windowed") for every in lengths]


def stateless(payments: DataFrame) -> DataFrame:
    return payments.where("amount >= 1").withColumn("amount", F.round(F.col("amount") * 1.2, 2))


def windowed(payments: DataFrame) -> DataFrame:
    window = F.window("paid_at", f"{WINDOW} seconds")
    counts = F.count("*").alias("payments"), F.max("number").alias("number")
    return payments.groupBy(window, "card").agg(*counts).selectExpr("*", "window.start AS opened_at")


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 45.0
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(home=Path(folder), kafka_port=a_free_port())
        embedded.up(settings, [embedded.SERVERS["kafka"]], lambda *_: None)
        try:
            found = {run.name: measured(run, settings, seconds) for run in runs()}
        finally:
            embedded.down(settings)
    report(found)


def report(found: dict[str, list[float]]) -> None:
    print(told(found))
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(drawn({name: took for name, took in found.items() if not name.endswith(" s")}))
    figures: dict[str, float] = {}
    for work in ("stateless", "windowed"):
        fast, slow = (found[f"{work}, {mode}"] for mode in ("real-time", "micro-batch"))
        figures[f"{work}_p50_ms"] = round(at(fast, 50), 2)
        figures[f"{work}_p99_ms"] = round(at(fast, 99), 1)
        figures[f"{work}_speedup"] = round(at(slow, 50) / at(fast, 50), 1)
    for name, value in figures.items():
        print(f"{name} {value}")
    print(json.dumps(figures))


def measured(run: Run, settings: Settings, seconds: float) -> list[float]:
    """Latencies in milliseconds of everything that was sent after the warm-up."""
    app, watch, stop = app_of(run), Stopwatch(), threading.Event()
    pipeline = app.pipelines[0]
    log = Log.open(settings)
    source, target = pipeline.sources[0].topic, Topic(f"{app.name}-out", schema=out_schema(run), key="card")
    for topic in (source, target):
        log.topics.create(topic)
    address = str(embedded.kafka_address(settings))
    threads = [
        threading.Thread(target=produce, args=(address, source, run, watch, stop), daemon=True),
        threading.Thread(target=consume, args=(address, target, run, watch, stop), daemon=True),
    ]
    with running(app, settings):
        for one in threads:
            one.start()
        try:
            return timed(run, watch, stop, seconds)
        finally:
            stop.set()
            for one in threads:
                one.join()


def timed(run: Run, watch: Stopwatch, stop: threading.Event, seconds: float) -> list[float]:
    assert wait_until(lambda: bool(watch.took), timedelta(minutes=2)), f"{run.name}: no answer"
    time.sleep(WARM_UP)
    began = time.perf_counter()
    time.sleep(seconds)
    ended = time.perf_counter()
    settled = wait_until(lambda: not watch.unanswered(ended), timedelta(seconds=60))
    assert settled, f"{run.name}: {watch.unanswered(ended)} records were not answered"
    stop.set()
    took = [1000 * lasted for sent, lasted in watch.took if began <= sent < ended]
    print(f"{run.name}: p50 {at(took, 50):.1f} ms, p99 {at(took, 99):.1f} ms of {len(took):,}", flush=True)
    return took


def app_of(run: Run) -> App:
    name = run.name.replace(",", "").replace(" ", "-")
    topic = Topic(f"{name}-in", schema=SCHEMA, key="card", event_time="paid_at", partitions=PARTITIONS)
    target = Topic(f"{name}-out", schema=out_schema(run), key="card")
    return App(
        name,
        Pipeline(
            "measured",
            stateless if run.work == "stateless" else windowed,
            reads=[topic],
            writes=KafkaSink(target, guarantee="at-least-once"),
            watermark=Bounded(timedelta(seconds=WINDOW)) if run.work == "windowed" else None,
            late=Drop() if run.work == "windowed" else None,
            latency=run.latency,
            output="update",
            every=run.every,
        ),
    )


def out_schema(run: Run) -> str:
    return (
        SCHEMA if run.work == "stateless" else "card string, opened_at timestamp, payments long, number long"
    )


if __name__ == "__main__":
    main()
