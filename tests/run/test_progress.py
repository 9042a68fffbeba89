"""What Spark tells of a batch, read."""

from datetime import UTC, datetime

from headwater.run.progress import Progress

TOLD = {
    "batchId": 7,
    "numInputRows": 120,
    "processedRowsPerSecond": 40.5,
    "batchDuration": 3000,
    "eventTime": {"watermark": "2026-01-01T00:00:05.000Z"},
    "stateOperators": [
        {"numRowsTotal": 5, "numRowsDroppedByWatermark": 2, "memoryUsedBytes": 100},
        {"numRowsTotal": 1, "numRowsDroppedByWatermark": 1, "memoryUsedBytes": 50},
    ],
    "sources": [
        {"startOffset": {"a": {"0": 5}}, "endOffset": {"a": {"0": 10}}, "latestOffset": {"a": {"0": 25}}},
        {"startOffset": None, "endOffset": {"b": {"1": 3}}, "latestOffset": {"b": {"1": 3}}},
    ],
    "observedMetrics": {"dead.a": {"dead": 4, "seen": 100}, "other": {"rows": 9}},
}


def test_a_batch_is_read_with_its_offsets_lag_and_counts():
    found = Progress.of_json(TOLD)
    assert (found.batch, found.rows, found.rows_per_s, found.batch_ms) == (7, 120, 40.5, 3000)
    assert found.starts == {"a": {0: 5}}
    assert found.ends == {"a": {0: 10}, "b": {1: 3}}
    assert found.lag == 15
    assert (found.late, found.dead, found.judged) == (3, 4, {"a"})
    assert (found.state_rows, found.state_bytes) == (6, 150)
    assert found.watermark == datetime(2026, 1, 1, 0, 0, 5, tzinfo=UTC)


def test_before_the_first_event_there_is_no_watermark():
    assert Progress.of_json(TOLD | {"eventTime": {"watermark": "1970-01-01T00:00:00.000Z"}}).watermark is None
    assert Progress.of_json(TOLD | {"eventTime": {}}).watermark is None


def test_a_batch_that_nobody_looked_at_is_not_clean():
    def judged(**seen: int) -> Progress:
        observed = {f"dead.{topic}": {"dead": 0, "seen": count} for topic, count in seen.items()}
        return Progress.of_json(TOLD | {"observedMetrics": observed})

    assert not Progress.of_json(TOLD).is_clean
    assert not judged(a=0, b=0).is_clean
    assert not judged(a=5, b=0).is_clean
    assert judged(a=5, b=3).is_clean


def test_what_spark_leaves_out_is_nothing():
    found = Progress.of_json({"batchId": 0, "numInputRows": 0, "sources": []})
    assert (found.rows_per_s, found.batch_ms, found.lag, found.dead, found.late) == (0.0, 0, 0, 0, 0)
