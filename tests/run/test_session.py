"""The session: tuned, quiet, quick to start again, and gone when it is closed or its process killed."""

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path

import psutil
import pytest
from pyspark.find_spark_home import _find_spark_home
from tests.conftest import pytest_runtest_makereport

from headwater import Settings
from headwater.clock import wait_until
from headwater.embedded.jars import fetch
from headwater.embedded.java import java
from headwater.errors import SparkFailed
from headwater.run import command, jvm
from headwater.run.archive import Archive
from headwater.run.session import close, session, tuned

SOON = timedelta(seconds=60)
BEGIN = """
import json, os, signal, sys
from pathlib import Path
from headwater import Settings
from headwater.run import jvm, session as module
from headwater.run.session import close, session

def pid():
    return module._running.jvm.process.pid

settings = Settings(home=Path(sys.argv[1]), cache=Path(sys.argv[2]), spark_options=json.loads(sys.argv[3]))
jvm._WORTH_KEEPING = 1_000_000  # no JVM stays to write an archive, unless a test is about that
"""


@pytest.fixture
def cache(tmp_path):
    """A cache of the test's own, with the real connectors and no archive."""
    folder = tmp_path / "cache"
    folder.mkdir()
    real = fetch("spark", Settings(), lambda *_: None)
    (folder / real.name).symlink_to(real)
    return folder


