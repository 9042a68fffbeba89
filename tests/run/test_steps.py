"""Steps that cannot be are refused where they are called, with a word on what to write instead."""

from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater import AfterCount, AtWatermark, Every, Global, Hopping, Session, Tumbling, sliding, windowed
from headwater.errors import BadStep

pytestmark = pytest.mark.system
SECOND = timedelta(seconds=1)
MINUTES = Tumbling(60 * SECOND)


@pytest.fixture
def payments(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([], "card string, amount double, paid_at timestamp")


def slid(rows: DataFrame, **more: Any) -> DataFrame:
    given: dict[str, Any] = {"by": "card", "within": SECOND, "measures": [F.count("*").alias("n")]}
    return rows.transform(sliding, **given | more)


def cut(rows: DataFrame, windows: Any = MINUTES, **more: Any) -> DataFrame:
    return rows.transform(windowed, windows, **{"measures": [F.count("*").alias("n")]} | more)


@pytest.mark.parametrize(
    ("step", "more", "said"),
    [
        (slid, {"by": "who"}, "sliding needs the column 'who', which its rows do not have"),
        (slid, {"within": 0 * SECOND}, "sliding cannot look back over no time"),
        (slid, {"fires": "later"}, "sliding cannot fire by 'later'"),
        (slid, {"measures": []}, "sliding has no measure"),
        (slid, {"measures": lambda: [F.col("amount")]}, "a measure of sliding has no name"),
        (slid, {"measures": lambda: [F.count("*").alias("card")]}, "sliding would have two columns 'card'"),
        (slid, {"on": "card"}, "sliding cannot tell the column of the event time"),
        (cut, {"windows": "5 minutes"}, "windowed does not know the windows '5 minutes'"),
        (cut, {"panes": "all"}, "panes cannot be 'all'"),
        (cut, {"measures": lambda: [F.count("*").alias("pane")]}, "windowed would have two columns 'pane'"),
        (cut, {"windows": Global()}, "a global window never ends"),
        (
            cut,
            {"windows": Session(SECOND), "trigger": AtWatermark(early=AfterCount(2))},
            "a session that speaks more than once has to take back what it said",
        ),
    ],
)
def test_a_step_that_cannot_be_is_refused(payments: DataFrame, step: Any, more: Any, said: str) -> None:
    given = {name: one() if callable(one) else one for name, one in more.items()}  # columns need a session
    with pytest.raises(BadStep) as caught:
        step(payments, **given)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Tumbling(0 * SECOND), "a tumbling window's size must be longer than nothing"),
        (lambda: Hopping(SECOND, 0 * SECOND), "a hopping window's every must be longer than nothing"),
        (lambda: Session(-SECOND), "a session's gap must be longer than nothing"),
        (lambda: Every(0 * SECOND), "a trigger cannot fire every no time"),
        (lambda: AfterCount(0), "a trigger cannot fire after no rows"),
    ],
)
def test_a_spec_that_cannot_be_is_refused_when_it_is_made(make: Any, said: str) -> None:
    with pytest.raises(BadStep, match=said):
        make()


def test_two_timestamps_need_a_word_on_which_is_the_event(payments: DataFrame) -> None:
    two = payments.withColumn("seen_at", F.col("paid_at"))
    with pytest.raises(BadStep, match="timestamps: paid_at, seen_at"):
        slid(two)
    assert slid(two, on="paid_at").columns == ["card", "amount", "paid_at", "seen_at", "n"]


def test_a_streaming_query_of_sparks_own_is_no_stage(spark: SparkSession) -> None:
    rows = spark.readStream.format("rate").load().selectExpr("value AS card", "timestamp AS paid_at")
    with pytest.raises(BadStep, match="sliding cannot stand in a streaming query of Spark's own"):
        slid(rows)


def test_a_null_event_is_in_no_window(spark: SparkSession) -> None:
    rows = spark.createDataFrame([("a", None)], "card string, paid_at timestamp")
    assert (slid(rows).count(), cut(rows).count()) == (0, 0)
