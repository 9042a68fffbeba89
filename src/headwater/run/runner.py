"""Running: an app with everything it needs, from its topics to its end."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.app import App
from headwater.capture.plan import plans
from headwater.embedded.jars import Progress as OnProgress
from headwater.log.log import Log
from headwater.log.topic import Topic
from headwater.run.realtime import slots
from headwater.run.session import close, session
from headwater.run.supervise import Supervisor
from headwater.settings import Settings

if TYPE_CHECKING:
    from headwater.run.captures import Captured


@contextmanager
def running(
    app: App,
    settings: Settings,
    *,
    once: bool = False,
    files: Sequence[Path] = (),
    progress: OnProgress = lambda *_: None,
) -> Iterator[Supervisor]:
    """The app's pipelines under way; at the end of the block they finish the batch in hand and stop.

    Topics that it reads or writes and that do not exist are made as they are declared, and the tables that it
    captures are captured. With `once` the pipelines end when they have read what is there now. `files` are
    shipped to the workers of a cluster.
    """
    log = Log.open(settings)
    for topic in topics_of(app):
        if topic.name not in log.topics.names():
            log.topics.create(topic)
    with _captured(app, settings, once=once) as captures:
        spark = session(settings, app.name, slots=slots(app, settings), files=files, progress=progress)
        supervisor = Supervisor(app, spark, settings, captures)
        try:
            supervisor.start(once=once)
            yield supervisor
        finally:
            supervisor.stop()
            supervisor.join()
            close(spark)


def _captured(app: App, settings: Settings, *, once: bool) -> "AbstractContextManager[Sequence[Captured]]":
    if not app.captures:
        return nullcontext(())
    from headwater.run.captures import captured  # noqa: PLC0415 - 20 MB of database drivers

    return captured(app, settings, once=once)


def topics_of(app: App) -> list[Topic]:
    """Every topic that the app declares."""
    found = [topic for one in plans(app.captures) for topic in one.topics]
    found += [source.topic for one in app.pipelines for source in one.sources]
    found += [topic for one in app.pipelines for sink in one.sinks if (topic := getattr(sink, "topic", None))]
    return list({one.name: one for one in found}.values())
