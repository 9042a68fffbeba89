"""What can go wrong with a captured database: it is told, nothing else stops, and nothing is lost afterwards.

Each test breaks something of a real PostgreSQL under a running app, reads what the app says, mends it as it
is told to, and compares the copy with the table, row by row.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
import redis as client

from headwater import App, Database, KafkaSink, Log, Pipeline, RedisSink, Settings, Table, Topic, embedded
from headwater.capture import health
from headwater.capture.capturing import capturing, ensure
from headwater.capture.connect import Connect
from headwater.capture.health import Health
from headwater.capture.table import upserts
from headwater.clock import wait_until
from headwater.embedded.ports import a_free_port
from headwater.embedded.postgres import Postgres
from headwater.embedded.server import stop
from headwater.errors import DatabaseUnfit, DatabaseUnreachable
from headwater.run import captures
from headwater.run.captures import Captured, captured
from headwater.run.runner import running
from headwater.verify.pipeline import verify
from tests.capture.captured import come, rows_of

pytestmark = [pytest.mark.system, pytest.mark.usefixtures("connect")]
SOON = timedelta(seconds=90)
SCHEMA = "id long NOT NULL, name string, due date, note string"
COLUMNS = "id bigint PRIMARY KEY, name text, due date, note text"
LARGE = "(SELECT string_agg(md5(n::text), '') FROM generate_series(1, 400) AS n)"  # stays out of line
ROLE = "keeper"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """A home with a PostgreSQL that may be broken; at first its WAL does not tell changes."""
    settings = Settings(home=tmp_path_factory.mktemp("broken"), postgres_port=a_free_port())
    embedded.up(settings, [Postgres(properties={"wal_level": "replica"})], lambda *_: None)
    with psycopg.connect(embedded.postgres_url(settings) or "", autocommit=True) as sql:
        sql.execute(f"CREATE ROLE {ROLE} LOGIN REPLICATION PASSWORD 'secret7'")
    yield settings
    embedded.down(settings)


def database_of(home: Settings, name: str) -> Database:
    """A database of the role's own, with an empty table of orders."""
    with psycopg.connect(embedded.postgres_url(home) or "", autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name} OWNER {ROLE}")
    at = urlsplit(embedded.postgres_url(home) or "")
    database = Database(name, f"postgresql://{ROLE}:secret7@{at.hostname}:{at.port}/{name}")
    with psycopg.connect(database.url or "", autocommit=True) as sql:
        sql.execute(f"CREATE TABLE orders ({COLUMNS})")
        sql.execute("INSERT INTO orders VALUES (1, 'first')")
    return database


def orders(database: Database) -> Table:
    return Table(database, "public.orders", schema=SCHEMA, key="id")


@pytest.fixture(scope="module")
def database(home: Settings) -> Database:
    return database_of(home, "unfit")


class TestBeforeItBegins:
    """An app that cannot do without its database does not begin; it says all that is wrong at once."""

    def begin(self, database: Database, system: Settings) -> None:
        table = orders(database)
        copy = Pipeline("copy", upserts, reads=[table], writes=RedisSink("unfit", key="id"))
        with captured(App("unfit", copy, captures=[table]), system):
            raise AssertionError

    def test_a_wrong_password(self, database, system):
        wrong = Database("unfit", (database.url or "").replace("secret7", "Wr0ng"))
        with pytest.raises(DatabaseUnreachable, match="database 'unfit' does not let us in") as raised:
            self.begin(wrong, system)
        assert 'password authentication failed for user "keeper"' in raised.value.detail
        assert "HEADWATER_DATABASE_UNFIT right?" in raised.value.hint
        assert "Wr0ng" not in str(raised.value)

    def test_no_right_to_replicate_and_a_log_that_tells_no_changes(self, home, database, system):
        with psycopg.connect(embedded.postgres_url(home) or "", autocommit=True) as server:
            server.execute(f"ALTER ROLE {ROLE} NOREPLICATION")
            with pytest.raises(DatabaseUnfit, match="unfit cannot be captured, for 2 reasons") as raised:
                self.begin(database, system)
            assert "unfit: wal_level is replica, which does not tell changes" in raised.value.detail
            assert "mend: ALTER SYSTEM SET wal_level = 'logical'; -- then restart" in raised.value.detail
            assert f"unfit: role '{ROLE}' may not replicate" in raised.value.detail
            server.execute(f"ALTER ROLE {ROLE} REPLICATION")
        assert Connect.open(system).config("headwater-unfit") is None


@pytest.fixture(scope="module")
def fit(home: Settings) -> Settings:
    """The same home, once its WAL tells changes."""
    stop("postgres", home)
    embedded.up(home, [Postgres()], lambda *_: None)
    return home


