"""The cluster: settings alone move a job there, with our package, the user's files and the jars."""

import json
import os
import subprocess
import sys
from collections import Counter
from datetime import datetime
from pathlib import Path

import pytest
from tests.run.cluster import WORKERS, cluster  # noqa: F401 - a fixture

from headwater import Topic, embedded
from headwater.embedded.ports import a_free_port
from headwater.errors import SparkFailed
from headwater.run import ship

JOB = """
import json, os, sys
from pathlib import Path
from headwater import HeadwaterError, Settings
from headwater.run.session import close, session
import beside

address, read, written = sys.argv[1:]
try:
    spark = session(Settings.load(), "job", files=[Path(beside.__file__)])
except HeadwaterError as error:
    print(json.dumps(str(error)))
    sys.exit()
kafka = {"kafka.bootstrap.servers": address}
rows = spark.read.format("kafka").options(**kafka).option("subscribe", read).load()
told = rows.mapInArrow(beside.where, "value binary, place string").persist()
told.select("value").write.format("kafka").options(**kafka).option("topic", written).save()
print(json.dumps([json.loads(one.place) for one in told.select("place").distinct().collect()]))
close(spark)
"""
BESIDE = """
import json, os, sys

def where(batches):
    import headwater, pyarrow
    from headwater.log.topic import Topic
    place = json.dumps([os.getcwd(), headwater.__file__, sys.executable])
    for one in batches:
        yield pyarrow.record_batch({"value": one["value"], "place": [place] * one.num_rows})
"""

APP = """
from datetime import timedelta
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType
from headwater import App, Bounded, Drop, KafkaSink, Pipeline, Topic
from taxes import taxed

PAYMENTS = Topic("{read}", schema="card string, amount double, paid_at timestamp", key="card",
                 event_time="paid_at", partitions=2)
TAXED = Topic("{app}-taxed", schema="card string, amount double, paid_at timestamp", key="card", partitions=2)
COUNTED = Topic("{app}-counted", schema="card string, opened_at timestamp, payments long", key="card")

tax = F.udf(taxed, DoubleType())

app = App(
    "{app}",
    Pipeline("taxed", lambda rows: rows.withColumn("amount", tax("amount")), reads=[PAYMENTS],
             writes=KafkaSink(TAXED)),
    Pipeline("counted", lambda rows: rows.groupBy(F.window("paid_at", "1 minute"), "card")
             .agg(F.count("*").alias("payments")).selectExpr("card", "window.start AS opened_at", "payments"),
             reads=[PAYMENTS], writes=KafkaSink(COUNTED), watermark=Bounded(timedelta(0)), late=Drop()),
)
"""
TAXES = """
def taxed(amount):
    return amount * 1.25
"""


@pytest.fixture
def job(cluster, system, tmp_path):  # noqa: F811
    """Runs JOB as a user's program would be, in a process and a folder of its own."""
    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / "beside.py").write_text(BESIDE)

    def run(read, written, **environment):
        ours = {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_")}
        done = subprocess.run(
            [sys.executable, "job.py", embedded.kafka_address(system), read, written],
            cwd=tmp_path,
            env={**ours, **cluster.environment, **environment},
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), (done.stderr, cluster.said())
        return json.loads(done.stdout)

    return run


def test_a_job_runs_on_both_workers_with_code_and_jars_that_were_shipped(log, name, job, cluster):  # noqa: F811
    read, written = (Topic(f"{name}-{one}", schema="n int", partitions=WORKERS) for one in ("in", "out"))
    for topic in (read, written):
        log.topics.create(topic)
    with log.writer() as writer:
        for number in range(100):
            writer.append(read, {"n": number})
    places = job(read.name, written.name)
    assert isinstance(places, list), places
    assert len({folder for folder, *_ in places}) == WORKERS
    assert all(str(cluster.folder) in folder for folder, *_ in places)
    assert all("headwater.zip" in package for _, package, _ in places)
    assert {python for *_, python in places} == {str(cluster.python)}
    assert sorted(record.value.n for record in log.read(written)) == list(range(100))


def test_the_same_app_gives_the_same_output_here_and_on_a_cluster(log, name, system, cluster, tmp_path):  # noqa: F811
    payments = Topic(
        f"{name}-in", schema="card string, amount double, paid_at timestamp", key="card", partitions=2
    )
    log.topics.create(payments)
    with log.writer() as writer:
        for number in range(300):
            row = {
                "card": f"c{number % 7}",
                "amount": float(number),
                "paid_at": f"2026-01-01T00:{number // 5:02}:00Z",
            }
            writer.append(payments, {**row, "paid_at": datetime.fromisoformat(row["paid_at"])})
        writer.append_bytes(payments.name, b"not json", key=b"c1")
    outputs = {}
    for place, moved in {
        "here": {"HEADWATER_SPARK_MASTER": "local[2]"},
        "cluster": cluster.environment,
    }.items():
        app = f"{place}-{name.rpartition('-')[2]}"
        run_app(app, payments.name, tmp_path / place, {"HEADWATER_HOME": str(system.home), **moved})
        outputs[place] = [
            Counter(record.value for record in log.read(f"{app}-{output}")) for output in ("taxed", "counted")
        ]
    assert outputs["here"] == outputs["cluster"]
    assert [one.total() for one in outputs["here"]] == [300, 59 * 5]
    assert len(list(log.read(f"{payments.name}.dead"))) == 4  # two pipelines, here and there


def run_app(app, read, folder, environment):
    folder.mkdir()
    (folder / "shop.py").write_text(APP.format(app=app, read=read))
    (folder / "taxes.py").write_text(TAXES)
    ours = {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_")}
    done = subprocess.run(
        [Path(sys.executable).with_name("headwater"), "run", "shop.py", "--once", "--json"],
        cwd=folder,
        env={**ours, **environment},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr[-3000:]


def test_a_worker_that_lacks_packages_is_named_with_them_before_anything_runs(job, cluster):  # noqa: F811
    error = job("nothing", "nowhere", PYSPARK_PYTHON=str(cluster.bare_python))
    assert error.startswith("workers lack packages [worker-unfit]")
    assert f"lacks {', '.join(ship.NEEDED)}" in error
    assert "PYSPARK_PYTHON" in error


def test_a_master_that_nobody_runs_is_told_at_once():
    master = f"spark://127.0.0.1:{a_free_port()}"
    with pytest.raises(SparkFailed, match=f"nobody listens at {master}"):
        ship.reach(master)
