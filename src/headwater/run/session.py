"""The session that pipelines run in: tuned, quiet, quick to start, and gone when it is closed.

Without `spark_master`, or with one that begins with `local`, it is this machine, bound to loopback; with
another, a cluster, to which our package, the user's files and the connectors' jars are shipped.
`spark_options` stand above everything that is set here.

A process has one JVM, because PySpark has one: a second session shares it, with its own views and SQL
settings, and the last `close` ends it.
"""

import atexit
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headwater.embedded.jars import Progress, fetch
from headwater.errors import SparkFailed
from headwater.run import jvm, ship
from headwater.settings import Settings

TRIES = 4
"""How often a task is tried before its batch fails, on one machine as on a cluster."""
_LOOPBACK = "127.0.0.1"
_CHECKPOINTING = "org.apache.spark.sql.execution.streaming.checkpointing"


@dataclass
class _Running:
    """The process's one JVM with its first session, and how many sessions share it."""

    jvm: jvm.Jvm
    spark: SparkSession
    slots: int
    sessions: int = 0


_running: _Running | None = None
_lock = threading.RLock()


def session(
    settings: Settings,
    name: str,
    *,
    slots: int | None = None,
    files: Sequence[Path] = (),
    progress: Progress = lambda *_: None,
) -> SparkSession:
    """A session for pipelines; `files` are Python files that their functions import.

    `slots` is how many tasks run at once on this machine: its cores unless told otherwise.
    """
    global _running  # noqa: PLW0603 - PySpark has one JVM in a process, and so have we
    with _lock:
        if _running is None:
            _running = _start(settings, name, slots or _cores(), progress)
        else:
            _check_shared(_running, settings, slots)
        _running.sessions += 1
        ship.add_files(_running.spark.sparkContext, files)
        return _running.spark if _running.sessions == 1 else _running.spark.newSession()


def close(spark: SparkSession) -> None:
    """End a session; with the last one its JVM ends, and everything that ran in it."""
    global _running
    with _lock:
        if _running is None or spark.sparkContext is not _running.spark.sparkContext:
            return
        _running.sessions -= 1
        if _running.sessions == 0:
            ended, _running = _running, None
            _end(ended)


def _check_shared(running: _Running, settings: Settings, slots: int | None) -> None:
    master = str(running.spark.sparkContext.master)
    wanted = settings.spark_options.get("spark.master", settings.spark_master)
    if wanted not in {None, master} or (wanted is None and not master.startswith("local")):
        what = f"on {master}, and one on {wanted or 'this machine'} is asked for"
    elif settings.spark_master is None and (slots or 0) > running.slots:
        what = f"of {running.slots} slots, and {slots} are needed"
    else:
        return
    raise SparkFailed(
        f"this process has a session {what}", hint="close the first one, or use another process"
    )


def tuned(settings: Settings, slots: int, connectors: Path) -> dict[str, str]:
    """Spark's properties as we set them, under those of the settings."""
    place = (
        _of_a_cluster(settings, connectors) if _is_elsewhere(settings) else _of_this_machine(settings, slots)
    )
    always = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
        "spark.sql.warehouse.dir": (settings.home.resolve() / "warehouse").as_uri(),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.streaming.maxBatchesToRetainInMemory": "1",  # two copies of all state, or one
        "spark.shuffle.streaming.networkBufferMaxWaitTimeMs": "1",  # real time; the default is 50
        "spark.scheduler.mode": "FAIR",  # or one pipeline's long batch would hold up the others
        "spark.python.sql.dataFrameDebugging.enabled": "false",  # asks Java twice for each column
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # the default takes twice as long
    }
    if settings.checkpoint_root.startswith("file:"):  # the default runs `readlink` for each file of a log
        always["spark.sql.streaming.checkpointFileManagerClass"] = (
            f"{_CHECKPOINTING}.FileSystemBasedCheckpointFileManager"
        )
    return always | place | dict(settings.spark_options)


def _is_elsewhere(settings: Settings) -> bool:
    """Whether pipelines run on a cluster, and not in this process's own JVM."""
    return settings.spark_master is not None and not settings.spark_master.startswith("local")


def _of_this_machine(settings: Settings, slots: int) -> dict[str, str]:
    return {
        "spark.master": settings.spark_master or f"local[{slots},{TRIES}]",
        "spark.driver.host": _LOOPBACK,
        "spark.driver.bindAddress": _LOOPBACK,
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": str(2 * _cores()),
        "spark.buffer.pageSize": "4m",  # by default it grows with the heap, and every sort takes some
        "spark.pyspark.python": sys.executable,
        "spark.python.daemon.module": "headwater.run.daemon",
    }


def _of_a_cluster(settings: Settings, connectors: Path) -> dict[str, str]:
    return {
        "spark.master": settings.spark_master or "",
        "spark.jars": ",".join(one.as_uri() for one in sorted(connectors.resolve().glob("*.jar"))),
        "spark.task.maxFailures": str(TRIES),
        "spark.executor.extraJavaOptions": "-XX:+UseParallelGC",
        "spark.pyspark.python": os.environ.get("PYSPARK_PYTHON", "python3"),
    }


def _start(settings: Settings, name: str, slots: int, progress: Progress) -> _Running:
    if _is_elsewhere(settings):
        ship.reach(settings.spark_master or "")
    connectors = fetch("spark", settings, progress)
    properties = tuned(settings, slots, connectors)
    started = jvm.start(settings, connectors, properties)
    try:
        context = _context(name, started, properties)
        if _is_elsewhere(settings):
            ship.add_package(context, started.scratch)
            ship.check_workers(context)
        running = _Running(started, SparkSession(context), slots)
    except BaseException:
        _forget()
        started.end()
        raise
    atexit.register(_end, running)
    return running


def _context(name: str, started: jvm.Jvm, properties: dict[str, str]) -> SparkContext:
    conf = SparkConf(_jvm=started.gateway.jvm).setAppName(name)
    try:
        with _signals_kept():
            context = SparkContext(conf=conf, gateway=started.gateway)
    except (Py4JError, PySparkException) as error:
        raise SparkFailed(
            "Spark's session could not be made",
            detail=ship.reason(error),
            hint="the master and the options of the settings are what it was made from",
        ) from error
    context.pythonExec = properties["spark.pyspark.python"]
    return context


@contextmanager
def _signals_kept() -> Iterator[None]:
    """PySpark's Ctrl-C cancels the batch in hand; ours lets it finish."""
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if is_main:
            signal.signal(signal.SIGINT, before)


def _end(running: _Running) -> None:
    atexit.unregister(_end)
    try:
        if running.jvm.is_alive:
            running.spark.stop()
    except (Py4JError, OSError):  # it died meanwhile
        pass
    finally:
        _forget()
        running.jvm.end()


def _forget() -> None:
    """PySpark keeps the way to its JVM for good, even to a dead one; the next session has another."""
    context = SparkContext._active_spark_context  # noqa: SLF001
    if context is not None:
        context._jsc = None  # noqa: SLF001 - nobody to ask: only Python's side is left
        context.stop()
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
    SparkSession._instantiatedSession = SparkSession._activeSession = None  # noqa: SLF001


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
