"""A tiny repository of files, served to the real Ivy through a user's own ivysettings.xml."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import pytest

from headwater.embedded.jars import LockedFile
from headwater.settings import Settings

_SETTINGS = """\
<ivysettings><settings defaultResolver="x"/><resolvers>
<ibiblio name="x" m2compatible="true" usepoms="false" root="{root}"/>
</resolvers></ivysettings>
"""


@dataclass(frozen=True)
class Repository:
    """Files of the organisation `org.toy`, each a name with its content."""

    folder: Path
    files: dict[str, bytes]

    def publish(self) -> None:
        for name, content in self.files.items():
            self.path(name).parent.mkdir(parents=True, exist_ok=True)
            self.path(name).write_bytes(content)

    def path(self, name: str) -> Path:
        return self.folder / "repository" / "org" / "toy" / name / "1.0" / f"{name}-1.0.jar"

    def lock(self) -> tuple[LockedFile, ...]:
        return tuple(
            LockedFile(
                org="org.toy",
                name=name,
                rev="1.0",
                sha256=hashlib.sha256(content).hexdigest(),
                size=len(content),
            )
            for name, content in self.files.items()
        )

    def settings(self, root: str = "") -> Settings:
        """Settings whose Ivy asks this repository (or another `root`) and nobody else."""
        file = self.folder / "ivysettings.xml"
        file.write_text(_SETTINGS.format(root=root or (self.folder / "repository").as_uri()))
        return Settings(cache=self.folder / "cache", home=self.folder / "home", ivy_settings=file)


def toy_repository(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """A published repository of two files, and a lock that names them."""
    made = Repository(folder, {"alpha": b"alpha" * 1000, "beta": b"beta" * 2000})
    made.publish()
    monkeypatch.setattr("headwater.embedded.jars.locked", lambda _: made.lock())
    return made
