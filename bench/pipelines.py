"""Headwater side by side with hand-written PySpark, on the same topics, in one run.

Each side runs in a process of its own, one after the other, in the order plain, ours, ours, plain, so
that a machine that gets slower or faster is fair to both. Time counts from the query's start to its
end, warm-up and all; `exactly_once_ratio` compares warm batches. The answers of both sides are read
back and must be equal.

    .venv/bin/python -m bench.pipelines                      4 million events, all cases
    .venv/bin/python -m bench.pipelines 4000000 filter       one case

A ratio above 1 means that Headwater is faster (for memory and the first batch: that it needs more).
The last line is one JSON object with the figures.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any, Self

import psutil
from rich.console import Console
from rich.table import Table

from bench import prices, start
from bench.anew import forget
from bench.events import fill
from bench.pipelines_app import app
from headwater import Log, Settings, Topic, embedded
from headwater.embedded.jars import fetch
from headwater.embedded.ports import a_free_port

EVENTS = 4_000_000
CASES = ("filter", "tumbling", "hopping", "session", "join")
LONG = ("join",)  # one round of these is long enough to be fair
SAY = Console(stderr=True)
Side = dict[str, Any]


class Peak:
    """The most memory that a process and its children held at once, in megabytes."""

    def __init__(self, pid: int) -> None:
        self.megabytes = 0.0
        self._process = psutil.Process(pid)
        self._ending = Event()
        self._thread = Thread(target=self._sample)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._ending.wait(0.2):
            with suppress(psutil.Error):
                family = [self._process, *self._process.children(recursive=True)]
                self.megabytes = max(self.megabytes, sum(_own(one) for one in family) / 1e6)


def _own(process: psutil.Process) -> float:
    """Resident memory, what is shared with other processes counted in part."""
    with suppress(psutil.Error):
        return float(process.memory_full_info().pss)
    return 0.0


class Bench:
    """A broker with the events, and the two sides."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.address = embedded.kafka_address(settings) or ""
        self.log = Log.open(settings)
        jars = fetch("spark", settings, lambda *_: None)
        self._jars = ",".join(str(one) for one in sorted(jars.glob("*.jar")))
        self._runs = 0

    def plain(self, case: str) -> Side:
        output = self._output(case)
        name = f"plain-{output.name}-{self._runs}"
        self.log.topics.create(Topic(name, schema=output.schema, key=output.key, partitions=4))
        reads = [
            {"name": one.name, "schema": one.spark_schema.json(), "event_time": one.event_time}
            for one in self._inputs(case)
        ]
        with tempfile.TemporaryDirectory() as folder:
            given = (case, self.address, self._jars, name, output.key or "", folder, json.dumps(reads))
            return self._measured("bench.pipelines_plain", *given, output=name)

    def ours(self, case: str) -> Side:
        output = self._output(case)
        home, port = self.settings.home, str(self.settings.kafka_port)
        forget(self.log, self.settings, f"bench.{case}", output.name)
        return self._measured("bench.pipelines_ours", case, str(home), port, output=output.name)

    def answers(self, case: str, side: Side) -> Counter[int]:
        output = self._output(case)
        topic = Topic(side["output"], schema=output.schema, key=output.key, partitions=4)
        names = topic.spark_schema.names
        rows = (record.value for record in self.log.read(topic))
        return Counter(hash(tuple(getattr(row, name) for name in names)) for row in rows)

    def _inputs(self, case: str) -> list[Topic]:
        return [one.topic for one in app.only([case]).pipelines[0].sources]

    def _output(self, case: str) -> Topic:
        return app.only([case]).pipelines[0].sinks[0].topic  # type: ignore[attr-defined,no-any-return]

    def _measured(self, module: str, *arguments: str, output: str) -> Side:
        self._runs += 1
        command = [sys.executable, "-m", module, *arguments]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        with Peak(process.pid) as peak:
            said, errors = process.communicate()
        if process.returncode:
            raise SystemExit(f"{module} {arguments[0]} failed:\n{errors[-4000:]}")
        found: Side = json.loads(said.splitlines()[-1])
        return found | {"memory": peak.megabytes, "output": output}


