"""What became of a query: whether trying again can help, and what to tell people.

Spark wraps a cause in its own words, and those in a Python trace, and those in Java's. A cause passes
when it lies in the world outside (a broker is away, a worker died) and stays when it lies in the
pipeline: only the first kind is tried again.
"""

import re

from headwater.errors import HeadwaterError, PipelineFailed
from headwater.sink.failures import said_in

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
"""Seconds between two tries: the first, and what it grows to."""

_PASSING = (
    "org.apache.kafka.common.errors.TimeoutException",
    "org.apache.kafka.common.errors.DisconnectException",
    "org.apache.kafka.common.errors.NetworkException",
    "org.apache.kafka.common.errors.RetriableException",
    "org.apache.kafka.common.errors.CoordinatorNotAvailableException",
    "org.apache.kafka.common.errors.LeaderNotAvailableException",
    "org.apache.kafka.common.errors.NotLeaderOrFollowerException",
    "org.apache.kafka.common.errors.BrokerNotAvailableException",
    "org.apache.kafka.common.KafkaException: Failed to construct kafka",  # its address does not resolve
    "UNABLE_TO_GET_TOPIC_PARTITIONS",
    "java.net.ConnectException",
    "java.net.SocketException",
    "java.io.EOFException",
    "Python worker exited unexpectedly",
    "Python worker failed to connect back",
    "ExecutorLostFailure",
    "CONCURRENT_SCHEDULER_INSUFFICIENT_SLOT",  # in real time, while another job holds slots for a moment
    "MetadataFetchFailedException",
    "FetchFailedException",
)
_PASSING_CODES = {
    *("broker-unreachable", "not-acknowledged", "transaction-aborted"),
    *("outcome-unknown", "writer-fenced", "registry-unreachable", "sink-unreachable"),
    *("connect-unreachable", "database-unreachable"),
}
_STAYING = (
    "CONCURRENT_STREAM_LOG_UPDATE",
    "MULTI_STREAMING_QUERY",
    "Some data may have been lost",
    "KAFKA_DATA_LOSS",
)
_HINTS = {
    "CONCURRENT_STREAM_LOG_UPDATE": "another run of this pipeline uses its checkpoint: end that one first",
    "KAFKA_DATA_LOSS": "the log no longer has what the pipeline has not read: retention was too short",
    "Some data may have been lost": "the log no longer has what the pipeline has not read",
}
_PYTHON = re.compile(
    r"^(?P<said>(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception|Interrupt|Failed)\b.*)$", re.MULTILINE
)
_SQLSTATE = re.compile(r"\s*SQLSTATE: \w+")


def is_passing(error: BaseException) -> bool:
    """Whether the cause lies outside the pipeline and may be gone at the next try."""
    ours = error if isinstance(error, HeadwaterError) else said_in(str(error))
    if ours is not None:
        return ours.code in _PASSING_CODES
    said = f"{type(error).__name__}: {error}"
    return not any(one in said for one in _STAYING) and any(one in said for one in _PASSING)


def told(error: BaseException, pipeline: str) -> HeadwaterError:
    """The error as people read it: the innermost cause in a few lines, the whole of it in the log file."""
    said = str(error)
    ours = error if isinstance(error, HeadwaterError) else said_in(said)
    if ours is not None:
        return ours
    hint = next((words for mark, words in _HINTS.items() if mark in said), "")
    return PipelineFailed(f"pipeline {pipeline!r} failed", detail=_cause(said), hint=hint)


def _cause(said: str) -> str:
    head = said.split("=== Streaming Query ===", maxsplit=1)[0].split("JVM stacktrace:", maxsplit=1)[0]
    python = [one["said"] for one in _PYTHON.finditer(head) if "py4j" not in one["said"]]
    lines = python[-1:] if "Traceback" in head else head.splitlines()[:3]
    return (
        _SQLSTATE.sub("", "\n".join(line.strip() for line in lines if line.strip())) or "Spark gave no reason"
    )
