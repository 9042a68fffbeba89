"""The Java that runs the servers: found once, and old ones refused before they fail obscurely."""

import re
import shutil
import subprocess
from pathlib import Path

from headwater.errors import JavaMissing
from headwater.settings import Settings

OLDEST = 17
_HINT = f"install Java {OLDEST} or newer (Debian: apt install openjdk-17-jre-headless), or set JAVA_HOME"


def java(settings: Settings) -> Path:
    """The Java to use: that of the settings, or the one on the PATH; at least Java 17."""
    found = find_java(settings)
    version = java_version(found)
    if version < OLDEST:
        raise JavaMissing(f"{found} is Java {version}, too old", hint=_HINT)
    return found


def java_version(program: Path) -> int:
    """The feature release of a Java program, such as 17."""
    try:
        said = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise JavaMissing(f"{program} does not run", detail=str(error), hint=_HINT) from error
    match = re.search(r'version "(?:1\.)?(\d+)', said.stderr)
    return int(match[1]) if match else 0


def find_java(settings: Settings) -> Path:
    """The Java program of the settings or of the PATH, whatever its age."""
    if settings.java_home is not None:
        return settings.java_home / "bin" / "java"
    on_path = shutil.which("java")
    if on_path is None:
        raise JavaMissing("there is no java on the PATH", hint=_HINT)
    return Path(on_path)
