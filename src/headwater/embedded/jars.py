"""The files that a server is made of, fetched once, verified always, shared by all projects.

A bundle (`kafka`, `registry`) is a lock in locks/<bundle>.json: every file with its coordinates,
size and sha256. The Ivy that ships inside PySpark fetches exactly these, without poms and without
anything transitive, so no Maven and no address of a repository is needed; a user's own
ivysettings.xml (setting `ivy_settings`) takes the place of the public repository.

A bundle's folder in the cache appears by one rename, after every checksum held: a download that
was cut off leaves only a folder that nobody reads and that the next one removes.
"""

import fcntl
import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from importlib import resources
from importlib.util import find_spec
from pathlib import Path

from headwater.embedded.archives import extract
from headwater.embedded.disk import full, need_room, writing
from headwater.embedded.java import java
from headwater.embedded.process import end_strays, environment
from headwater.errors import ChecksumMismatch, DownloadFailed
from headwater.settings import Settings

Progress = Callable[[str, int, int], None]
"""Told a bundle's name, the bytes that have arrived and the bytes in all."""

_PUBLIC = (
    '<ivysettings><settings defaultResolver="public"/><resolvers>'
    '<ibiblio name="public" m2compatible="true" usepoms="false"/></resolvers></ivysettings>'
)
_VARIABLE = "HEADWATER_CACHE"
_PATTERN = "[artifact]-[revision](-[classifier]).[ext]"


@dataclass(frozen=True, kw_only=True)
class LockedFile:
    """One file of a bundle: where it comes from and what it must be."""

    org: str
    name: str
    rev: str
    sha256: str
    size: int
    ext: str = "jar"
    classifier: str = ""

    @property
    def file(self) -> str:
        """Its file name in the bundle's folder."""
        return f"{self.name}-{self.rev}{'-' if self.classifier else ''}{self.classifier}.{self.ext}"

    @property
    def dependency(self) -> str:
        """Its line in an ivy.xml."""
        classifier = f' m:classifier="{self.classifier}"' if self.classifier else ""
        artifact = f'<artifact name="{self.name}" type="{self.ext}" ext="{self.ext}"{classifier}/>'
        return (
            f'<dependency org="{self.org}" name="{self.name}" rev="{self.rev}" transitive="false">'
            f"{artifact}</dependency>"
        )


@cache
def locked(bundle: str) -> tuple[LockedFile, ...]:
    """The files of a bundle, as its lock names them."""
    text = resources.files("headwater.embedded").joinpath(f"locks/{bundle}.json").read_text()
    return tuple(LockedFile(**one) for one in json.loads(text))


def fetch(bundle: str, settings: Settings, progress: Progress) -> Path:
    """The folder of a bundle's verified files; fetched first if it is not whole in the cache."""
    files, folder = locked(bundle), _folder(bundle, settings)
    with writing(settings.cache, _VARIABLE):
        if not _wrong(files, folder):  # looked at before the lock, which a read-only cache does not give
            return folder
        with _held(settings.cache / f"{bundle}.lock"):
            if _wrong(files, folder):
                shutil.rmtree(folder, ignore_errors=True)
                _download(bundle, files, folder, settings, progress)
    return folder


def fetch_all(bundles: Iterable[str], settings: Settings, progress: Progress) -> None:
    """Fetch those of these bundles that are not in the cache, at the same time: each waits for a network."""
    absent = [one for one in dict.fromkeys(bundles) if not _folder(one, settings).exists()]
    with ThreadPoolExecutor(len(absent) or 1) as threads:
        for fetching in [threads.submit(fetch, one, settings, progress) for one in absent]:
            fetching.result()


def unpacked(archive: Path) -> Path:
    """The folder of an archive's contents, beside it; unpacked by one rename."""
    folder = archive.with_name("unpacked")
    if folder.exists():
        return folder
    with writing(archive.parent, _VARIABLE), _held(archive.with_name("unpacked.lock")):
        if not folder.exists():
            _unpack(archive, folder)
    return folder


def _unpack(archive: Path, folder: Path) -> None:
    partial = archive.with_name("unpacking")
    shutil.rmtree(partial, ignore_errors=True)
    extract(archive, partial)
    partial.rename(folder)


def class_path(folder: Path) -> str:
    """All jars of a folder as Java's class path."""
    return str(folder / "*")


