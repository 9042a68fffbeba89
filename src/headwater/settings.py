"""One frozen Settings, read once: flags over the environment over headwater.toml over defaults.

Every setting has one name in three spellings: the field (`kafka_port`), the variable
(`HEADWATER_KAFKA_PORT`) and the key in headwater.toml (`kafka_port`). Options of Kafka's own
clients keep Kafka's names: `HEADWATER_KAFKA_SASL_MECHANISM`, or `"sasl.mechanism"` under
`[kafka_options]`; those of the schema registry likewise (`[registry_options]`), and Spark's
(`HEADWATER_SPARK_EXECUTOR_MEMORY`, `"spark.executor.memory"` under `[spark_options]`) and those of connectors
(`[connect_options]`). The URLs of captured
databases stand under their names (`HEADWATER_DATABASE_SHOP`, `shop` under `[databases]`). All these may hold
secrets, as a registry's URL may, and are never printed. JAVA_HOME counts where no setting of ours
names a Java.
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Self

import platformdirs

from headwater.errors import SettingsError

_PREFIX = "HEADWATER_"
_PATHS = ("home", "cache", "java_home", "ivy_settings")
_PORTS = (
    "kafka_port",
    "registry_port",
    "postgres_port",
    "connect_port",
    "redis_port",
    "search_port",
    "mariadb_port",
)
_OPTIONS = ("kafka_options", "registry_options", "spark_options", "connect_options")
_MAPPINGS = (*_OPTIONS, "databases")
_DATABASE = "database_"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Where things are and how to reach them."""

    home: Path = Path(".headwater")
    cache: Path = field(default_factory=lambda: Path(platformdirs.user_cache_dir("headwater")))
    java_home: Path | None = None
    ivy_settings: Path | None = None
    kafka: str | None = None
    kafka_port: int | None = None
    kafka_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    registry: str | None = field(default=None, repr=False)  # a URL, with a password perhaps
    registry_port: int | None = None
    registry_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    connect: str | None = field(default=None, repr=False)
    connect_port: int | None = None
    connect_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    postgres_port: int | None = None
    mariadb_port: int | None = None
    redis: str | None = field(default=None, repr=False)
    redis_port: int | None = None
    search: str | None = field(default=None, repr=False)
    search_port: int | None = None
    spark_master: str | None = None
    spark_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    checkpoints: str | None = None  # a path or any URI that Hadoop knows
    databases: Mapping[str, str] = field(default_factory=dict, repr=False)  # URLs by name, with passwords

    @classmethod
    def load(cls, environ: Mapping[str, str] | None = None, folder: Path | None = None) -> Self:
        """Read headwater.toml in `folder`, then the environment over it."""
        folder = folder or Path.cwd()
        environ = os.environ if environ is None else environ
        found = _from_toml(folder / "headwater.toml")
        for name, value in _from_environment(environ).items():
            found[name] = {**_checked(name, found.get(name, {})), **value} if name in _MAPPINGS else value
        if "java_home" not in found and environ.get("JAVA_HOME"):
            found["java_home"] = environ["JAVA_HOME"]
        settings = cls(**{name: _checked(name, value) for name, value in found.items()})
        return replace(settings, home=folder / settings.home)

    @property
    def is_embedded(self) -> bool:
        """Whether the log is a server of our own: true unless `kafka` names another."""
        return self.kafka is None

    @property
    def checkpoint_root(self) -> str:
        """Where pipelines keep their checkpoints: a folder here, or a URI that every worker reaches."""
        return self.checkpoints or (self.home.resolve() / "checkpoints").as_uri()


_KNOWN = tuple(one.name for one in fields(Settings))


def _from_toml(file: Path) -> dict[str, Any]:
    if not file.exists():
        return {}
    try:
        found = tomllib.loads(file.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file} is not TOML", detail=str(error)) from error
    except OSError as error:
        raise SettingsError(f"{file} cannot be read", detail=str(error)) from error
    for name in found:
        if name not in _KNOWN:
            raise SettingsError(f"unknown setting {name!r} in {file}", hint=f"known: {', '.join(_KNOWN)}")
    return found


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for variable, value in environ.items():
        if variable.startswith(_PREFIX):
            _take(variable, value, found)
    return found


def _take(variable: str, value: str, found: dict[str, Any]) -> None:
    name = variable.removeprefix(_PREFIX).lower()
    if name in _KNOWN and name not in _MAPPINGS:
        found[name] = value
        return
    if name.startswith(_DATABASE):
        found.setdefault("databases", {})[name.removeprefix(_DATABASE)] = value
        return
    for options in _OPTIONS:
        server = options.removesuffix("options")
        if name.startswith(server):
            option = name if options == "spark_options" else name.removeprefix(server)
            found.setdefault(options, {})[option.replace("_", ".")] = value
            return
    raise SettingsError(
        f"unknown setting {variable}", hint="known: " + ", ".join(_PREFIX + one.upper() for one in _KNOWN)
    )


def _checked(name: str, value: object) -> Any:
    if name in _PORTS:
        return _port(name, value)
    if name in _MAPPINGS:
        if not isinstance(value, Mapping):
            raise SettingsError(f"{name} must be a table of {'URLs' if name == 'databases' else 'options'}")
        return {str(option): str(setting) for option, setting in value.items()}
    if not isinstance(value, str) or not value:
        raise SettingsError(f"{name} must be a text that is not empty")
    return _path(name, value) if name in _PATHS else value


def _path(name: str, value: str) -> Path:
    try:
        return Path(value).expanduser()
    except RuntimeError as error:  # ~somebody, whom this machine does not know
        raise SettingsError(f"{name} cannot be {value!r}", detail=str(error)) from error


def _port(name: str, value: object) -> int:
    try:
        port = int(str(value))
    except ValueError:
        port = 0
    if not 0 < port < 65536:
        raise SettingsError(f"{name} must be a port from 1 to 65535, not {value!r}")
    return port
