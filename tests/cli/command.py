"""The command `headwater` as a user runs it: a process of its own, in a folder of its own."""

import io
import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any
from unittest.mock import patch

from headwater import cli

PROGRAM = Path(sys.executable).with_name("headwater")


def run(
    *arguments: str | Path,
    folder: Path,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
    timeout: float = 120,
) -> subprocess.CompletedProcess[str]:
    """Run `headwater …` in `folder` (so that its home is `folder/.headwater`) with `env` over a clean one."""
    return subprocess.run(
        [PROGRAM, *arguments],
        cwd=folder,
        env=environment(env),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def begin(
    *arguments: str | Path, folder: Path, env: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """The same, without waiting for its end."""
    return subprocess.Popen(
        [PROGRAM, *arguments],
        cwd=folder,
        env=environment(env),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextmanager
def begun(
    *arguments: str | Path, folder: Path, env: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """The same, ended with the block if it does not end by itself."""
    with begin(*arguments, folder=folder, env=env) as process:
        try:
            yield process
        finally:
            process.kill()


def called(
    *arguments: str | Path, folder: Path, env: Mapping[str, str] | None = None, stdin: str = ""
) -> CompletedProcess[str]:
    """The same within this process, which saves the half second that Python takes to start."""
    given, out, err = (io.TextIOWrapper(io.BytesIO(one)) for one in (stdin.encode(), b"", b""))
    argv, before = ["headwater", *map(str, arguments)], Path.cwd()
    with patch.object(sys, "argv", argv), patch.object(sys, "stdin", given):
        with patch.dict(os.environ, environment(env), clear=True), redirect_stdout(out), redirect_stderr(err):
            os.chdir(folder)
            try:
                cli.main()
                code: Any = 0
            except SystemExit as end:
                code = end.code or 0
            finally:
                os.chdir(before)
    return CompletedProcess(argv, code, said(out), said(err))


def said(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()


def on_terminal(
    *arguments: str | Path, folder: Path, env: Mapping[str, str] | None = None, keys: bytes = b""
) -> tuple[int, str]:
    """Run `headwater …` on a terminal and type `keys`; tells its exit code and what the screen got."""
    ours, theirs = pty.openpty()
    command = [PROGRAM, *arguments]
    with subprocess.Popen(
        command, cwd=folder, env=environment(env), stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        os.write(ours, keys)
        seen = b""
        with suppress(OSError):  # what a terminal says when nobody is at its other end any more
            while some := os.read(ours, 10_000):
                seen += some
        os.close(ours)
        return process.wait(60), seen.decode()


def as_json(done: CompletedProcess[str]) -> Any:
    """What a command said in JSON; it must have gone well."""
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def assert_refused(done: CompletedProcess[str], code: str, *words: str) -> None:
    """One message with its code and a hint on standard error, exit code 1, nothing else."""
    assert done.returncode == 1, (done.stdout, done.stderr)
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("error: ") == 1
    assert f"[{code}]" in done.stderr.splitlines()[0]
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr


def assert_misused(done: CompletedProcess[str], *words: str) -> None:
    """How to call it, what was wrong with this call, exit code 2; nothing was done."""
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert done.stdout == ""
    assert done.stderr.startswith("Usage: headwater ")
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr.splitlines()[-1]


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Ours without settings of Headwater, on a screen wide enough for any table."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_")}
    return {**kept, "COLUMNS": "250", **(more or {})}
