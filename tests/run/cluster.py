"""A real standalone cluster of one master and two workers, on loopback, from the PySpark package.

Its workers run a Python that has the packages of others but not ours, so that only what is shipped
can be imported there.
"""

import json
import os
import subprocess
import sys
import sysconfig
import urllib.request
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pyspark
import pytest

from headwater.clock import wait_until
from headwater.embedded.java import java
from headwater.embedded.ports import LOOPBACK, a_free_port
from headwater.settings import Settings

WORKERS = 2
_SPARK = Path(pyspark.__file__).parent
_SOON = timedelta(seconds=90)


@dataclass
class Cluster:
    """A cluster that runs: its master's address, and the Python that its workers are to use."""

    folder: Path
    port: int = field(default_factory=a_free_port)
    page: int = field(default_factory=a_free_port)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def master(self) -> str:
        return f"spark://{LOOPBACK}:{self.port}"

    @property
    def python(self) -> Path:
        """A Python with the packages of others, without ours."""
        return self.folder / "with-packages" / "bin" / "python"

    @property
    def bare_python(self) -> Path:
        """A Python without any packages."""
        return self.folder / "bare" / "bin" / "python"

    @property
    def environment(self) -> dict[str, str]:
        """Settings that move an app here, and nothing but settings."""
        return {
            "HEADWATER_SPARK_MASTER": self.master,
            "HEADWATER_SPARK_EXECUTOR_MEMORY": "512m",
            "HEADWATER_SPARK_DRIVER_HOST": LOOPBACK,
            "PYSPARK_PYTHON": str(self.python),
        }

    def start(self) -> None:
        _make_python(self.folder / "bare", [])
        _make_python(self.folder / "with-packages", [sysconfig.get_path("purelib")])
        ask = [str(self.python), "-c", "import pyarrow, msgspec, headwater"]
        said = subprocess.run(
            ask, capture_output=True, text=True, check=False, cwd=self.folder, env=self._env
        )
        assert "No module named 'headwater'" in said.stderr, "the workers would see our source by accident"
        self._run("master.Master", "--port", self.port, "--webui-port", self.page)
        assert wait_until(lambda: self.alive_workers() == 0, _SOON), self.said()
        for _ in range(WORKERS):
            self._run("worker.Worker", "--webui-port", "0", "--cores", "1", "--memory", "1g", self.master)
        assert wait_until(lambda: self.alive_workers() == WORKERS, _SOON), self.said()

    def stop(self) -> None:
        for one in reversed(self.processes):
            one.terminate()
        for one in self.processes:
            one.wait(30)

    def alive_workers(self) -> int:
        """How many workers the master counts; -1 while it does not answer."""
        try:
            with urllib.request.urlopen(f"http://{LOOPBACK}:{self.page}/json/", timeout=5) as page:
                return int(json.load(page)["aliveworkers"])
        except OSError:
            return -1

    def said(self) -> str:
        return (self.folder / "cluster.log").read_text()[-3000:]

    @property
    def _env(self) -> dict[str, str]:
        ours = ("HEADWATER_", "PYSPARK_", "SPARK_", "PYTHONPATH", "VIRTUAL_ENV")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        return kept | {"SPARK_HOME": str(_SPARK), "SPARK_SCALA_VERSION": "2.13", "SPARK_LOCAL_IP": LOOPBACK}

    def _run(self, name: str, *arguments: object) -> None:
        place = ("--work-dir", self.folder / f"work-{len(self.processes)}") if "Worker" in name else ()
        line = [str(java(Settings())), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        line += ["-cp", str(_SPARK / "jars" / "*"), f"org.apache.spark.deploy.{name}", "--host", LOOPBACK]
        with (self.folder / "cluster.log").open("ab") as log:
            self.processes.append(
                subprocess.Popen(
                    [*line, *map(str, (*place, *arguments))],
                    cwd=self.folder,
                    env=self._env,
                    stdout=log,
                    stderr=log,
                )
            )


def _make_python(folder: Path, packages: list[str]) -> None:
    """A Python of its own; the folders of packages are searched, but their .pth files are not read."""
    venv.create(folder, symlinks=True)
    site = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    (site / "packages.pth").write_text("\n".join(packages))


@contextmanager
def running(folder: Path) -> Iterator[Cluster]:
    """A cluster for the time of the block."""
    started = Cluster(folder)
    try:
        started.start()
        yield started
    finally:
        started.stop()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The cluster of all tests."""
    with running(tmp_path_factory.mktemp("cluster")) as started:
        yield started
