"""The command line of Spark's JVM, as Spark's own launcher would work it out.

The launcher is a JVM by itself, and all that it does is here: which jars in which order, what Java has
to open to Spark, memory and options out of the properties. One thing is left out on purpose: the
incubating vector module, which serves Spark's linear algebra only, and prints a warning at each start.
"""

import os
import shlex
from collections.abc import Mapping
from pathlib import Path

_OPENED = (  # as Spark's launcher opens them; a test compares the two
    *("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util"),
    *("java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref", "sun.nio.ch", "sun.nio.cs"),
    *("sun.security.action", "sun.util.calendar"),
)
_COLLECTOR = "-XX:+UseParallelGC"
"""Rows are many and short-lived, and nobody waits for one pause: throughput is what counts."""
_BEST_CODE = {"Invocation": 60_000, "MinInvocation": 7_200, "Compile": 180_000, "BackEdge": 480_000}
"""When Java compiles with all its art: twelve times later than by default, so that in a pipeline's first
seconds the cores work on rows and not on code that runs seldom."""
OPTIONS = (
    "-XX:MetaspaceSize=200m",  # by default Java collects all memory while Spark loads its classes
    "-Xms160m",  # by default a sixty-fourth of the machine
    "-XX:MaxNewSize=96m",  # rows die young: a larger nursery is only memory
    "-XX:GCTimeRatio=9",  # a tenth of the time for collecting, before the heap grows; Java's wish is 1 %
    *(f"-XX:Tier4{name}Threshold={calls}" for name, calls in _BEST_CODE.items()),
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(f"--add-opens=java.base/{one}=ALL-UNNAMED" for one in _OPENED),
    "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "-Dderby.connection.requireAuthentication=false",
)


def class_path(home: Path, connectors: Path, properties: Mapping[str, str]) -> list[Path]:
    """In the launcher's order; jars one by one and sorted, for an archive is of one order only."""
    extra = properties.get("spark.driver.extraClassPath", "").split(":")
    folders = [os.environ.get(one) for one in ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR")]
    named = [Path(one) for one in (*extra, *folders) if one]
    jars = sorted((home / "jars").glob("*.jar"), key=lambda one: (not one.name.startswith("slf4j-api"), one))
    configured = [home / "conf"] if (home / "conf").is_dir() else []
    return [*sorted(connectors.glob("*.jar")), *named, *configured, *jars]


def options(properties: Mapping[str, str]) -> list[str]:
    """Java's options: ours, and over them those that the settings ask for."""
    asked = shlex.split(properties.get("spark.driver.extraJavaOptions", ""))
    has_collector = any(one.startswith("-XX:+Use") and one.endswith("GC") for one in asked)
    memory = f"-Xmx{properties.get('spark.driver.memory') or _quarter_of_this_machine()}"
    return [memory, *([] if has_collector else [_COLLECTOR]), *OPTIONS, *asked]


def _quarter_of_this_machine() -> str:
    """Java's own limit, and not Spark's of 1 GB, which a join's state fills; but never below that."""
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return f"{max(1024, pages * size // 4 // 2**20)}m"


def logging(log: Path) -> list[str]:
    """Java's options that send every word of Spark's to a file."""
    configuration = Path(__file__).with_name("log4j2.properties")
    return [
        f"-Dlog4j2.configurationFile={configuration.as_uri()}",
        f"-Dheadwater.log={log}",
        f"-XX:ErrorFile={log.parent}/jvm-crash-%p.log",
    ]


def as_properties(properties: Mapping[str, str]) -> str:
    """Java's own format: what is not plain ASCII is escaped."""
    return "".join(f"{_escaped(name)}={_escaped(value)}\n" for name, value in properties.items())


def _escaped(text: str) -> str:
    units = text.encode("utf-16-be")
    codes = (int.from_bytes(units[at : at + 2]) for at in range(0, len(units), 2))
    return "".join(chr(one) if chr(one).isalnum() and one < 128 else f"\\u{one:04x}" for one in codes)
