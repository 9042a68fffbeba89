"""A shop's clients: transactions on PostgreSQL from several connections, whatever dies meanwhile.

They insert, update, delete and change keys, leave a large value alone or change it, roll back, run into each
other, and one of them takes seconds for a transaction. Each transaction writes into the journal what it
did and sends an event, so the database itself can be asked later what was committed: of a commit that
got no answer nobody else knows.
"""

import random
from collections.abc import Sequence
from datetime import timedelta
from itertools import count
from threading import Event, Thread
from typing import Any

import psycopg

from bench.chaos_capture_app import DONE, OUTBOX

CLIENTS = 3
LARGE = 3_000  # characters; from about 2,000 on, PostgreSQL keeps a value out of line
UNDONE = 0.1  # of the transactions
_DDL = f"""
CREATE TABLE orders (id bigint PRIMARY KEY, customer text, amount numeric(10, 2), note text,
                     version bigint NOT NULL);
ALTER TABLE orders ALTER COLUMN note SET STORAGE EXTERNAL, REPLICA IDENTITY FULL;
CREATE TABLE lines (order_id bigint, line int, product text, quantity int, version bigint NOT NULL,
                    PRIMARY KEY (order_id, line));
CREATE TABLE journal (number bigint PRIMARY KEY, xid bigint NOT NULL, changes int NOT NULL);
INSERT INTO orders SELECT n, 'first', n, CASE WHEN n % 3 = 0 THEN repeat('n', {LARGE}) END, 1
FROM generate_series(0, 150) AS n;
INSERT INTO lines SELECT n / 4, n % 4, 'first', 1, 1 FROM generate_series(0, 200) AS n;
{OUTBOX.ddl}
"""
_IS_FREE = "AND NOT EXISTS (SELECT FROM orders WHERE id = %(other)s)"
_IS_ONE = "AND line = 2 AND NOT EXISTS (SELECT FROM lines WHERE (order_id, line) = (%(other)s, 2))"
_STATEMENTS = (  # how often; how many changes a row is; what
    (4, 1, "INSERT INTO orders VALUES (%(id)s, %(word)s, %(price)s, %(note)s, 1) ON CONFLICT DO NOTHING"),
    (8, 1, "UPDATE orders SET amount = %(price)s, version = version + 1 WHERE id = %(id)s"),
    (2, 1, "UPDATE orders SET note = %(note)s, version = version + 1 WHERE id = %(id)s"),
    (2, 1, "DELETE FROM orders WHERE id = %(id)s"),
    (2, 2, f"UPDATE orders SET id = %(other)s, version = version + 1 WHERE id = %(id)s {_IS_FREE}"),
    (4, 1, "INSERT INTO lines VALUES (%(id)s, %(line)s, %(word)s, 1, 1) ON CONFLICT DO NOTHING"),
    (6, 1, "UPDATE lines SET quantity = quantity + 1, version = version + 1 WHERE order_id = %(id)s"),
    (2, 1, "DELETE FROM lines WHERE order_id = %(id)s AND line >= %(line)s"),
    (2, 2, f"UPDATE lines SET order_id = %(other)s, version = version + 1 WHERE order_id = %(id)s {_IS_ONE}"),
)
_MARKS = (
    "UPDATE orders SET customer = %(mark)s, version = version + 1 WHERE id = 0",
    "UPDATE lines SET product = %(mark)s, version = version + 1 WHERE (order_id, line) = (0, 0)",
)
_WRITE_DOWN = "INSERT INTO journal VALUES (%s, pg_current_xact_id()::text::bigint, %s)"


