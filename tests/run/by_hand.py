"""Columnar state driven by hand: batches of rows and their watermarks, without a log and without a query."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from tests.run.stories import BEGIN, PAID, Rows

from headwater import Bounded, Drop, KafkaSink, Pipeline, Topic, clock
from headwater.clock import EPOCH
from headwater.process.event_time import Late
from headwater.run.columnar import Columnar
from headwater.run.decided import DecidedHistory
from headwater.run.event_clock import Reading
from headwater.run.steps import Steps, steps_of

TOPIC = Topic("payments", schema=PAID, key="card", event_time="paid_at")
OUT = KafkaSink(Topic("out", schema="card string"))
_SECOND = timedelta(seconds=1)


class Keeper:
    """A timekeeper that is told what the watermark will be, in seconds after the beginning."""

    def __init__(self) -> None:
        self.next, self.watermark = 0, 0
        self.reach: dict[str, dict[int, int]] = {}

    def now(self) -> datetime:
        return clock.now()

    def begin(self, number: int) -> None:
        pass

    def advance(self, _: int) -> Reading:
        found = (BEGIN - EPOCH + self.next * _SECOND) // timedelta(milliseconds=1)
        self.watermark = max(self.watermark, found)
        return Reading(self.watermark, "the test")

    def resume(self, _: Any, found: Reading) -> None:
        self.watermark = max(self.watermark, found.watermark)


@dataclass
class ByHand:
    """A pipeline's function over batches, on columnar state in a folder; `place` is how Hadoop calls it."""

    function: Callable[[DataFrame], DataFrame]
    spark: SparkSession
    folder: Path
    said: list[Row] = field(default_factory=list)
    number: int = 0
    late: Late = field(default_factory=Drop)
    place: str = ""
    options: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.spark = self.spark.newSession()
        for name, value in {"spark.sql.shuffle.partitions": "1", **self.options}.items():
            self.spark.conf.set(name, value)
        (self.folder / "offsets").mkdir(exist_ok=True)
        self.pipeline = Pipeline(
            "by-hand", self.function, reads=[TOPIC], writes=OUT, watermark=Bounded(_SECOND), late=self.late
        )
        self.restart()

    def restart(self) -> None:
        """A driver that knows nothing but what stands in the folder."""
        steps: Steps | None = steps_of(self.pipeline, self.spark)
        assert steps is not None
        keeper: Any = Keeper()
        self.keeper = keeper
        place = self.place or str(self.folder)
        history = DecidedHistory(place, self.spark)
        self.engine = Columnar(self.pipeline, steps, place, keeper, history)

    def batch(self, rows: Rows, watermark: int) -> list[Row]:
        """One batch of rows, and the watermark after it; what the function says."""
        self.keeper.next = watermark
        offsets = json.dumps({TOPIC.name: {"0": self.number}})  # as Spark notes a batch before it begins
        planned = f'v1\n{{"batchWatermarkMs":0}}\n{offsets}'
        (self.folder / "offsets" / str(self.number)).write_text(planned)
        found = self.engine.answer(self.rows(rows), self.number).collect()
        self.engine.end(self.number)
        self.number += 1
        self.said += found
        return found

    def again(self, rows: Rows, watermark: int) -> list[Row]:
        """The batch before once more, on a clock that has gone on, by a driver that knows nothing of it."""
        self.restart()
        self.number -= 1
        del self.said[:]
        return self.batch(rows, watermark)

    def rows(self, rows: Rows) -> DataFrame:
        data = [(card, float(n), BEGIN + second * _SECOND) for n, (card, second) in enumerate(rows)]
        return self.spark.createDataFrame(data, PAID).coalesce(1)


@contextmanager
def dying(monkeypatch: pytest.MonkeyPatch, owner: Any, step: str, *, after: bool) -> Iterator[None]:
    """A driver that dies before or after a step of a batch."""
    real = getattr(owner, step)

    def dies(*given: Any, **more: Any) -> None:
        if after:
            real(*given, **more)
        raise KeyboardInterrupt("killed")

    with monkeypatch.context() as patch:
        patch.setattr(owner, step, dies)
        with pytest.raises(KeyboardInterrupt):
            yield
