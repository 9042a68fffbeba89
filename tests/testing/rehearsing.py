"""What the tests of rehearsals share: the bank's pipelines, and payments of ten o'clock."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from headwater import Pipeline
from headwater.python_files import app_in

TRANSCRIPTS = Path(__file__).parents[1] / "transcripts"
BEGIN = datetime(2026, 1, 1, 10, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def of_the_bank(name: str, file: str = "bank.py") -> Pipeline:
    (found,) = app_in(str(TRANSCRIPTS / file)).only([name]).pipelines
    return found


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def paid(seconds: float, card: str = "a", amount: float = 1) -> dict[str, Any]:
    return {"card": card, "amount": amount, "paid_at": at(seconds)}
