"""Folders that we write to: room looked at before, and the system's refusals explained after.

A folder belongs to a setting (HEADWATER_HOME, HEADWATER_CACHE), and that is what a user can change.
"""

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headwater.errors import DiskFull, HeadwaterError, SettingsError

_FULL = (errno.ENOSPC, errno.EDQUOT)
_REFUSED = (
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.EEXIST,
    errno.ENOTDIR,
    errno.ENAMETOOLONG,
    errno.ELOOP,
)


def need_room(folder: Path, size: int, variable: str) -> None:
    """DiskFull unless the disk of `folder` has this many bytes free."""
    if shutil.disk_usage(folder).free < size:
        raise full(folder, variable, size)


def full(folder: Path, variable: str, size: int = 0) -> DiskFull:
    """The error for a disk without room; `size` is what was needed, if that is known."""
    need = f", {size / 1e6:,.0f} MB are needed" if size else ""
    return DiskFull(
        f"the disk of {folder} is full",
        detail=f"{shutil.disk_usage(folder).free / 1e6:,.0f} MB are free{need}",
        hint=f"free some room, or let {variable} name a folder on another disk",
    )


@contextmanager
def writing(folder: Path, variable: str) -> Iterator[None]:
    """The system's refusals to write in the block become errors of ours."""
    try:
        yield
    except OSError as error:
        explained = _explain(folder, variable, error)
        if explained is None:
            raise
        raise explained from error


def _explain(folder: Path, variable: str, error: OSError) -> HeadwaterError | None:
    if error.errno in _FULL:
        return full(folder, variable)
    if error.errno not in _REFUSED:
        return None
    return SettingsError(
        f"{folder} is not a folder that can be written to",
        detail=str(error),
        hint=f"let {variable} name a folder that you may write to",
    )