def ivy_command(settings: Settings, *arguments: str | Path) -> list[str | Path]:
    """The Ivy inside PySpark, as a command."""
    spark = find_spec("pyspark")
    if spark is None or not spark.submodule_search_locations:
        raise DownloadFailed("PySpark is not installed", hint="pip install headwater")
    jars = Path(spark.submodule_search_locations[0]) / "jars"
    return [java(settings), "-jar", next(jars.glob("ivy-*.jar")), *arguments]


def _download(
    bundle: str, files: tuple[LockedFile, ...], folder: Path, settings: Settings, progress: Progress
) -> None:
    partial = (settings.cache / f"{bundle}.partial").resolve()
    end_strays(partial, timedelta(0))  # an Ivy whose starter was killed
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        need_room(settings.cache, 3 * sum(one.size for one in files), _VARIABLE)
        _run_ivy(bundle, files, partial, settings, progress)
        _verify(bundle, files, partial / "files")
        (partial / "files").rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _verify(bundle: str, files: tuple[LockedFile, ...], folder: Path) -> None:
    wrong = _wrong(files, folder)
    if wrong:
        raise ChecksumMismatch(
            f"{len(wrong)} of {len(files)} files of {bundle} are not what the lock names",
            detail="\n".join(wrong[:5]),
            hint="nothing of it was kept: run the command again; if it stays so, the repository in "
            "between serves altered files",
        )


def _run_ivy(
    bundle: str, files: tuple[LockedFile, ...], partial: Path, settings: Settings, progress: Progress
) -> None:
    (partial / "ivy.xml").write_text(_ivy_xml(bundle, files))
    (partial / "ivysettings.xml").write_text(_PUBLIC)
    command = ivy_command(
        settings,
        *("-settings", settings.ivy_settings or partial / "ivysettings.xml"),
        *("-cache", partial / "ivy", "-ivy", partial / "ivy.xml", "-confs", "default"),
        *("-retrieve", f"{partial}/files/{_PATTERN}"),
    )
    total = sum(one.size for one in files)
    with (partial / "ivy.log").open("w") as log:
        process = subprocess.Popen(command, env=environment(partial), stdout=log, stderr=subprocess.STDOUT)
        try:
            while not _ended(process):
                progress(bundle, min(_arrived(partial / "ivy"), total), total)
        finally:
            process.kill()
            process.wait()
    if process.returncode:
        _explain(bundle, partial / "ivy.log")
    progress(bundle, total, total)


def _ended(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(0.2)
    except subprocess.TimeoutExpired:
        return False
    return True


def _arrived(folder: Path) -> int:
    total = 0
    for one in folder.glob("**/*"):
        try:
            total += one.stat().st_size
        except FileNotFoundError:  # Ivy renames what it has finished
            continue
    return total


def _explain(bundle: str, log: Path) -> None:
    said = log.read_text(errors="replace")
    if "No space left on device" in said:
        raise full(log.parent.parent, _VARIABLE)
    missing = [line.strip() for line in said.splitlines() if ": not found" in line or "Exception" in line]
    raise DownloadFailed(
        f"the files of {bundle} could not be fetched",
        detail="\n".join(missing[:5]) or said[-500:],
        hint="is the network up? behind a mirror, let HEADWATER_IVY_SETTINGS name your ivysettings.xml; "
        "then run the command again",
    )


def _ivy_xml(bundle: str, files: tuple[LockedFile, ...]) -> str:
    lines = "".join(one.dependency for one in files)
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        f'<info organisation="headwater" module="{bundle}"/><dependencies>{lines}</dependencies></ivy-module>'
    )


def _wrong(files: tuple[LockedFile, ...], folder: Path) -> list[str]:
    return [one.file for one in files if not _holds(one, folder / one.file)]


def _holds(one: LockedFile, file: Path) -> bool:
    if not file.exists() or file.stat().st_size != one.size:
        return False
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() == one.sha256


def _folder(bundle: str, settings: Settings) -> Path:
    return settings.cache / f"{bundle}-{_fingerprint(locked(bundle))}"


def _fingerprint(files: tuple[LockedFile, ...]) -> str:
    return hashlib.sha256("".join(one.sha256 for one in files).encode()).hexdigest()[:12]


@contextmanager
def _held(lock: Path) -> Iterator[None]:
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
