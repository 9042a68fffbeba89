"""OpenSearch from its jars, as one node: the core, and the four modules that documents need.

There is no security plugin, so it asks for no password and listens on loopback only. It looks
for its modules in folders, each with a descriptor, which are laid out anew at every start.
"""

import http.client
import json
import shutil
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headwater.embedded.java import java_version
from headwater.embedded.kafka import LOG4J
from headwater.embedded.nobody import as_nobody, need_database_machine, own_folder
from headwater.embedded.ports import LOOPBACK
from headwater.embedded.server import EndsOn, Place
from headwater.errors import ServerUnavailable
from headwater.settings import Settings

VERSION = "2.19.5"
_TOO_NEW = 24
_HEAP = ("-Xms128m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xss512k")
_MODULES = {
    "transport-netty4": ("org.opensearch.transport.Netty4Plugin", ("transport-netty4-client", "netty-")),
    "lang-painless": (
        "org.opensearch.painless.PainlessPlugin",
        ("lang-painless", "opensearch-scripting-painless-spi", "antlr4-runtime", "asm-"),
    ),
    "analysis-common": ("org.opensearch.analysis.common.CommonAnalysisPlugin", ("analysis-common",)),
    "reindex": (
        "org.opensearch.index.reindex.ReindexPlugin",
        ("reindex-client", "opensearch-rest-client", "opensearch-ssl-config", "http", "commons-"),
    ),
}
_DESCRIPTOR = """\
name={name}
description=a module
version={version}
opensearch.version={version}
java.version=11
classname={classname}
extended.plugins={extends}
has.native.controller=false
"""
_EXTENDS = {"reindex": "lang-painless"}
_POLICIES = {
    "transport-netty4": (
        'java.net.SocketPermission "*", "accept,connect,resolve"',
        'java.lang.RuntimePermission "setContextClassLoader"',
        'java.io.FilePermission "/proc/sys/net/core/somaxconn", "read"',
    ),
    "lang-painless": (
        *('java.lang.RuntimePermission "createClassLoader"', 'java.lang.RuntimePermission "getClassLoader"'),
        *('org.opensearch.script.ClassPermission "<<STANDARD>>"',),
    ),
}
"""What a module may do beyond OpenSearch's own policy: serve a network, and make classes of scripts."""


@dataclass(frozen=True, kw_only=True)
class Search:
    """An OpenSearch on one machine; `properties` are laid over ours."""

    properties: Mapping[str, str] = field(default_factory=dict)
    name: str = "search"
    bundles: Sequence[str] = ("search",)
    usual_port: int = 9200
    other_ports: Sequence[str] = ("transport",)
    ends_on: EndsOn = (
        "SIGKILL"  # asked to end, its network waits 30 s for itself; acknowledged writes are safe
    )

    def wanted_port(self, settings: Settings) -> int | None:
        """The port that the user insists on."""
        return settings.search_port

    def prepare(self, place: Place) -> Sequence[str | Path]:
        """Lay its modules and its configuration out, tell its command."""
        need_database_machine(self.name)
        _need_java(java_version(place.java))
        core = _lay_out(place.bundles[self.name], place.folder / "program")
        config = place.folder / "config"
        config.mkdir(exist_ok=True)
        lines = {**_properties(place), **self.properties}
        (config / "opensearch.yml").write_text("".join(f"{k}: {json.dumps(v)}\n" for k, v in lines.items()))
        (config / "log4j2.properties").write_text(LOG4J)
        for one in (place.folder / "program", config, place.data, place.folder / "tmp"):
            own_folder(one)  # it makes folders beside its modules, and a keystore beside its configuration
        settings = {
            "opensearch.path.home": place.folder / "program",
            "opensearch.path.conf": config,
            "java.io.tmpdir": place.folder / "tmp",
            "java.security.manager": "allow",
            "opensearch.distribution.type": "tar",
        }
        options = [f"-D{name}={value}" for name, value in settings.items()]
        program = ("-cp", ":".join(map(str, core)), "org.opensearch.bootstrap.OpenSearch")
        return as_nobody([place.java, *_HEAP, *options, *program])

    def answers(self, port: int) -> bool:
        """Whether its cluster has a master and its indices are there."""
        url = f"http://{LOOPBACK}:{port}/_cluster/health?wait_for_status=yellow&timeout=1s"
        try:
            with urllib.request.urlopen(url, timeout=3) as answer:
                return json.load(answer)["timed_out"] is False
        except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError, KeyError):
            return False


def _need_java(version: int) -> None:
    if version >= _TOO_NEW:
        raise ServerUnavailable(
            f"search cannot run on Java {version}: it needs a security manager, gone since {_TOO_NEW}",
            hint="let HEADWATER_JAVA_HOME name a Java 17 or 21, or HEADWATER_SEARCH an OpenSearch of yours",
        )


def _lay_out(bundle: Path, home: Path) -> list[Path]:
    """Copy the jars of each module into its folder; tells the others, which are the core."""
    shutil.rmtree(home, ignore_errors=True)
    (home / "plugins").mkdir(parents=True)
    core = sorted(bundle.glob("*.jar"))
    for name, (classname, prefixes) in _MODULES.items():
        folder = home / "modules" / name
        folder.mkdir(parents=True)
        (folder / "plugin-descriptor.properties").write_text(
            _DESCRIPTOR.format(
                name=name, version=VERSION, classname=classname, extends=_EXTENDS.get(name, "")
            )
        )
        for jar in [one for one in core if one.name.startswith(prefixes)]:
            shutil.copy(jar, folder)
            core.remove(jar)
    for name, permissions in _POLICIES.items():
        lines = "".join(f"permission {one};" for one in permissions)
        (home / "modules" / name / "plugin-security.policy").write_text(f"grant {{{lines}}};")
    return core


def _properties(place: Place) -> dict[str, object]:
    return {
        "cluster.name": "headwater",
        "node.name": "headwater",
        "discovery.type": "single-node",
        "network.host": LOOPBACK,
        "http.port": place.ports["main"],
        "transport.port": place.ports["transport"],
        "path.data": str(place.data),
        "path.logs": str(place.folder / "tmp"),
        "action.destructive_requires_name": True,
        "bootstrap.system_call_filter": False,
        "node.store.allow_mmap": False,
    }
