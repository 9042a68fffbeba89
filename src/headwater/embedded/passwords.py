"""The password of an embedded server: made once, kept in its folder for its user only, never printed."""

import os
import secrets
from pathlib import Path


def password(folder: Path) -> str:
    """The password in this server's folder; made if there is none."""
    file = password_file(folder)
    if not file.exists():
        partial = file.with_suffix(".partial")
        partial.unlink(missing_ok=True)
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as handle:
            handle.write(secrets.token_urlsafe(24))
        partial.rename(file)
    return file.read_text()


def password_file(folder: Path) -> Path:
    """Where it is kept."""
    return folder / "password"