def side_by_side(bench: Bench, case: str) -> dict[str, float]:
    """Both sides in turn; the ratios of their times and of their memory."""
    plain, ours = [bench.plain(case)], [bench.ours(case)]
    _check(bench, case, plain[0], ours[0])
    if case not in LONG:
        ours.append(bench.ours(case))
        plain.append(bench.plain(case))
    ratio = sum(one["seconds"] for one in plain) / sum(one["seconds"] for one in ours)
    memory = max(one["memory"] for one in ours) / max(one["memory"] for one in plain)
    SAY.print(
        f"{case}: plain {_seconds(plain)}, ours {_seconds(ours)}: ratio {ratio:.2f}, memory {memory:.2f}"
    )
    return {f"{case}_ratio": ratio, f"{case}_memory": memory}


def _seconds(sides: list[Side]) -> str:
    return ", ".join(f"{one['seconds']:.1f} s" for one in sides)


def _check(bench: Bench, case: str, plain: Side, ours: Side) -> None:
    expected, found = bench.answers(case, plain), bench.answers(case, ours)
    if expected != found or not expected:
        missing, more = (expected - found).total(), (found - expected).total()
        raise SystemExit(
            f"{case}: of {expected.total():,} answers {missing:,} are missing, {more:,} too many"
        )
    SAY.print(f"{case}: {expected.total():,} answers, equal")


def exactly_once(bench: Bench) -> dict[str, float]:
    """Warm batches of 500,000 into Spark's own sink and into ours, in turn."""
    rates: dict[str, list[float]] = {"sink-spark": [], "sink-once": []}
    for case in ("sink-spark", "sink-once", "sink-once", "sink-spark"):
        side = bench.ours(case)
        rates[case] += [rows / took for rows, took in side["batches"][2:] if rows > 400_000]
    spark, once = (statistics.median(one) for one in rates.values())
    SAY.print(f"warm batches: Spark's sink {spark:.0f}, exactly once {once:.0f} rows/ms: {once / spark:.2f}")
    return {"exactly_once_ratio": once / spark}


def main(count: int, *cases: str) -> None:
    chosen = cases or (*CASES, "sink", "start", "profile")
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(home=Path(folder), kafka_port=a_free_port())
        embedded.up(settings, [embedded.SERVERS["kafka"]], lambda *_: None)
        try:
            figures = _figures(settings, count, chosen)
        finally:
            embedded.down(settings)
    _report(figures)


def _figures(settings: Settings, count: int, cases: tuple[str, ...]) -> dict[str, float]:
    bench = Bench(settings)
    began = time.monotonic()
    fill(bench.log, bench.address, count)
    SAY.print(
        f"{count:,} payments, {count // 2:,} impressions and clicks in {time.monotonic() - began:.0f} s"
    )
    figures: dict[str, float] = {}
    for case in cases:
        if case == "sink":
            figures |= exactly_once(bench)
        elif case == "profile":
            for name, price in prices.measure(settings, count):
                SAY.print(f"{price:8.2f} µs a row  {name}", highlight=False)
        elif case == "start":
            figures |= start.measure()
        else:
            figures |= side_by_side(bench, case)
    memory = [value for name, value in figures.items() if name.endswith("_memory")]
    return figures | ({"memory_ratio": max(memory)} if memory else {})


def _report(figures: dict[str, float]) -> None:
    table = Table("figure", "ratio", box=None)
    for name, value in figures.items():
        table.add_row(name, f"{value:.2f}")
    SAY.print(table)
    print(json.dumps({name: round(value, 3) for name, value in figures.items()}))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else EVENTS, *sys.argv[2:])
