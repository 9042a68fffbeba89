"""Fetching a bundle with the real Ivy, from a repository of two small files."""

import json
import multiprocessing
import os
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path
from threading import Barrier, Event, Thread
from types import SimpleNamespace

import pytest
from tests.embedded.repository import Repository, toy_repository

from headwater.embedded import SERVERS, jars
from headwater.embedded.jars import fetch, fetch_all, locked, unpacked
from headwater.embedded.ports import LOOPBACK, a_free_port
from headwater.embedded.process import started_for
from headwater.errors import ChecksumMismatch, DiskFull, DownloadFailed, SettingsError
from headwater.settings import Settings

SOON = timedelta(seconds=30)
PROCESSES = multiprocessing.get_context("spawn")


def no_progress(_bundle: str, _done: int, _total: int) -> None:
    """Nobody watches."""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    return toy_repository(tmp_path, monkeypatch)


def contents(folder: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in folder.iterdir()}


def assert_whole(folder: Path, repository: Repository) -> None:
    expected = {f"{name}-1.0.jar": content for name, content in repository.files.items()}
    assert contents(folder) == expected


def bundles(settings: Settings) -> list[str]:
    """What the cache holds beside the lock."""
    return sorted(one.name for one in settings.cache.iterdir() if one.is_dir())


def test_a_bundle_is_fetched_from_the_repository_that_the_users_ivysettings_names(
    repository: Repository,
) -> None:
    settings = repository.settings()
    folder = fetch("toy", settings, no_progress)
    assert_whole(folder, repository)
    assert bundles(settings) == [folder.name]


