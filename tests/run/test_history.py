"""History: what Spark's own offset log says of its batches."""

import pytest
from pyspark.sql import SparkSession

from headwater.run.history import History, Planned, read

FILE = """v1
{"batchWatermarkMs":1700000000123,"batchTimestampMs":1,"conf":{"a":"b"}}
{"paid":{"0":5,"1":7}}
-
{"seen":{"0":2}}"""


def test_a_batch_has_its_ends_and_its_watermark() -> None:
    assert read(FILE) == Planned({"paid": {0: 5, 1: 7}, "seen": {0: 2}}, 1700000000123)


def test_a_version_that_is_not_known_is_not_guessed_at() -> None:
    with pytest.raises(ValueError, match="v3"):
        read(FILE.replace("v1", "v3"))


def test_a_checkpoint_tells_its_newest_whole_batch(spark: SparkSession, tmp_path) -> None:
    history = History(str(tmp_path), spark)
    assert (history.exists, history.newest, history.batch(0)) == (False, None, None)
    for name in ("offsets", "commits"):
        (tmp_path / name).mkdir()
    (tmp_path / "metadata").touch()
    for number in (9, 10, 11):
        (tmp_path / "offsets" / str(number)).write_text(FILE)
    for name in ("9", "10", ".10.crc"):
        (tmp_path / "commits" / name).touch()
    assert (history.exists, history.newest) == (True, 10)
    assert history.batch(10) == read(FILE)
    assert history.batch(-1) is None
