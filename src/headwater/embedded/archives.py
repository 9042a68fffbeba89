"""Archives as servers come in them: a tar, a jar that is the program's tree, or a jar around one tar.

A jar (a zip) has no links and may say nothing of rights; programs in a folder `bin` or `scripts` are
for running.
"""

import tarfile
import zipfile
from pathlib import Path

_TARS = (".txz", ".tar.xz", ".tar.gz")
_FOR_RUNNING = ("bin", "scripts")


def extract(archive: Path, folder: Path) -> None:
    """The contents of an archive, put into a folder that does not exist yet."""
    if archive.suffix != ".jar":
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
        return
    with zipfile.ZipFile(archive) as jar:
        inside = [one for one in jar.namelist() if one.endswith(_TARS)]
        if not inside:
            _extract_tree(jar, folder)
        for one in inside:
            with jar.open(one) as stream, tarfile.open(fileobj=stream) as packed:
                packed.extractall(folder, filter="data")


def _extract_tree(jar: zipfile.ZipFile, folder: Path) -> None:
    jar.extractall(folder)  # noqa: S202 - zipfile keeps every member inside the folder
    for one in jar.infolist():
        if not one.is_dir() and Path(one.filename).parent.name in _FOR_RUNNING:
            (folder / one.filename).chmod(0o755)