class Load:
    """All clients, each in a thread; `asked` and `acknowledged` have the numbers of their transactions."""

    def __init__(self, url: str, seed: int) -> None:
        self.url, self.asked, self.acknowledged = url, set[int](), set[int]()
        self.ending = Event()
        self.numbers = count(1)
        self.captured_from = 0
        clients = [Client(self, random.Random(seed + one), range(1, 150)) for one in range(CLIENTS)]
        runs = [*(one.run for one in clients), Slow(self, random.Random(seed - 1), range(1_000, 1_050)).run]
        self._threads = [Thread(target=one) for one in [*runs, self._clean]]

    def start(self) -> None:
        with psycopg.connect(self.url) as connection:
            connection.execute(_DDL)
        for one in self._threads:
            one.start()

    def end(self) -> None:
        self.ending.set()
        for one in self._threads:
            one.join()

    def mark(self, mark: str) -> None:
        """Commit a mark into both tables, however often it takes."""
        one = Client(self, random.Random(0), range(1))
        while not one.has_marked(mark):
            self.ending.wait(0.1)

    def is_captured(self) -> None:
        """Know that what begins from now on is in no snapshot."""
        self.captured_from = next(self.numbers)

    def _clean(self) -> None:
        """Throw events away that capture has passed, as a service would."""
        while not self.ending.wait(2):
            try:
                with psycopg.connect(self.url, autocommit=True) as connection:
                    OUTBOX.clean(connection, timedelta(seconds=1))
            except psycopg.OperationalError:
                continue


class Client:
    """Transactions on one connection after another, some of them undone."""

    longest = timedelta(milliseconds=150)
    """Between two transactions."""

    def __init__(self, load: Load, chance: random.Random, ids: Sequence[int]) -> None:
        self._load, self._chance, self._ids = load, chance, ids

    def run(self) -> None:
        while not self._load.ending.is_set():
            try:
                with psycopg.connect(self._load.url, autocommit=True) as connection:
                    connection.execute("SET lock_timeout = '300ms'")
                    self._work(connection)
            except psycopg.OperationalError:
                self._pause(timedelta(milliseconds=300))

    def has_marked(self, mark: str) -> bool:
        """Whether a mark was committed; it may be there twice, when an answer did not come."""
        try:
            with psycopg.connect(self._load.url, autocommit=True) as connection:
                self._transact(connection, [(1, one, {"mark": mark}) for one in _MARKS], is_undone=False)
        except psycopg.OperationalError:
            return False
        return True

    def _work(self, connection: Any) -> None:
        while not self._load.ending.is_set():
            wanted = [self._statement() for _ in range(self._chance.randint(1, 5))]
            try:
                self._transact(connection, wanted, is_undone=self._chance.random() < UNDONE)
            except (
                psycopg.errors.UniqueViolation,
                psycopg.errors.LockNotAvailable,
                psycopg.errors.DeadlockDetected,
            ):
                continue
            self._pause(self.longest)

    def _transact(
        self, connection: Any, wanted: Sequence[tuple[int, str, dict[str, Any]]], *, is_undone: bool
    ) -> None:
        number, changes = next(self._load.numbers), 0
        with connection.transaction(force_rollback=is_undone):
            for weight, sql, values in wanted:
                changes += weight * connection.execute(sql, values).rowcount
                self._linger()
            connection.execute(_WRITE_DOWN, [number, changes])
            OUTBOX.send(connection, DONE, {"number": number})
            if not is_undone:
                self._load.asked.add(number)
        if not is_undone:
            self._load.acknowledged.add(number)

    def _statement(self) -> tuple[int, str, dict[str, Any]]:
        chance = self._chance
        ((_, weight, sql),) = chance.choices(_STATEMENTS, weights=[one for one, *_ in _STATEMENTS])
        letter, is_large = chance.choice("abcdef"), chance.random() < 0.5
        values = {
            "id": chance.choice(self._ids),
            "other": chance.choice(self._ids),
            "line": chance.randrange(4),
            "word": f"word-{chance.randrange(1000)}",
            "price": chance.randrange(100_000) / 100,
            "note": letter * LARGE if is_large else None,
        }
        return weight, sql, values

    def _linger(self) -> None:
        """Go on at once."""

    def _pause(self, longest: timedelta) -> None:
        self._load.ending.wait(self._chance.random() * longest.total_seconds())


class Slow(Client):
    """Takes seconds for each transaction, so that servers die in the middle of it."""

    def _linger(self) -> None:
        self._pause(timedelta(seconds=3))
