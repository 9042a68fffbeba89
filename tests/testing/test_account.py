"""The account: on time + late + dead = all, or somebody hears of it."""

import pytest

from headwater.errors import RowsUnaccounted
from headwater.testing.account import Account, Counts, Place

ONE: Place = ("payments", 0, 0)
TWO: Place = ("payments", 0, 1)


@pytest.fixture
def account() -> Account:
    made = Account()
    made.fed([ONE, TWO], 3)
    return made


def test_each_record_has_one_fate(account: Account) -> None:
    account.saw(2, 4)
    account.late([ONE], 2)
    assert account.counts == Counts(fed=5, on_time=1, late=1, dead=3)


@pytest.mark.parametrize(
    ("found", "dropped", "detail"),
    [
        ([], 2, "Spark dropped 2 rows of a batch, and 0 were found late"),
        ([ONE], 0, "Spark dropped 0 rows of a batch, and 1 were found late"),
        ([ONE, ONE], 2, "payments[0]@0 was late twice, or never came in"),
        ([("payments", 0, 9)], 1, "payments[0]@9 was late twice, or never came in"),
    ],
)
def test_late_rows_that_do_not_add_up_are_an_error(
    account: Account, found: list[Place], dropped: int, detail: str
) -> None:
    with pytest.raises(RowsUnaccounted, match="on time and late and dead are not all") as error:
        account.late(found, dropped)
    assert error.value.detail == detail


@pytest.mark.parametrize(("good", "seen"), [(2, 1), (2, 3), (0, 1)])
def test_rows_that_workers_did_not_see_are_an_error(account: Account, good: int, seen: int) -> None:
    with pytest.raises(RowsUnaccounted) as error:
        account.saw(good, seen)
    assert error.value.detail == f"of {good} good rows, the workers saw {seen}"


def test_workers_that_nobody_watched_are_believed(account: Account) -> None:
    account.saw(2, None)
