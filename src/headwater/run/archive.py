"""Classes that Spark's JVM need not load again: Java's class-data sharing.

Loading and checking twenty thousand classes is half of what a start costs. The first run that does real
work leaves an archive of them in the cache, which every later JVM of the same make maps into memory.
The archive is written when the JVM ends, over several seconds, and nobody waits for that: the ending JVM
holds a lock, which the system takes back whatever becomes of it, and the next start that gets the lock
takes over what was written.

An archive is a help, never a need: the JVM checks its sums and goes on without one that is damaged or of
other jars, and a JVM that says so loses its archive, so that the next run makes a new one.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_KEPT = 3
_ROOM_NEEDED = 1_000_000_000  # five times what an archive takes
_HEADER = 4  # bytes that the JVM writes last; they are zero in an archive that was cut off


@dataclass(frozen=True)
class Archive:
    """The archive of one make of JVM, whether it exists or not."""

    file: Path
    is_possible: bool = True  # Java archives no classes when a folder is on the class path

    @classmethod
    def of(cls, cache: Path, java: Path, jars: Sequence[Path], options: Sequence[str]) -> "Archive":
        """The archive of a Java with these jars and options: another for each change of any of them."""
        program = java.resolve()
        stamps = [_stamp(one) for one in (program, program.parent.parent / "lib" / "modules", *jars)]
        name = hashlib.sha256("\n".join([*stamps, *options]).encode()).hexdigest()[:16]
        return cls(cache / "classes" / f"{name}.jsa", is_possible=not any(one.is_dir() for one in jars))

    @property
    def partial(self) -> Path:
        """What a JVM that ends is writing, or was."""
        return self.file.with_suffix(".partial")

    def claim(self) -> int | None:
        """The lock of the only run that may write the archive; None when there is one, or no chance."""
        if self.file.exists():
            with contextlib.suppress(OSError):
                os.utime(self.file)
            return None
        try:
            return self._claim() if self.is_possible else None
        except OSError:  # a cache that is read-only, or full
            return None

    def _claim(self) -> int | None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(self.file.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not self._take_over() and shutil.disk_usage(self.file.parent).free > _ROOM_NEEDED:
                return lock
        except BlockingIOError:  # another run is at it
            pass
        os.close(lock)
        return None

    def _take_over(self) -> bool:
        """Give what an earlier run has written its name; tells whether it was whole."""
        if self.file.exists():
            return True
        if not self.partial.exists():
            return False
        with self.partial.open("rb") as written:
            whole = any(written.read(_HEADER))
        if not whole:
            self.partial.unlink()
            return False
        self.partial.replace(self.file)
        self._forget_old()
        return True

    def _forget_old(self) -> None:
        by_use = sorted(self.file.parent.glob("*.jsa"), key=lambda one: one.stat().st_mtime, reverse=True)
        for old in by_use[_KEPT:]:
            old.unlink(missing_ok=True)

    def options(self, claim: int | None) -> list[str]:
        """Java's options to use the archive, or to write it at the end."""
        if self.file.exists():
            # The sums are checked because a damaged archive can crash a JVM; that costs next to nothing.
            return [f"-XX:SharedArchiveFile={self.file}", "-XX:+VerifySharedSpaces"]
        # Unless it is told to be quiet, it lists every class that cannot be archived.
        return [f"-XX:ArchiveClassesAtExit={self.partial}", "-Xlog:disable"] if claim is not None else []

    def forget(self) -> None:
        """Remove it: it was refused."""
        with contextlib.suppress(OSError):
            self.file.unlink(missing_ok=True)


def _stamp(file: Path) -> str:
    if not file.exists():
        return f"{file} -"
    found = file.stat()
    return f"{file} {found.st_size} {found.st_mtime_ns}"