@pytest.fixture
def program(tmp_path):
    """Starts a program in a process and a folder of its own."""
    place = tmp_path / "place"
    place.mkdir()

    def run(text, *, where=None, **options):
        where = where or Settings().cache
        line = [sys.executable, "-c", BEGIN + text, tmp_path / "home", where, json.dumps(options)]
        return subprocess.Popen(line, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    return run


def told(process):
    """What a program printed, which ended well and said nothing beside it."""
    said, complaints = process.communicate(timeout=200)
    assert (process.returncode, complaints) == (0, "")
    return json.loads(said)


def gone(pid):
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_session_is_tuned_and_leaves_nothing_but_its_log(program, tmp_path):
    odd = "a=b: c\\d #ü\u20ac\n!"
    script = """
before = signal.getsignal(signal.SIGINT)
spark = session(settings, "first")
def where(batches):
    import pyarrow
    print("hello from a worker")
    for one in batches:
        yield pyarrow.record_batch({"id": one["id"], "python": [sys.executable] * one.num_rows})
rows = spark.range(10).mapInArrow(where, "id long, python string")
names = ("master", "sql.shuffle.partitions", "sql.session.timeZone", "odd", "driver.host")
found = {one: spark.conf.get("spark." + one) for one in names}
found |= {"python": {one.python for one in rows.collect()} == {sys.executable}, "pid": pid()}
found |= {"signal": signal.getsignal(signal.SIGINT) is before}
spark.sql("CREATE TABLE kept AS SELECT 1 AS n")
folder = module._running.jvm.scratch
found["sockets"] = [folder.stat().st_mode & 0o077, len(list(folder.glob(".*.sock"))) > 1]
found["command"] = " ".join(map(str, module._running.jvm.process.args))
found["scratch"] = str(module._running.jvm.scratch)
close(spark)
print(json.dumps(found))
"""
    found = told(program(script, **{"spark.odd": odd, "spark.sql.session.timeZone": "Asia/Tokyo"}))
    cores = len(os.sched_getaffinity(0))
    assert found["master"] == f"local[{cores},4]"
    assert found["sql.shuffle.partitions"] == str(2 * cores)
    assert found["sql.session.timeZone"] == "Asia/Tokyo"
    assert found["odd"] == odd
    assert found["driver.host"] == "127.0.0.1"
    assert found["python"]
    assert found["signal"]
    assert found["sockets"] == [0, True], "workers' sockets stand where nobody else can go"
    assert "spark.odd" not in found["command"]
    assert gone(found["pid"])
    assert not Path(found["scratch"]).exists()
    assert list((tmp_path / "place").iterdir()) == []
    assert "hello from a worker" in (tmp_path / "home" / "logs" / "spark.log").read_text()


def test_no_jvm_is_left_when_its_program_is_killed(program):
    process = program("spark = session(settings, 'killed')\nprint(pid(), flush=True)\nsignal.pause()")
    pid = int(process.stdout.readline())
    assert not gone(pid)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert wait_until(lambda: gone(pid), SOON)


def test_a_new_session_can_be_had_when_the_jvm_died_and_ends_though_nobody_closes_it(program):
    script = """
spark = session(settings, "first")
first = pid()
os.kill(first, signal.SIGKILL)
module._running.jvm.process.wait()
close(spark)
spark = session(settings, "second")
print(json.dumps([first, pid(), spark.range(7).count()]))
"""
    first, second, count = told(program(script))
    assert count == 7
    assert first != second
    assert gone(second)


def test_an_archive_is_written_used_and_when_damaged_forgotten(program, cache):
    script = """
jvm._WORTH_KEEPING = 1
spark = session(settings, "any")
line = " ".join(map(str, module._running.jvm.process.args))
count = spark.range(3).count()
close(spark)
print(json.dumps(["ArchiveClassesAtExit" in line, "SharedArchiveFile" in line, count]))
"""
    assert told(program(script, where=cache)) == [True, False, 3]
    (lock,) = cache.glob("classes/*.lock")
    assert wait_until(lambda: is_free(lock), 2 * SOON)  # it is written at the lowest priority
    assert told(program(script, where=cache)) == [False, True, 3]
    (archive,) = cache.glob("classes/*.jsa")
    damage(archive)
    assert told(program(script, where=cache)) == [False, True, 3]
    assert not archive.exists()


def is_free(lock):
    with lock.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def damage(archive):
    archive.chmod(0o644)
    with archive.open("r+b") as file:
        for part in range(1, 20):
            file.seek(archive.stat().st_size * part // 20)
            file.write(b"\xff" * 4096)


def make(tmp_path, *jars, options=()):
    return Archive.of(tmp_path, java(Settings()), [Path(one) for one in jars], options)


def test_an_archive_belongs_to_one_make_of_jvm(tmp_path):
    jar = tmp_path / "one.jar"
    jar.write_text("1")
    first = make(tmp_path, jar)
    assert make(tmp_path, jar) == first
    assert make(tmp_path, jar, options=["-Xmx2g"]) != first
    jar.write_text("22")
    assert make(tmp_path, jar) != first


def test_only_one_run_writes_an_archive(tmp_path):
    archive = make(tmp_path)
    claim = archive.claim()
    assert claim is not None
    assert archive.claim() is None
    os.close(claim)
    again = archive.claim()
    assert again is not None
    os.close(again)


def test_an_archive_that_was_cut_off_is_not_taken_over(tmp_path):
    archive = make(tmp_path)
    archive.file.parent.mkdir()
    archive.partial.write_bytes(bytes(4096) + b"classes")
    claim = archive.claim()
    assert claim is not None
    os.close(claim)
    assert not archive.file.exists()
    assert not archive.partial.exists()


def test_a_whole_archive_is_taken_over_and_the_oldest_are_dropped(tmp_path):
    archive = make(tmp_path)
    archive.file.parent.mkdir()
    for age in range(4):
        old = archive.file.with_name(f"old-{age}.jsa")
        old.touch()
        os.utime(old, (age, age))
    archive.partial.write_bytes(b"\xa8\xab\x0b\xf0")
    assert archive.claim() is None
    assert {one.name for one in archive.file.parent.glob("*.jsa")} == {
        archive.file.name,
        "old-3.jsa",
        "old-2.jsa",
    }


def test_no_archive_is_tried_where_java_would_refuse_one(tmp_path):
    assert make(tmp_path, tmp_path).claim() is None


def test_a_cache_that_cannot_be_written_is_no_hindrance(tmp_path):
    (tmp_path / "classes").write_text("a file where the folder of archives would be")
    assert make(tmp_path).claim() is None


def test_the_command_line_is_what_the_launcher_works_out():
    home = Path(_find_spark_home())
    line = [java(Settings()), "-cp", home / "jars" / "*", "org.apache.spark.launcher.Main"]
    line += ["org.apache.spark.deploy.SparkSubmit", "pyspark-shell"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    env = kept | {"SPARK_HOME": str(home), "SPARK_SCALA_VERSION": "2.13"}
    theirs = subprocess.run(line, env=env, capture_output=True, text=True, check=True).stdout.split("\0")
    options = {one for one in theirs if re.match(r"--|-D", one.strip())}
    assert options - set(command.options({})) == {"--add-modules=jdk.incubator.vector"}
    first = command.class_path(home, home, {})[0]
    assert str(first) in theirs[theirs.index("-cp") + 1]  # slf4j-api stands before all others


def test_options_of_the_settings_stand_above_ours(tmp_path):
    settings = Settings(
        home=tmp_path, spark_options={"spark.ui.enabled": "true", "spark.driver.memory": "3g"}
    )
    properties = tuned(settings, 4, tmp_path)
    assert properties["spark.ui.enabled"] == "true"
    assert "-Xmx3g" in command.options(properties)


@pytest.mark.parametrize(("place", "is_ours"), [(None, True), ("s3a://bank/checkpoints", False)])
def test_logs_of_checkpoints_are_written_without_a_process_for_each_where_they_are_on_this_machine(
    tmp_path, place, is_ours
):
    properties = tuned(Settings(home=tmp_path, checkpoints=place), 4, tmp_path)
    assert ("spark.sql.streaming.checkpointFileManagerClass" in properties) is is_ours


def test_a_socket_whose_path_would_be_too_long_is_not_asked_for():
    here = {"spark.master": "local[2]"}
    assert jvm._sockets(Path("/tmp/short"), here) != {}
    assert jvm._sockets(Path("/tmp", 60 * "x"), here) == {}
    assert jvm._sockets(Path("/tmp/short"), {"spark.master": "spark://elsewhere:7077"}) == {}


def test_a_collector_of_the_users_takes_the_place_of_ours():
    options = command.options({"spark.driver.extraJavaOptions": "-XX:+UseG1GC -Dname='a b'"})
    assert "-XX:+UseParallelGC" not in options
    assert options[-2:] == ["-XX:+UseG1GC", "-Dname=a b"]


def test_a_cluster_gets_the_jars_and_is_not_bound_to_loopback(tmp_path):
    (tmp_path / "connector.jar").touch()
    settings = Settings(home=tmp_path, spark_master="spark://far:7077")
    properties = tuned(settings, 4, tmp_path)
    assert properties["spark.master"] == "spark://far:7077"
    assert properties["spark.jars"] == (tmp_path / "connector.jar").as_uri()
    assert not {"spark.driver.host", "spark.driver.bindAddress"} & set(properties)


def test_a_jvm_that_does_not_start_says_why(tmp_path):
    settings = Settings(home=tmp_path)
    with pytest.raises(SparkFailed, match="JVM ended while it started") as caught:
        jvm.start(settings, tmp_path, {"spark.driver.memory": "plenty"})
    assert "Invalid maximum heap size: -Xmxplenty" in caught.value.detail
    assert str(tmp_path / "logs" / "spark.log") in caught.value.hint


def test_a_second_session_shares_the_jvm_but_not_the_views(spark, system):
    second = session(system, "second")
    second.range(3).createOrReplaceTempView("numbers")
    assert second.sparkContext is spark.sparkContext
    assert not spark.catalog.tableExists("numbers")
    close(second)
    assert spark.range(5).count() == 5


def stopped(*_):
    pytest.fail("it ran out of time")


def test_a_test_that_is_stopped_within_a_call_leaves_a_sound_session_to_the_next(spark):
    before = signal.signal(signal.SIGUSR1, stopped)
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGUSR1)).start()
    try:
        asleep = pytest.CallInfo.from_call(lambda: spark._jvm.java.lang.Thread.sleep(60_000), "call")
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert asleep.excinfo.errisinstance(pytest.fail.Exception)
    pytest_runtest_makereport(asleep)
    assert [spark.range(5).count() for _ in range(3)] == [5, 5, 5]


@pytest.mark.usefixtures("spark")
def test_a_session_that_cannot_share_is_refused(system):
    with pytest.raises(SparkFailed, match="of 8 slots, and 64 are needed"):
        session(system, "larger", slots=64)
    away = Settings(home=system.home, spark_master="spark://far:7077")
    with pytest.raises(SparkFailed, match=r"on local\[8,4\], and one on spark://far:7077 is asked for"):
        session(away, "away")