def test_a_bundle_in_the_cache_is_not_fetched_again(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = repository.settings()
    folder = fetch("toy", settings, no_progress)
    shutil.rmtree(repository.folder / "repository")
    told: list[int] = []
    monkeypatch.setattr("subprocess.Popen", None)
    assert fetch("toy", settings, lambda *_: told.append(1)) == folder
    assert told == []


def read_only(lock: Path) -> None:
    """Nobody can write this lock, not even a user who may write everywhere."""
    lock.unlink()
    lock.mkdir()


def test_a_whole_bundle_in_a_cache_that_cannot_be_written_to_is_used(repository: Repository) -> None:
    settings = repository.settings()
    folder = fetch("toy", settings, no_progress)
    read_only(settings.cache / "toy.lock")
    assert fetch("toy", settings, no_progress) == folder


def test_progress_is_told_and_ends_at_the_total(repository: Repository) -> None:
    told: list[tuple[str, int, int]] = []
    fetch("toy", repository.settings(), lambda *said: told.append(said))
    total = sum(map(len, repository.files.values()))
    assert told[-1] == ("toy", total, total)
    done = [one[1] for one in told]
    assert done == sorted(done)
    assert all(one[2] == total for one in told)


def test_a_leftover_of_a_download_that_was_cut_off_is_never_used(repository: Repository) -> None:
    settings = repository.settings()
    leftover = settings.cache / "toy.partial" / "files"
    leftover.mkdir(parents=True)
    (leftover / "alpha-1.0.jar").write_bytes(b"alp")
    (leftover / "stranger.jar").write_bytes(b"?")
    folder = fetch("toy", settings, no_progress)
    assert_whole(folder, repository)
    assert bundles(settings) == [folder.name]


@pytest.mark.parametrize("damage", [b"alphA" * 1000, b"alpha", b""])
def test_a_damaged_file_in_the_cache_is_noticed_and_fetched_again(
    repository: Repository, damage: bytes
) -> None:
    settings = repository.settings()
    folder = fetch("toy", settings, no_progress)
    (folder / "alpha-1.0.jar").write_bytes(damage)
    assert fetch("toy", settings, no_progress) == folder
    assert_whole(folder, repository)


def test_a_file_missing_from_the_cache_is_fetched_again(repository: Repository) -> None:
    settings = repository.settings()
    folder = fetch("toy", settings, no_progress)
    (folder / "beta-1.0.jar").unlink()
    fetch("toy", settings, no_progress)
    assert_whole(folder, repository)


def test_a_file_that_differs_from_the_lock_is_refused_and_nothing_is_kept(repository: Repository) -> None:
    repository.path("alpha").write_bytes(b"omega" * 1000)
    settings = repository.settings()
    with pytest.raises(ChecksumMismatch) as raised:
        fetch("toy", settings, no_progress)
    assert raised.value.message == "1 of 2 files of toy are not what the lock names"
    assert raised.value.detail == "alpha-1.0.jar"
    assert "nothing of it was kept" in raised.value.hint
    assert bundles(settings) == []


def test_a_bundle_is_fetched_once_the_repository_serves_the_right_file_again(repository: Repository) -> None:
    repository.path("alpha").write_bytes(b"omega" * 1000)
    settings = repository.settings()
    with pytest.raises(ChecksumMismatch):
        fetch("toy", settings, no_progress)
    repository.publish()
    assert_whole(fetch("toy", settings, no_progress), repository)


def test_a_file_that_the_repository_lacks_is_named(repository: Repository) -> None:
    repository.path("beta").unlink()
    settings = repository.settings()
    with pytest.raises(DownloadFailed) as raised:
        fetch("toy", settings, no_progress)
    assert raised.value.message == "the files of toy could not be fetched"
    assert "beta" in raised.value.detail
    assert "HEADWATER_IVY_SETTINGS" in raised.value.hint
    assert bundles(settings) == []


def test_a_repository_that_does_not_answer_is_a_failed_download(repository: Repository) -> None:
    settings = repository.settings(root=f"http://{LOOPBACK}:{a_free_port()}/")
    with pytest.raises(DownloadFailed) as raised:
        fetch("toy", settings, no_progress)
    assert "is the network up?" in raised.value.hint


def test_ivysettings_that_do_not_exist_are_a_failed_download_that_names_them(repository: Repository) -> None:
    settings = Settings(cache=repository.folder / "cache", ivy_settings=repository.folder / "none.xml")
    with pytest.raises(DownloadFailed, match=r"none\.xml"):
        fetch("toy", settings, no_progress)


def test_a_disk_without_room_is_told_before_anything_is_fetched(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = repository.settings()
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    monkeypatch.setattr("headwater.embedded.jars._run_ivy", None)
    with pytest.raises(DiskFull) as raised:
        fetch("toy", settings, no_progress)
    assert raised.value.message == f"the disk of {settings.cache} is full"
    assert "HEADWATER_CACHE" in raised.value.hint
    assert bundles(settings) == []


def test_a_disk_that_fills_up_during_the_download_is_told_as_such(repository: Repository) -> None:
    java_home = repository.folder / "java"
    (java_home / "bin").mkdir(parents=True)
    program = java_home / "bin" / "java"
    program.write_text(
        "#!/bin/sh\n"
        '[ "$1" = -version ] && { echo \'openjdk version "17.0.1"\' >&2; exit 0; }\n'
        "echo 'java.io.IOException: No space left on device'; exit 1\n"
    )
    program.chmod(0o755)
    settings = Settings(cache=repository.folder / "cache", java_home=java_home)
    with pytest.raises(DiskFull):
        fetch("toy", settings, no_progress)
    assert bundles(settings) == []


def test_a_cache_that_is_a_file_is_a_setting_to_change(repository: Repository) -> None:
    settings = repository.settings()
    settings.cache.write_text("not a folder")
    with pytest.raises(SettingsError, match="HEADWATER_CACHE"):
        fetch("toy", settings, no_progress)


def _fetch(
    repository: Repository,
    settings: Settings,
    answers: "multiprocessing.Queue[tuple[str, int]] | None" = None,
) -> None:
    """A fetch in a process of its own; answers with the folder and how often progress was told."""
    jars.locked = lambda _: repository.lock()  # type: ignore[assignment]
    told: list[int] = []
    folder = fetch("toy", settings, lambda *_: told.append(1))
    if answers is not None:
        answers.put((str(folder), len(told)))


@contextmanager
def a_repository_that_stalls() -> Iterator[tuple[str, Event]]:
    """Its address, and the event of the first file having been asked for; it never sends it whole."""
    asked, over = Event(), Event()

    class Stalling(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "5000")
            self.end_headers()
            self.wfile.write(b"alpha")
            self.wfile.flush()
            asked.set()
            over.wait(60)

        def do_HEAD(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "5000")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer((LOOPBACK, 0), Stalling) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://{LOOPBACK}:{server.server_port}/", asked
        finally:
            over.set()
            server.shutdown()


def test_a_fetch_killed_with_9_leaves_nothing_that_the_next_one_uses_or_suffers_from(
    repository: Repository,
) -> None:
    with a_repository_that_stalls() as (root, asked):
        settings = repository.settings(root=root)
        fetching = PROCESSES.Process(target=_fetch, args=(repository, settings))
        fetching.start()
        assert asked.wait(SOON.total_seconds())
        fetching.kill()
        fetching.join()
        partial = settings.cache / "toy.partial"
        assert bundles(settings) == ["toy.partial"]
        assert len(started_for(partial)) == 1  # its Ivy goes on
        assert_whole(fetch("toy", repository.settings(), no_progress), repository)
        assert started_for(partial) == []
        assert not partial.exists()


def test_two_fetches_at_once_download_once_and_both_get_the_folder(repository: Repository) -> None:
    settings = repository.settings()
    answers: multiprocessing.Queue[tuple[str, int]] = PROCESSES.Queue()
    both = [PROCESSES.Process(target=_fetch, args=(repository, settings, answers)) for _ in range(2)]
    for one in both:
        one.start()
    said = [answers.get(timeout=60) for _ in both]
    for one in both:
        one.join(60)
    assert [one.exitcode for one in both] == [0, 0]
    assert said[0][0] == said[1][0]
    assert sorted(bool(told) for _, told in said) == [False, True]
    assert_whole(Path(said[0][0]), repository)


def test_several_bundles_are_fetched_at_the_same_time_and_one_in_the_cache_not_again(
    repository: Repository,
) -> None:
    settings = repository.settings()
    fetch("known", settings, no_progress)
    both, begun = Barrier(2), set[str]()

    def meet(bundle: str, *_: int) -> None:
        if bundle not in begun:
            begun.add(bundle)
            both.wait(SOON.total_seconds())

    fetch_all(["toy", "known", "other", "toy"], settings, meet)
    assert begun == {"toy", "other"}
    assert [one.partition("-")[0] for one in bundles(settings)] == ["known", "other", "toy"]


def test_a_bundle_that_cannot_be_fetched_leaves_the_others_in_the_cache(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = [jars.LockedFile(org="org.toy", name="gamma", rev="1.0", sha256="0" * 64, size=1)]
    monkeypatch.setattr(jars, "locked", lambda one: bad if one == "bad" else repository.lock())
    settings = repository.settings()
    with pytest.raises(DownloadFailed, match="the files of bad"):
        fetch_all(["bad", "toy"], settings, no_progress)
    assert [one.partition("-")[0] for one in bundles(settings)] == ["toy"]


def test_an_archive_is_unpacked_once_and_never_half(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "one.txt").write_text("1")
    archive = Path(shutil.make_archive(str(tmp_path / "packed" / "toy"), "gztar", source))
    (archive.parent / "unpacking").mkdir()
    (archive.parent / "unpacking" / "half.txt").write_text("?")
    assert [one.name for one in unpacked(archive).iterdir()] == ["one.txt"]
    archive.write_bytes(b"")
    assert [one.name for one in unpacked(archive).iterdir()] == ["one.txt"]


def test_an_archive_unpacked_in_a_cache_that_cannot_be_written_to_is_used(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    archive = Path(shutil.make_archive(str(tmp_path / "packed" / "toy"), "gztar", tmp_path / "source"))
    folder = unpacked(archive)
    read_only(archive.with_name("unpacked.lock"))
    assert unpacked(archive) == folder


def test_an_archive_that_cannot_be_unpacked_in_the_cache_is_a_setting_to_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(jars, "_unpack", refused)
    with pytest.raises(SettingsError, match="HEADWATER_CACHE"):
        unpacked(tmp_path / "toy.tar.gz")


BUNDLES = sorted({bundle for one in SERVERS.values() for bundle in one.bundles})


@pytest.mark.parametrize("bundle", BUNDLES)
def test_every_file_of_a_real_lock_has_a_checksum_and_a_size_and_stands_once(bundle: str) -> None:
    files = locked(bundle)
    assert files
    for one in files:
        assert len(bytes.fromhex(one.sha256)) == 32, one.file
        assert one.size > 0, one.file
    assert len({one.file for one in files}) == len(files)
    assert len({one.sha256 for one in files}) == len(files)


BUNDLES = sorted({bundle for one in SERVERS.values() for bundle in one.bundles})


@pytest.mark.parametrize("bundle", BUNDLES)
def test_a_real_lock_names_no_address(bundle: str) -> None:
    text = resources.files("headwater.embedded").joinpath(f"locks/{bundle}.json").read_text()
    assert "://" not in text
    assert {key for one in json.loads(text) for key in one} <= {
        *("org", "name", "rev", "sha256", "size", "ext", "classifier")
    }


def jar_of(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir()
    with zipfile.ZipFile(folder / "toy.jar", "w") as jar:
        for name, content in files.items():
            jar.writestr(name, content)
    return folder / "toy.jar"


def test_a_jar_around_one_archive_gives_the_archives_contents(tmp_path: Path) -> None:
    (tmp_path / "source" / "bin").mkdir(parents=True)
    (tmp_path / "source" / "bin" / "run").write_text("run")
    (tmp_path / "source" / "bin" / "run").chmod(0o755)
    inner = Path(shutil.make_archive(str(tmp_path / "inner"), "xztar", tmp_path / "source"))
    archive = jar_of(tmp_path / "packed", {"META-INF/MANIFEST.MF": b"", "inner.txz": inner.read_bytes()})
    program = unpacked(archive) / "bin" / "run"
    assert program.read_text() == "run"
    assert os.access(program, os.X_OK)


def test_the_programs_of_a_jar_that_is_a_tree_can_be_run(tmp_path: Path) -> None:
    archive = jar_of(tmp_path / "packed", {"linux/bin/run": b"run", "linux/share/words": b"words"})
    folder = unpacked(archive) / "linux"
    assert (folder / "bin" / "run").stat().st_mode & 0o111 == 0o111
    assert (folder / "share" / "words").stat().st_mode & 0o111 == 0
