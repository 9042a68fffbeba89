"""Spark's JVM, started directly, and ended for certain.

PySpark starts a shell script, which starts a JVM that works out a command line, which becomes Spark's
JVM at last. The command line is known, so that we start the last one only, and see to what the script
would: jars, options, memory, and the folders of Hadoop's configuration. (spark-env.sh is not read.)

The JVM lives on a pipe from this process and ends when the pipe does, so that no orphan is left when
Python is killed. It has a session of its own: Ctrl-C is ours to handle, not the JVM's. Options of Spark
may be secrets and go through a private file, not through the command line, which all users can read.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

from py4j.java_gateway import JavaGateway
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway
from pyspark.serializers import UTF8Deserializer, read_int

from headwater.clock import wait_until
from headwater.embedded.java import java
from headwater.errors import SparkFailed
from headwater.run import command
from headwater.run.archive import Archive
from headwater.settings import Settings

_START_WITHIN = timedelta(seconds=60)
_END_WITHIN = timedelta(seconds=20)
_LONGEST_SOCKET = 100
"""Letters in a socket's path that every system allows."""
_WORTH_KEEPING = 17_000
"""Classes loaded by a run that is worth an archive: a pipeline at work has 21,000, a mere session 14,000."""


@dataclass
class Jvm:
    """A JVM that runs, and the way to it."""

    process: subprocess.Popen[bytes]
    gateway: JavaGateway
    scratch: Path  # a folder of its own for all that is temporary; what is shipped is put there too
    writes_archive: bool

    @property
    def is_alive(self) -> bool:
        """Whether its process runs."""
        return self.process.poll() is None

    def end(self) -> None:
        """End it; one that leaves an archive of its classes does that on its own, unhurried."""
        stays = self.writes_archive and self._loaded_classes() >= _WORTH_KEEPING
        with suppress(Exception):  # it may be gone already
            self.gateway.shutdown()
        if self.writes_archive and not stays:
            self.process.kill()
        if stays:
            self._leave()
        else:
            _wait(self.process)
        shutil.rmtree(self.scratch, ignore_errors=True)

    def _loaded_classes(self) -> int:
        try:
            beans = self.gateway.jvm.java.lang.management.ManagementFactory
            return int(beans.getClassLoadingMXBean().getTotalLoadedClassCount())
        except Exception:  # noqa: BLE001 - the JVM is gone, and with it what it had loaded
            return 0

    def _leave(self) -> None:
        if self.process.stdin:
            self.process.stdin.close()
        with suppress(OSError):
            os.setpriority(os.PRIO_PGRP, self.process.pid, 19)
        self.process.returncode = 0  # it is meant to outlive this object, which would warn otherwise


def start(settings: Settings, connectors: Path, properties: Mapping[str, str]) -> Jvm:
    """A JVM that answers, with the connectors' jars and Spark's properties."""
    log = settings.home.resolve() / "logs" / "spark.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    program, home = java(settings), Path(_find_spark_home())
    jars = command.class_path(home, connectors, properties)
    options = command.options(properties)
    archive = Archive.of(settings.cache.resolve(), program, jars, options)
    line = [str(program), "-cp", ":".join(map(str, jars)), *command.logging(log), *options]
    try:
        return _attempt(line, home, archive, properties, log)
    except SparkFailed:
        if not archive.file.exists():
            raise
        archive.forget()  # whatever was wrong, a start must not depend on it
        return _attempt(line, home, archive, properties, log)


def _attempt(
    line: Sequence[str], home: Path, archive: Archive, properties: Mapping[str, str], log: Path
) -> Jvm:
    claim = archive.claim()
    begun_at = log.stat().st_size if log.exists() else 0
    scratch = Path(tempfile.mkdtemp(prefix="headwater-"))  # for this user's eyes only
    try:
        given = _sockets(scratch, properties) | dict(properties)
        (scratch / "spark.properties").write_text(command.as_properties(given))
        process = _spawn([*line, *archive.options(claim)], home, scratch, log, claim)
        gateway = _connect(process, scratch / "gateway", log, begun_at)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    finally:
        if claim is not None:
            os.close(claim)  # the JVM holds it now
    if "][cds" in _said(log, begun_at):  # the JVM refused it
        archive.forget()
    return Jvm(process, gateway, scratch, writes_archive=claim is not None)


def _sockets(scratch: Path, properties: Mapping[str, str]) -> dict[str, str]:
    """Let workers on this machine be spoken to through sockets in our folder, where their paths have room.

    Through TCP, both sides wait at the beginning of a task's rows, which small batches feel (ADR 7).
    """
    is_here = properties.get("spark.master", "").startswith("local")
    has_room = len(str(scratch / f".{uuid4()}.sock")) < _LONGEST_SOCKET
    return {"spark.python.unix.domain.socket.enabled": "true"} if is_here and has_room else {}


def _spawn(
    line: Sequence[str], home: Path, scratch: Path, log: Path, claim: int | None
) -> subprocess.Popen[bytes]:
    submit = (
        f"-Djava.io.tmpdir={scratch}",
        "org.apache.spark.deploy.SparkSubmit",
        "--properties-file",
        str(scratch / "spark.properties"),
    )
    package = Path(__file__).parents[2]
    path = os.pathsep.join(filter(None, (str(package), os.environ.get("PYTHONPATH"))))
    ours = {"_PYSPARK_DRIVER_CONN_INFO_PATH": str(scratch / "gateway"), "SPARK_CONNECT_MODE": "0"}
    ours |= {"SPARK_HOME": str(home), "PYTHONHASHSEED": "0", "PYTHONPATH": path}
    with log.open("ab") as output:
        return subprocess.Popen(
            [*line, *submit, "--load-spark-defaults", "pyspark-shell"],
            env=os.environ | ours,
            stdin=subprocess.PIPE,  # never written to: its end is the JVM's
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=() if claim is None else (claim,),
        )


def _connect(process: subprocess.Popen[bytes], told: Path, log: Path, begun_at: int) -> JavaGateway:
    try:
        _await(process, told, log, begun_at)
        with told.open("rb") as info:
            port, secret = read_int(info), UTF8Deserializer().loads(info)
        told.unlink()
        with _told(PYSPARK_GATEWAY_PORT=str(port), PYSPARK_GATEWAY_SECRET=secret):
            return launch_gateway()
    except BaseException:
        process.kill()
        _wait(process)
        raise


def _await(process: subprocess.Popen[bytes], told: Path, log: Path, begun_at: int) -> None:
    answers = wait_until(lambda: told.exists() or process.poll() is not None, _START_WITHIN, pause=0.01)
    if not told.exists():
        what = "ended while it started" if answers else "did not answer in time"
        said = "\n".join(_said(log, begun_at).splitlines()[-5:])
        raise SparkFailed(f"Spark's JVM {what}", detail=said, hint=f"its whole log: {log}")


@contextmanager
def _told(**variables: str) -> Iterator[None]:
    """The environment is the only way to tell PySpark of a JVM that runs."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            os.environ.update({name: value} if value is not None else {})


def _said(log: Path, begun_at: int) -> str:
    with log.open("rb") as text:
        text.seek(begun_at)
        return text.read().decode(errors="replace")


def _wait(process: subprocess.Popen[bytes]) -> None:
    if process.stdin:
        process.stdin.close()
    try:
        process.wait(_END_WITHIN.total_seconds())
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
