"""What a cluster's workers need: our package, the user's files, and packages that are there already.

Our package is zipped from where it is installed, so that workers run the very code of the driver.
Packages of others hold compiled code for one kind of machine and are not shipped: they are installed on
the workers, and one that lacks any is named before a pipeline starts.
"""

import atexit
import hashlib
import importlib.util
import shutil
import socket
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from headwater.clock import wait_until
from headwater.errors import SparkFailed, WorkerUnfit

NEEDED = ("confluent_kafka", "msgspec", "pandas", "platformdirs", "psutil", "psycopg", "pyarrow", "redis")
"""The modules that our code imports on a worker."""
_WORKERS_WITHIN = timedelta(seconds=60)
_STANDALONE = "spark://"


def reach(master: str) -> None:
    """SparkFailed when nobody listens at a standalone master's address: Spark itself tries for a minute."""
    if not master.startswith(_STANDALONE):
        return
    addresses = master.removeprefix(_STANDALONE).split(",")
    if not any(_listens(one) for one in addresses):
        raise SparkFailed(f"nobody listens at {master}", hint="is HEADWATER_SPARK_MASTER the master's URL?")


def _listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=5):
            return True
    except (OSError, ValueError):
        return False


def add_package(context: SparkContext, folder: Path) -> None:
    """Ship our package to every worker, by way of `folder`, which must stay as long as the context."""
    archive = folder / "headwater.zip"
    zip_package(archive)
    context.addPyFile(str(archive))


def zip_package(archive: Path) -> None:
    """Our package as it is installed, as a zip that Python can import from."""
    package = Path(__file__).parents[1]
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for file in sorted(package.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                packed.write(file, file.relative_to(package.parent))


def add_files(context: SparkContext, files: Sequence[Path]) -> None:
    """Ship the user's own files, for functions are sent by name and imported where they run.

    They go as one archive, named by its content: a context refuses a second file of the same name.
    """
    if not files:
        return
    contents = {one.name: one.read_bytes() for one in files}
    mark = hashlib.sha256(repr(sorted(contents.items())).encode()).hexdigest()[:16]
    folder = tempfile.mkdtemp(prefix="headwater-app-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # executors fetch from it as long as we run
    archive = Path(folder) / f"app-{mark}.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for name, content in contents.items():
            packed.writestr(name, content)
    context.addPyFile(str(archive))


def check_workers(context: SparkContext) -> None:
    """WorkerUnfit when a worker lacks a package, SparkFailed when there is no worker."""
    _await_workers(context)
    tasks = 2 * max(1, context.defaultParallelism)
    try:
        found = context.parallelize(range(tasks), tasks).mapPartitions(_probe()).collect()
    except (Py4JError, PySparkException) as error:
        raise WorkerUnfit("the workers cannot run our code", detail=reason(error), hint=_HINT) from error
    lacking = sorted({(host, tuple(missing)) for host, missing in found if missing})
    if lacking:
        lines = [f"{host} lacks {', '.join(missing)}" for host, missing in lacking]
        raise WorkerUnfit("workers lack packages", detail="\n".join(lines), hint=_HINT)


_HINT = (
    "install headwater's requirements into the workers' Python, and name that Python with "
    "PYSPARK_PYTHON or the option spark.pyspark.python"
)


def _await_workers(context: SparkContext) -> None:
    java: Any = context._jsc.sc()  # noqa: SLF001 - PySpark tells of executors nowhere else
    if java.conf().getBoolean("spark.dynamicAllocation.enabled", False):
        return

    def has_workers() -> bool:
        return bool(java.isStopped()) or len(java.statusTracker().getExecutorInfos()) > 1

    in_time = wait_until(has_workers, _WORKERS_WITHIN)
    if java.isStopped():
        raise SparkFailed(
            f"{context.master} ended our application before it began",
            hint="the workers' logs say why; what Spark said here is in logs/spark.log of HEADWATER_HOME",
        )
    if not in_time:
        raise SparkFailed(
            f"no worker of {context.master} took the work within {_WORKERS_WITHIN.total_seconds():.0f} s",
            hint="does a worker have spark.executor.memory and spark.executor.cores to spare?",
        )


def _probe() -> Callable[[Iterable[int]], Iterable[tuple[str, list[str]]]]:
    """What a worker tells; a function inside a function, so that it travels by value and needs no import."""
    needed = NEEDED

    def probe(_: Iterable[int]) -> Iterator[tuple[str, list[str]]]:
        time.sleep(0.1)  # holds its slot, so that the tasks reach every worker
        yield socket.gethostname(), [one for one in needed if importlib.util.find_spec(one) is None]

    return probe


def reason(error: Exception) -> str:
    """The line of a Java or Python trace that says what happened."""
    text = str(error.java_exception) if isinstance(error, Py4JJavaError) else str(error)
    lines = [one.strip() for one in text.splitlines() if one.strip() and not one.lstrip().startswith("at ")]
    telling = [one for one in lines if "Error" in one or "Exception" in one]
    return "\n".join((telling or lines)[-3:])
