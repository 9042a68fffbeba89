"""The cluster: settings alone move a job there, with our package, the user's files and the jars."""

import json
import os
import subprocess
import sys

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


def test_a_worker_that_lacks_packages_is_named_with_them_before_anything_runs(job, cluster):  # noqa: F811
    error = job("nothing", "nowhere", PYSPARK_PYTHON=str(cluster.bare_python))
    assert error.startswith("workers lack packages [worker-unfit]")
    assert f"lacks {', '.join(ship.NEEDED)}" in error
    assert "PYSPARK_PYTHON" in error


def test_a_master_that_nobody_runs_is_told_at_once():
    master = f"spark://127.0.0.1:{a_free_port()}"
    with pytest.raises(SparkFailed, match=f"nobody listens at {master}"):
        ship.reach(master)
