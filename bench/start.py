"""From nothing to the first finished batch: a plain session as Spark's documentation has it, and ours.

Both read the same 20,000 payments from Kafka, keep those of one country and write them to Kafka, each in
a process of its own, in turns (plain, ours, ours, plain). The clock starts before Python does. The plain
side has its jars on disk already and parses with from_json; ours decodes as pipelines do. A first run of
ours that is not counted leaves the archive of classes, as a user's first run does.
"""
# ruff: noqa: PLC0415 - each side imports only what it needs, for the import is measured too

import json
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

ROUNDS = 3
RECORDS = 20_000
SCHEMA = "card string, amount double, country string, paid_at timestamp"
_ARCHIVED_WITHIN = timedelta(minutes=3)


def measure(rounds: int = ROUNDS) -> dict[str, float]:
    """Seconds of both sides, and the median of the rounds' ratios."""
    from headwater import Settings, embedded
    from headwater.embedded.ports import a_free_port

    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(home=Path(folder), kafka_port=a_free_port())
        embedded.up(settings, [embedded.SERVERS["kafka"]], lambda *_: None)
        try:
            return _measure(settings, rounds)
        finally:
            embedded.down(settings)


def _measure(settings: Any, rounds: int) -> dict[str, float]:
    from headwater import embedded
    from headwater.embedded.jars import fetch

    jars = ",".join(str(one) for one in fetch("spark", settings, lambda *_: None).glob("*.jar"))
    _fill(settings)
    arguments = {"plain": jars, "ours": str(settings.home)}
    address = str(embedded.kafka_address(settings))
    _run("ours", address, arguments["ours"])
    _await_archive(settings)
    found = [_round(address, arguments) for _ in range(rounds)]
    return {
        "plain_first_batch_s": statistics.median(one["plain"] for one in found),
        "first_batch_s": statistics.median(one["ours"] for one in found),
        "first_batch_ratio": statistics.median(one["ours"] / one["plain"] for one in found),
    }


def _round(address: str, arguments: dict[str, str]) -> dict[str, float]:
    """The mean of two runs of each side, in turns, so that the machine's other load meets both."""
    seconds = {"plain": 0.0, "ours": 0.0}
    for side in ("plain", "ours", "ours", "plain"):
        seconds[side] += _run(side, address, arguments[side]) / 2
    print(" ".join(f"{side} {value:.2f} s" for side, value in seconds.items()), flush=True)
    return seconds


def _run(side: str, address: str, argument: str) -> float:
    with tempfile.TemporaryDirectory() as folder:
        line = [sys.executable, "-m", "bench.start", side, address, argument, folder, repr(time.time())]
        done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return float(json.loads(done.stdout))


def _fill(settings: Any) -> None:
    from headwater import Log, Topic

    log, payments = Log.open(settings), _topic()
    log.topics.create(payments)
    log.topics.create(Topic("out", schema=SCHEMA, partitions=2))
    with log.writer() as writer:
        for number in range(RECORDS):
            at = f"2026-01-01T00:{number // 1000:02}:{number % 60:02}Z"
            row = {"card": f"c{number % 100}", "amount": number / 2, "country": ("NL", "DE")[number % 2]}
            writer.append(payments, row | {"paid_at": at})


def _topic() -> Any:
    from headwater import FOREVER, Topic

    return Topic("payments", schema=SCHEMA, key="card", event_time="paid_at", partitions=2, retention=FOREVER)


def _await_archive(settings: Any) -> None:
    """A run that left an archive is still writing it: the next ones would compete with that."""
    import fcntl

    from headwater.clock import wait_until

    def is_free(lock: Path) -> bool:
        with lock.open("w") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

    for lock in (settings.cache / "classes").glob("*.lock"):
        wait_until(lambda lock=lock: is_free(lock), _ARCHIVED_WITHIN)  # type: ignore[misc]


def plain(address: str, jars: str, folder: str, began_at: float) -> float:
    """As the documentation tells people to."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    spark = SparkSession.builder.appName("plain").config("spark.jars", jars).getOrCreate()
    rows = spark.readStream.format("kafka").options(**_source(address)).load()
    rows = rows.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("row")).select("row.*")
    rows = rows.where("country = 'NL'").selectExpr("card AS key", "to_json(struct(*)) AS value")
    stream = (
        rows.writeStream.format("kafka").option("kafka.bootstrap.servers", address).option("topic", "out")
    )
    return _finish(stream, folder, began_at)


def ours(address: str, home: str, folder: str, began_at: float) -> float:
    """Our session, our decoding, and a batch at a time as pipelines have it."""
    from pyspark.sql import DataFrame

    from headwater import Settings
    from headwater.app import Source
    from headwater.run.decode import parsed
    from headwater.run.session import close, session

    settings = Settings(home=Path(home))
    spark = session(settings, "ours")

    def write(rows: DataFrame, _: int) -> None:
        found = rows.selectExpr("card AS key", "to_json(struct(*)) AS value").write.format("kafka")
        found.option("kafka.bootstrap.servers", address).option("topic", "out").save()

    raw = spark.readStream.format("kafka").options(**_source(address)).load()
    rows = parsed(raw, Source(_topic()), settings).where("country = 'NL'")
    seconds = _finish(rows.writeStream.foreachBatch(write), folder, began_at)
    close(spark)
    return seconds


def _source(address: str) -> dict[str, Any]:
    return {
        "kafka.bootstrap.servers": address,
        "subscribe": "payments",
        "startingOffsets": "earliest",
    }


def _finish(stream: Any, folder: str, began_at: float) -> float:
    query = stream.option("checkpointLocation", folder).trigger(availableNow=True).start()
    query.awaitTermination()
    seconds = time.time() - began_at
    read = sum(one["numInputRows"] for one in query.recentProgress)
    if read != RECORDS:
        raise RuntimeError(f"read {read} of {RECORDS} records")
    return seconds


def main() -> None:
    """Measure; or, with arguments, be one side."""
    if len(sys.argv) == 1:
        for name, value in measure().items():
            print(f"{name} {value:.3f}")
        return
    side, address, argument, folder, began_at = sys.argv[1:]
    print({"plain": plain, "ours": ours}[side](address, argument, folder, float(began_at)))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    main()
