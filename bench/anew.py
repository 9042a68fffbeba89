"""A pipeline that has run, made as if it never had."""

import shutil

from headwater import Log, Settings


def forget(log: Log, settings: Settings, label: str, *topics: str) -> None:
    """Let the next run of a pipeline (`app.pipeline`) start from nothing, with these topics empty."""
    shutil.rmtree(settings.home / "checkpoints" / label.replace(".", "/"), ignore_errors=True)
    if label in log.groups.names():
        log.groups.delete(label)
    for topic in topics:
        if topic in log.topics.names():
            log.topics.delete(topic)
