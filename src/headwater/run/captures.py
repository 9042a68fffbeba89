"""Captures: what an app captures, held up and looked at while its pipelines run.

Each connector stands for itself. One that cannot be had, or that gave up, is told and tried again with
growing pauses: it holds up neither another one nor a pipeline, and whoever mends the cause has nothing to
start here. Only where no pipeline can do without it, an app does not begin.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Event, Thread

from headwater.app import App, Pipeline
from headwater.capture.capturing import Capturing, capturing, ensure
from headwater.capture.checks import demand
from headwater.capture.health import Health
from headwater.capture.plan import Capture, plans
from headwater.errors import ConnectorFailed, HeadwaterError
from headwater.run.failure import FIRST_PAUSE, LONGEST_PAUSE, is_passing
from headwater.settings import Settings

LOOK_EVERY = 5.0
_LEAVES_WITHIN = 5.0


@dataclass(frozen=True, kw_only=True)
class CaptureFigures:
    """A connector as users of an app see it: how it is, and how often it was started again since."""

    health: Health
    restarts: int = 0
    error: str = ""


class Captured:
    """What one connector captures for an app, looked at until it is stopped."""

    def __init__(self, app: str, captures: Sequence[Capture], settings: Settings) -> None:
        (plan,) = plans(captures)
        self.topics = {one.name for one in plan.topics}
        self.error: HeadwaterError | None = None
        self.figures = CaptureFigures(health=Health(connector=plan.name, state="starting"))
        self._given = app, captures, settings
        self._is_up = False
        self._pause = FIRST_PAUSE
        self._stopping = Event()
        self._thread = Thread(target=self._run, name=f"capture by {plan.name}", daemon=True)

    def look(self) -> None:
        """Have it captured, and see how it is."""
        try:
            self._hold_up()
        except Exception as error:  # noqa: BLE001 - whatever it is, the pipelines go on
            self.error = _told(error, self.figures.health.connector)
            state = "waiting" if is_passing(self.error) else "failed"
            health = replace(self.figures.health, state=state)
            self.figures = replace(self.figures, health=health, error=str(self.error))
        else:
            self.error = None
            self.figures = replace(self.figures, error="")

    def start(self) -> None:
        """Go on looking."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more; the connector goes on."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(_LEAVES_WITHIN)

    def _run(self) -> None:
        while not self._stopping.wait(LOOK_EVERY if self.error is None else self._pause):
            self.look()
            self._pause = FIRST_PAUSE if self.error is None else min(2 * self._pause, LONGEST_PAUSE)

    def _hold_up(self) -> None:
        if not self._is_up:
            ensure(*self._given)
            self._is_up = True
        (connector,) = capturing(*self._given)
        found = self._seen(connector)
        if found.state == "failed":
            self.figures = replace(self.figures, restarts=self.figures.restarts + 1)
            connector.resume()
            self._seen(connector)
        elif found.unpublished and found.state == "running":
            ensure(*self._given)
        elif found.is_stuck:
            connector.knock()
            _, captures, settings = self._given
            demand(captures, settings)

    def _seen(self, connector: Capturing) -> Health:
        found = connector.health()
        self.figures = replace(self.figures, health=found)
        return found


@contextmanager
def captured(app: App, settings: Settings, *, once: bool = False) -> Iterator[list[Captured]]:
    """What an app captures, for the block; each connector runs when it begins, or tells why not.

    With `once` nothing is tried again.
    """
    found = [Captured(app.name, one, settings) for one in _by_connector(app.captures)]
    for one in found:
        one.look()
    _check_use(app, found)
    try:
        for one in found if not once else ():
            one.start()
        yield found
    finally:
        for one in found:
            one.stop()


def _check_use(app: App, found: Sequence[Captured]) -> None:
    """Raise what is wrong when no pipeline can do without it."""
    lost = {topic for one in found if one.error is not None for topic in one.topics}
    errors = [one.error for one in found if one.error is not None]
    if errors and all(_reads(one, lost) for one in app.pipelines):
        raise errors[0]


def _reads(pipeline: Pipeline, topics: set[str]) -> bool:
    return any(one.topic.name in topics for one in pipeline.sources)


def _by_connector(captures: Sequence[Capture]) -> list[list[Capture]]:
    """A database's tables have one connector, its outbox another."""
    found: dict[str, list[Capture]] = {}
    for one in captures:
        (plan,) = plans([one])
        found.setdefault(plan.name, []).append(one)
    return list(found.values())


def _told(error: Exception, connector: str) -> HeadwaterError:
    if isinstance(error, HeadwaterError):
        return error
    return ConnectorFailed(f"connector {connector!r} cannot be looked at", detail=str(error))
