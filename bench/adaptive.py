"""A learned delay beside the fixed one that a careful person would choose, on delays that change in mid-run.

Events come 2,000 a second; how long each is under way is exponential, with a mean of half a second, then of
six seconds, then of one and a half. Both pipelines count by second and divert what comes late, so each late
record is known by name. The fixed delay is what 99 % need in the worst phase, and not a second more.

    .venv/bin/python -m bench.adaptive            600,000 events

Completeness is the share of rows on time, in stretches of 10,000 rows; a phase has settled after its first
80,000, 40 s of events: the watermark cannot go back, so it stands still while the delay grows.
The last line is one JSON object; the picture is bench/results/adaptive.svg.
"""

import json
import math
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from bench.adaptive_picture import Course, drawn
from bench.events import BEGIN, Message, append
from headwater import (
    FOREVER,
    Adaptive,
    App,
    Bounded,
    Divert,
    KafkaSink,
    Log,
    Pipeline,
    Settings,
    Topic,
    embedded,
)
from headwater.embedded.ports import a_free_port
from headwater.log.late import LateLetters
from headwater.process.event_time import Watermark
from headwater.run.runner import running

EVENTS = 600_000
A_SECOND = 2000
MEANS = (0.5, 6.0, 1.5)
SHARE = 0.99
STRETCH, SETTLED = 10_000, 80_000
PICTURE = Path(__file__).parent / "results" / "adaptive.svg"
EVENT = Topic(
    "readings",
    schema="number long, read_at timestamp",
    event_time="read_at",
    partitions=1,
    retention=FOREVER,
)
CAREFUL = timedelta(seconds=round(max(MEANS) * -math.log(1 - SHARE), 1))
CHOICES: dict[str, Watermark] = {
    "fixed": Bounded(CAREFUL),
    "adaptive": Adaptive(SHARE, at_most=timedelta(minutes=1)),
}


class Arrivals(NamedTuple):
    """When each event happened, in the order in which they come, and the newest event up to there."""

    events: list[float]
    newest: list[float]


def arrivals(count: int) -> Arrivals:
    chance = random.Random(1)
    phase = count / len(MEANS)
    happened = [number / A_SECOND for number in range(count)]
    under_way = [chance.expovariate(1 / MEANS[int(number / phase)]) for number in range(count)]
    order = sorted(range(count), key=lambda one: happened[one] + under_way[one])
    events = [happened[one] for one in order]
    return Arrivals(events, list(accumulate(events, max)))


def messages(events: list[float]) -> Iterator[Message]:
    for number, second in enumerate(events):
        at = (BEGIN + timedelta(seconds=60 + second)).isoformat(timespec="microseconds")
        yield {"key": "", "value": f'{{"number":{number},"read_at":"{at}"}}'}


def by_second(readings: DataFrame) -> DataFrame:
    counted = readings.groupBy(F.window("read_at", "1 second")).agg(F.count("*").alias("readings"))
    return counted.selectExpr("window.start AS opened_at", "readings")


def pipeline(name: str) -> Pipeline:
    counts = Topic(f"counts-{name}", schema="opened_at timestamp, readings long")
    given = {"reads": [EVENT], "writes": KafkaSink(counts), "late": Divert(f"late-{name}"), "batch": STRETCH}
    return Pipeline(name, by_second, watermark=CHOICES[name], **given)  # type: ignore[arg-type]


def course(name: str, seen: Arrivals, settings: Settings) -> Course:
    """How long the pipeline waited, and what was on time, along the rows."""
    with running(App("adaptive", pipeline(name)), settings, once=True) as supervisor:
        supervisor.join()
    for error in supervisor.errors:
        raise SystemExit(str(error))
    late = Counter(one.letter.offset // STRETCH for one in LateLetters(f"late-{name}", settings).read())
    on_time = [1 - late[one] / STRETCH for one in range(len(seen.events) // STRETCH)]
    waited = []
    for one in supervisor.pipelines[0].history:
        end = one.ends[EVENT.name][0]
        if one.rows and one.watermark is not None:
            behind = BEGIN + timedelta(seconds=60 + seen.newest[end - 1]) - one.watermark
            waited.append((end, behind.total_seconds()))
    return Course(name, on_time, waited)


def figures(courses: list[Course], count: int) -> dict[str, float]:
    phase = count // len(MEANS)
    settled = [one for one in range(count // STRETCH) if (one * STRETCH) % phase >= SETTLED]
    fixed, adaptive = courses
    share = sum(adaptive.on_time[one] for one in settled) / len(settled)
    return {
        "asked_completeness": SHARE,
        "adaptive_completeness": share,
        "adaptive_completeness_worst": min(adaptive.on_time[one] for one in settled),
        "fixed_completeness": sum(fixed.on_time[one] for one in settled) / len(settled),
        "adaptive_delay_s": adaptive.mean_wait,
        "fixed_delay_s": fixed.mean_wait,
        "delay_ratio": adaptive.mean_wait / fixed.mean_wait,
    }


def main(count: int) -> None:
    seen = arrivals(count)
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(home=Path(folder), kafka_port=a_free_port())
        embedded.up(settings, [embedded.SERVERS["kafka"]], lambda *_: None)
        try:
            Log.open(settings).topics.create(EVENT)
            append(embedded.kafka_address(settings) or "", EVENT, messages(seen.events))
            courses = [course(name, seen, settings) for name in CHOICES]
        finally:
            embedded.down(settings)
    PICTURE.write_text(drawn(courses, SHARE, count), encoding="utf-8")
    print(json.dumps({name: round(value, 4) for name, value in figures(courses, count).items()}))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else EVENTS)