class TestALogThatIsThrownAway:
    """What was not captured is in no log then: that is said, and capture begins anew only from nothing."""

    def test_a_slot_that_outgrew_its_bound(self, fit, system):
        database = database_of(fit, "outgrown")
        table, connect = orders(database), Connect.open(system)
        watched = Captured("outgrown", [table], system)
        watched.look()
        come(system, table, lambda found: len(found) == 1)
        (connector,) = capturing("outgrown", [table], system)
        connect.stop("headwater-outgrown")
        assert wait_until(lambda: connector.health().slot == "idle", SOON)
        with psycopg.connect(embedded.postgres_url(fit) or "", autocommit=True) as server:
            server.execute("ALTER SYSTEM SET max_slot_wal_keep_size = '160MB'")
            server.execute("SELECT pg_reload_conf()")
            assert wait_until(lambda: filled(server) and near(connector.health()), SOON)
            assert wait_until(lambda: filled(server) and connector.health().slot == "lost", SOON)
            server.execute("ALTER SYSTEM RESET max_slot_wal_keep_size")
            server.execute("SELECT pg_reload_conf()")
        assert any("its slot is lost" in one for one in connector.health().alerts())
        connect.resume("headwater-outgrown")
        assert wait_until(lambda: connector.health().is_stuck, SOON)
        watched.look()
        assert "is lost: PostgreSQL has removed WAL that was not captured yet" in str(watched.error)
        assert "mend: capture the tables anew: headwater capture remove APP.py --slot" in str(watched.error)
        connector.remove(for_good=True)
        Log.open(system).topics.delete(table.changes.name)
        with psycopg.connect(database.url or "", autocommit=True) as sql:
            sql.execute("DELETE FROM orders; INSERT INTO orders VALUES (2, 'since then')")
        ensure("outgrown", [table], system)
        assert set(rows_of(come(system, table, lambda found: len(found) == 1))) == {2}
        connector.remove(for_good=True)
        assert connect.config("headwater-outgrown") is None


class Shop:
    """A running app: a captured table is copied to Redis, and another pipeline needs no database."""

    def __init__(self, home: Settings, redis: str, system: Settings) -> None:
        self.database = database_of(home, "broken")
        self.table = orders(self.database)
        self.pings = Topic("broken-pings", schema="n long")
        self.pongs = Topic("broken-pongs", schema="n long")
        copy, beside = RedisSink("broken", key="id", url=redis), KafkaSink(self.pongs)
        self.app = App(
            "broken",
            Pipeline("copy", upserts, reads=[self.table], writes=copy),
            Pipeline("beside", lambda rows: rows, reads=[self.pings], writes=beside),
            captures=[self.table],
        )
        self.system = system
        self.supervisor: Any = None
        self.server = psycopg.connect(embedded.postgres_url(home) or "", autocommit=True)
        owner = (embedded.postgres_url(home) or "").rpartition("/")[0]
        self.sql = psycopg.connect(f"{owner}/broken", autocommit=True)

    @property
    def figures(self) -> Any:
        return self.supervisor.captures[0].figures

    @property
    def health(self) -> Health:
        found: Health = self.figures.health
        return found

    def disconnect(self) -> None:
        """Let the connector connect anew."""
        self.server.execute(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{ROLE}'"
        )

    def says(self, words: str) -> bool:
        return wait_until(lambda: words in self.figures.error, SOON)

    def is_well(self) -> bool:
        """Whether nothing is complained of any more, and all that was committed is in the copy."""
        assert wait_until(lambda: not self.figures.error, SOON), self.figures
        assert wait_until(lambda: self.health.slot == "active", SOON), self.health
        return self.is_equal()

    def is_equal(self) -> bool:
        return wait_until(lambda: not self.differences(), SOON, pause=1)

    def differences(self) -> list[Any]:
        (found,) = verify(self.app, "copy", self.system, against="database", within=timedelta(seconds=2))
        return [(one.key, one.kind) for one in found.verdict.differences]

    def goes_on_beside(self, number: int) -> bool:
        log = Log.open(self.system)
        with log.writer() as writer:
            writer.append(self.pings, {"n": number})
        return wait_until(lambda: number in [one.value.n for one in log.read(self.pongs)], SOON)


@pytest.fixture(scope="module")
def shop(fit: Settings, system: Settings, redis: str, spark: Any) -> Iterator[Shop]:
    assert spark
    found = Shop(fit, redis, system)
    with pytest.MonkeyPatch.context() as patch, running(found.app, system) as found.supervisor:
        patch.setattr(captures, "LOOK_EVERY", 1.0)
        patch.setattr(health, "RESTS", 2.0)
        assert found.is_well()
        yield found
        assert [str(error) for error in found.supervisor.errors] == []
    for one in capturing("broken", [found.table], system):
        one.remove(for_good=True)
    found.server.close()
    found.sql.close()


