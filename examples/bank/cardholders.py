"""The bank's cardholders in PostgreSQL, and what happens to them: they move, marry, leave, and new ones come.

Nothing here knows of Kafka, Redis or a search index: the service writes its own table, and that is all.
"""

import random
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from threading import Event
from typing import Any

import psycopg

from transactions import CARDS

TABLE = """
    CREATE TABLE cardholders (
        card text PRIMARY KEY, name text NOT NULL, city text, country text,
        daily_limit numeric(10, 2), email text);
    ALTER TABLE cardholders REPLICA IDENTITY FULL  -- every update tells the whole row
"""
PLACES = [
    ("Lisbon", "PT"), ("Tallinn", "EE"), ("Accra", "GH"), ("Osaka", "JP"), ("Quito", "EC"), ("Utrecht", "NL"),
]  # fmt: skip
STARS = ["Adhara", "Altair", "Capella", "Deneb", "Electra", "Maia", "Mira", "Rigel", "Spica", "Vega"]
PAUSE = 0.1


class Cardholders:
    """The table, and the changes that are committed to it, by their kind."""

    def __init__(self, url: str, seed: int = 42) -> None:
        self.changes: Counter[str] = Counter()
        self._url, self._chance = url, random.Random(seed)
        self._cards = list(CARDS)

    def create(self) -> int:
        """Make the table with a row for each card; tells how many."""
        with psycopg.connect(self._url) as database:
            database.execute(TABLE)
            for card in CARDS:
                self._join(database, card)
        return len(CARDS)

    def live(self, until: Event) -> None:
        """Change one row after another, each in a transaction of its own."""
        kinds: list[tuple[str, Callable[[Any], None]]] = [
            ("moved", self._move),
            ("renamed", self._rename),
            ("left", self._leave),
            ("new", self._come),
        ]
        with psycopg.connect(self._url, autocommit=True) as database:
            while not until.wait(PAUSE):
                (kind, change), *_ = self._chance.choices(kinds, weights=[4, 3, 1, 1])
                change(database)
                self.changes[kind] += 1

    def count(self) -> int:
        """How many rows the table has."""
        with psycopg.connect(self._url) as database:
            return int(database.execute("SELECT count(*) FROM cardholders").fetchall()[0][0])

    def _move(self, database: Any) -> None:
        city, country = self._chance.choice(PLACES)
        change = "UPDATE cardholders SET city = %s, country = %s WHERE card = %s"
        database.execute(change, [city, country, self._anybody()])

    def _rename(self, database: Any) -> None:
        change = "UPDATE cardholders SET name = %s WHERE card = %s"
        database.execute(change, [self._name(), self._anybody()])

    def _leave(self, database: Any) -> None:
        card = self._cards.pop(self._chance.randrange(len(self._cards)))
        database.execute("DELETE FROM cardholders WHERE card = %s", [card])

    def _come(self, database: Any) -> None:
        card = f"card-{len(CARDS) + self.changes['new']:03}"
        self._join(database, card)
        self._cards.append(card)

    def _join(self, database: Any, card: str) -> None:
        limit = Decimal(self._chance.randrange(5, 50)) * 100
        row = [card, self._name(), *self._chance.choice(PLACES), limit, f"{card}@example.com"]
        database.execute("INSERT INTO cardholders VALUES (%s, %s, %s, %s, %s, %s)", row)

    def _anybody(self) -> str:
        return self._chance.choice(self._cards)

    def _name(self) -> str:
        return " ".join(self._chance.sample(STARS, 2))
