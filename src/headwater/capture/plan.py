"""Plan: what an app wants of one connector. Tables of a database share one; an outbox has its own.

Names are functions of the database alone, so that every app finds the same connector, slot and topics.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from headwater.capture.claims import Claims, Keys
from headwater.capture.configs import HEARTBEATS, common, mariadb, of_outbox, of_tables, postgres, signals
from headwater.capture.configs.mariadb import Kafka
from headwater.capture.database import Address, Database
from headwater.capture.outbox import Outbox
from headwater.capture.table import Table
from headwater.errors import SpecError
from headwater.log.topic import FOREVER, Topic
from headwater.settings import Settings

HISTORIES = "headwater-history"
Capture = Table | Outbox
"""What can be captured."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A connector as one app wants it: which tables, and the topics that it writes."""

    database: Database
    tables: Keys
    topics: tuple[Topic, ...]
    is_outbox: bool = False

    @property
    def name(self) -> str:
        """The connector's name."""
        return f"headwater-{self.database.name}{'-outbox' * self.is_outbox}"

    @property
    def slot(self) -> str:
        """Its replication slot in PostgreSQL, which is its publication's name, too."""
        return f"headwater_{self.database.name}{'_outbox' * self.is_outbox}"

    @property
    def prefix(self) -> str:
        """What the names of its own topics begin with."""
        return f"{self.database.name}{'-outbox' * self.is_outbox}"

    def address(self, settings: Settings) -> Address:
        """Where its database is; SpecError where that is of a kind that cannot have an outbox."""
        found = self.database.address(settings)
        if self.is_outbox and found.kind != "postgres":
            raise SpecError(
                f"database {self.database.name!r} is a MariaDB, and an outbox stands in a PostgreSQL",
                hint="capture the table of events like any other: Table(…), and read its inserts",
            )
        return found

    def history(self, address: Address) -> Topic | None:
        """Where a connector keeps how tables were made and changed, if its database's log does not tell."""
        if address.kind == "postgres":
            return None
        return Topic(f"{HISTORIES}.{self.prefix}", schema="value string", retention=FOREVER)

    def all_topics(self, address: Address) -> tuple[Topic, ...]:
        """Those of the tables and those that the connector writes beside them."""
        names = [f"{HEARTBEATS}.{self.prefix}"]
        if not self.is_outbox:
            names += [f"{self.prefix}.transaction", f"{self.prefix}.{signals(address)}"]
        history = [one for one in [self.history(address)] if one]
        return (*self.topics, *(Topic(name, schema="value string") for name in names), *history)

    def config(
        self, claims: Claims, address: Address, password: str, kafka: Kafka, options: Mapping[str, str]
    ) -> dict[str, str]:
        """All that the connector is told; `options` are laid over ours."""
        if self.is_outbox and set(claims) != set(self.tables):
            raise SpecError(
                f"database {self.database.name!r} has an outbox already: {', '.join(sorted(claims))}",
                hint="a database has one outbox, for all topics and all apps",
            )
        ours = of_outbox() if self.is_outbox else of_tables(self.database.name, claims, address)
        shared = common(self.prefix, claims, address, password)
        return {**shared, **self._of_its_kind(address, kafka), **ours, **options}

    def _of_its_kind(self, address: Address, kafka: Kafka) -> Mapping[str, str]:
        history = self.history(address)
        if history is None:
            return postgres.told(self.slot, address)
        return mariadb.told(self.name, history.name, signals(address), kafka)


def plans(captures: Sequence[Capture]) -> Iterator[Plan]:
    """The connectors that an app's captures need."""
    for database in dict.fromkeys(one.database for one in captures):
        here = [one for one in captures if one.database == database]
        tables = [one for one in here if isinstance(one, Table)]
        if tables:
            keys = {one.name: one.keys for one in tables}
            yield Plan(database=database, tables=keys, topics=tuple(one.changes for one in tables))
        for one in here:
            if isinstance(one, Outbox):
                topics = tuple(one.topics)
                yield Plan(database=database, tables={one.table: ("id",)}, topics=topics, is_outbox=True)