class TestUnderARunningApp:
    def test_a_password_that_is_changed(self, shop):
        shop.server.execute(f"ALTER ROLE {ROLE} PASSWORD 'another'")
        shop.disconnect()
        assert shop.says("database 'broken' does not let us in [database-unreachable]")
        assert shop.health.state == "waiting"
        shop.sql.execute("INSERT INTO orders VALUES (10, 'meanwhile')")
        assert shop.goes_on_beside(1)
        shop.server.execute(f"ALTER ROLE {ROLE} PASSWORD 'secret7'")
        assert shop.is_well()

    def test_a_right_to_replicate_that_is_taken_away(self, shop):
        shop.server.execute(f"ALTER ROLE {ROLE} NOREPLICATION")
        shop.disconnect()
        assert shop.says("broken cannot be captured, for one reason [database-unfit]")
        assert f"mend: ALTER ROLE {ROLE} REPLICATION;" in shop.figures.error
        shop.sql.execute("UPDATE orders SET name = 'without the right' WHERE id = 1")
        shop.server.execute(f"ALTER ROLE {ROLE} REPLICATION")
        assert shop.is_well()

    def test_a_table_that_is_published_no_more(self, shop, caplog):
        shop.sql.execute("DROP PUBLICATION headwater_broken")
        shop.sql.execute("INSERT INTO orders VALUES (20, 'told to nobody')")
        assert wait_until(lambda: "its rows come once more" in caplog.text, SOON)
        assert shop.is_well()

    def test_a_connector_that_somebody_stopped_from_elsewhere_is_told_and_left_alone(self, shop):
        connect = Connect.open(shop.system)
        connect.stop("headwater-broken")
        assert wait_until(lambda: list(shop.health.alerts()) == ["it is stopped"], SOON)
        connect.resume("headwater-broken")
        assert shop.is_well()

    def test_a_value_that_the_type_cannot_hold_and_one_that_was_not_sent(self, shop):
        shop.sql.execute(
            f"INSERT INTO orders VALUES (30, 'large', '2026-01-01', {LARGE}), (31, 'x', NULL, NULL)"
        )
        assert shop.is_equal()
        shop.sql.execute("UPDATE orders SET due = 'infinity' WHERE id = 31")
        shop.sql.execute("UPDATE orders SET name = 'changed' WHERE id = 30")
        shop.sql.execute("INSERT INTO orders VALUES (32, 'after them')")
        assert wait_until(lambda: len(self.reasons(shop)) == 2, SOON)
        infinite, not_sent = self.reasons(shop)
        assert "'due' is outside the years 1 to 9999, or infinity" in infinite
        assert "the database did not send it: ALTER TABLE … REPLICA IDENTITY FULL lets it" in not_sent
        shop.sql.execute("UPDATE orders SET due = '9999-12-31' WHERE id = 31")
        assert wait_until(lambda: shop.differences() == [((30,), "different")], SOON, pause=1)
        shop.sql.execute("ALTER TABLE orders REPLICA IDENTITY FULL")
        shop.sql.execute("UPDATE orders SET name = 'once more' WHERE id = 30")
        assert shop.is_equal()
        shop.sql.execute("ALTER TABLE orders REPLICA IDENTITY DEFAULT")

    def test_a_row_that_is_larger_than_what_kafka_takes_by_default(self, shop):
        shop.sql.execute("INSERT INTO orders VALUES (35, 'huge', NULL, repeat('x', 3000000))")
        shop.sql.execute("INSERT INTO orders VALUES (36, 'after it')")
        assert shop.is_equal()

    def reasons(self, shop: Shop) -> list[str]:
        """Why records of the table are dead letters."""
        dead = f"{shop.table.changes.name}.dead"
        log = Log.open(shop.system)
        if dead not in log.topics.names():
            return []
        return [(dict(one.headers)["headwater.reason"] or b"").decode() for one in log.read(dead)]

    def test_a_copy_whose_memory_is_full(self, shop, redis):
        with client.Redis.from_url(redis) as server:
            server.config_set("maxmemory", "1")
            shop.sql.execute("INSERT INTO orders VALUES (40, 'no room')")
            copy, _ = shop.supervisor.pipelines
            assert wait_until(lambda: copy.figures.state == "waiting", SOON)
            assert copy.figures.error == "Redis has no room"
            assert shop.goes_on_beside(2)
            server.config_set("maxmemory", "0")
        assert shop.is_equal()


def near(found: Health) -> bool:
    return any("throws them away at" in one for one in found.alerts())


def filled(server: Any) -> bool:
    """Fill a segment of WAL, of 16 MB, and let what nobody may need any more be removed."""
    server.execute("SELECT pg_logical_emit_message(false, 'test', ''), pg_switch_wal()")
    server.execute("CHECKPOINT")
    return True
