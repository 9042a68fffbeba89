"""Capturing: what an app captures, brought about, held up, looked at and ended.

First the topics are made, then the connector of each database is made, or changed when a table is new. A
table's rows are asked for by a signal: a row in the database's own log, read in its order, so that a crash
between the steps loses nothing; whoever comes next finds that the signal is missing and sends it.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any
from uuid import uuid4

from headwater.capture import connectors, secrets
from headwater.capture.checks import demand
from headwater.capture.claims import FIRST, Claims, again, claimed, claims_in, released
from headwater.capture.connect import Connect
from headwater.capture.health import Health, health
from headwater.capture.plan import Capture, Plan, plans
from headwater.capture.sources import alone, opened
from headwater.capture.sources.contract import Source
from headwater.clock import wait_until
from headwater.errors import CaptureGap, ConnectorFailed
from headwater.log.connection import Connection
from headwater.log.log import Log
from headwater.log.positions import Positions
from headwater.settings import Settings

_LOGGER = logging.getLogger("headwater.capture")
_LEAVES_WITHIN = timedelta(seconds=60)
_HAS_PLACE_WITHIN = timedelta(seconds=120)
_GAP = (
    "%s was not published for a while: its rows come once more; what was deleted meanwhile is found by "
    "`headwater verify --against database`"
)
_UNSENT = (
    "%s was not published for a while: the events that were written meanwhile stand in it and were not sent"
)


def ensure(app: str, captures: Sequence[Capture], settings: Settings) -> None:
    """Have all that an app captures captured; returns when the connectors run.

    The databases are asked first: DatabaseUnfit has all that they lack, with what mends it.
    """
    wanted = capturing(app, captures, settings)
    for one in wanted:
        one.knock()
    for found in demand(captures, settings):
        _LOGGER.warning("%s", found)
    for one in wanted:
        one.up()


def capturing(app: str, captures: Sequence[Capture], settings: Settings) -> "list[Capturing]":
    """What an app captures, connector by connector."""
    return [Capturing(app, plan, settings) for plan in plans(captures)]


class Capturing:
    """One connector, as an app wants it."""

    def __init__(self, app: str, plan: Plan, settings: Settings) -> None:
        self.plan, self._app, self._settings = plan, app, settings
        self._address = plan.address(settings)
        self._connect = Connect.open(settings)

    def knock(self) -> None:
        """Find out whether Connect and the database are there: that may pass, and what else is wrong not."""
        self._connect.names()
        with opened(self.plan.database, self._address):
            pass

    def up(self) -> None:
        """Have it run with the app's tables; returns when it does."""
        log = Log.open(self._settings)
        for topic in self.plan.all_topics(self._address):
            log.topics.create(topic)
        with self._alone() as source:
            if not self.plan.is_outbox:
                source.make_signals()
            claims = self._claim(source)
            self._refuse_lost(source)
            connectors.apply(self._connect, self.plan.name, self._config(claims))
            self._await_place(source)
            source.ask_for_snapshots(claims)

    def health(self) -> Health:
        """How it is."""
        return health(self.plan, self._address, self._connect)

    @property
    def place(self) -> str:
        """What its database keeps for it, in words."""
        if self._address.kind == "mariadb":
            return "its place in the binary log, which MariaDB keeps for a time only, whoever reads it"
        return f"slot and publication {self.plan.slot}: the database keeps its log from here on"

    def pause(self) -> None:
        """Let it rest; the database keeps its log for it."""
        self._connect.pause(self.plan.name)

    def resume(self) -> None:
        """Let it go on, or start what failed of it."""
        with opened(self.plan.database, self._address) as source:
            self._refuse_lost(source)
        connectors.start(self._connect, self.plan.name)

    def snapshot(self, tables: Sequence[str]) -> None:
        """Ask for the rows of these tables once more, beside their changes."""
        with self._alone() as source:
            source.ask_for_snapshot(f"snapshot-{uuid4()}", list(tables))

    def remove(self, *, for_good: bool = False) -> bool:
        """Give the app's tables up; False when other apps keep the connector.

        For good means without its place in the database's log: what happens from now on is never told.
        """
        name = self.plan.name
        with self._alone() as source:
            found = self._connect.config(name)
            left = released(claims_in(found), self._app)
            if left:
                connectors.apply(self._connect, name, self._config(left))
                return False
            if for_good and found is None:  # its place may be there still
                self._connect.create(name, self._config(claimed({}, self._app, self.plan.tables, FIRST)))
            if for_good or found is not None:
                connectors.stop(self._connect, name)
            if for_good:
                self._connect.forget(name)
                self._drop(source)
            self._connect.delete(name)
        return True

    def _claim(self, source: Source) -> Claims:
        """The claims with the app's; there is a connector afterwards, at rest if there was none."""
        found = self._connect.config(self.plan.name)
        known = self._told_again(source, claims_in(found))
        since = FIRST if self.plan.is_outbox else f"snapshot-{uuid4()}"
        claims = claimed(known, self._app, self.plan.tables, since)
        if found is None:
            self._make(claims)
        else:
            self._refuse_gaps(set(claims) - set(known))
        return claims

    def _told_again(self, source: Source, known: Claims) -> Claims:
        """The claims, with another snapshot for tables that somebody took out of the publication.

        The connector puts them back when it starts; so it is changed, or stopped, to start again.
        """
        untold = source.unpublished(self.plan.slot, known)
        if not untold or not self._connect.offsets(self.plan.name):
            return known
        _LOGGER.warning(_UNSENT if self.plan.is_outbox else _GAP, ", ".join(untold))
        if self.plan.is_outbox:
            connectors.stop(self._connect, self.plan.name)
            return known
        return again(known, untold, f"snapshot-{uuid4()}")

    def _make(self, claims: Claims) -> None:
        """Make the connector, at rest, to see whether it has a place from an earlier time."""
        self._connect.create(self.plan.name, self._config(claims))
        if self._connect.offsets(self.plan.name):
            return
        try:
            self._refuse_gaps(self.plan.tables)
        except CaptureGap:
            self._connect.delete(self.plan.name)
            raise

    def _await_place(self, source: Source) -> None:
        """What is signalled before a connector has its place in the log is read by nobody."""
        if not wait_until(lambda: source.has_place(self._told), _HAS_PLACE_WITHIN):
            raise ConnectorFailed(
                f"connector {self.plan.name!r} has no place in the database's log yet",
                hint="`headwater capture status` shows how it is; `headwater capture up` goes on",
            )

    def _told(self) -> Mapping[str, Any]:
        return self._connect.offsets(self.plan.name)

    def _refuse_lost(self, source: Source) -> None:
        """A connector whose place is gone would begin somewhere else, or give up a while later."""
        place = source.place(self.plan.slot, self._told)
        if place is not None and place.is_lost:
            topics = " ".join(one.name for one in self.plan.topics)
            raise CaptureGap(
                f"what connector {self.plan.name!r} had still to read is no longer in the database's log",
                detail=f"it was at {place.position}; what came after it was told to nobody",
                hint="capture anew: `headwater capture remove APP.py --slot`, `headwater topics delete "
                f"{topics}`, `headwater capture up APP.py`, and build the copies anew",
            )

    def _refuse_gaps(self, tables: Iterable[str]) -> None:
        """What a topic has of an earlier capture goes on for ever: rows that went in between never go."""
        if self.plan.is_outbox:
            return
        log, positions = Log.open(self._settings), Positions(Connection(self._settings))
        topics = [f"{self.plan.database.name}.{one}" for one in sorted(tables)]
        old = [one for one in topics if any(positions.end(one, range(log.topics.partitions(one))).values())]
        if old:
            raise CaptureGap(
                f"topic {old[0]!r} has changes of an earlier capture, whose place is lost",
                detail="rows that were deleted since then would stay in it, and in every copy",
                hint=f"delete it, and build the copies anew: headwater topics delete {' '.join(old)}",
            )

    def _config(self, claims: Claims) -> dict[str, str]:
        password = secrets.told(self.plan.database.name, self._address.password, self._settings)
        kafka = secrets.kafka(self._settings)
        return self.plan.config(claims, self._address, password, kafka, self._settings.connect_options)

    def _drop(self, source: Source) -> None:
        if not wait_until(lambda: source.forget(self.plan.slot), _LEAVES_WITHIN):
            raise ConnectorFailed(
                f"slot {self.plan.slot!r} is still read from",
                hint="is another Kafka Connect running this connector?",
            )
        if not self.plan.is_outbox:
            source.drop_signals()
        if history := self.plan.history(self._address):
            Log.open(self._settings).topics.delete(history.name)

    def _alone(self) -> AbstractContextManager[Source]:
        return alone(self.plan.database, self._address)
