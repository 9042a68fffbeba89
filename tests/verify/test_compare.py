"""The law of a comparison, on dictionaries: a delay is no difference, and nothing else passes."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from headwater.log.schema import parse_schema
from headwater.verify.canonical import canonical, digest_of
from headwater.verify.compare import Comparison

COLUMNS = parse_schema("id int, n int")
DIGEST = digest_of(COLUMNS)
TURNS = {"id": canonical(COLUMNS["id"].dataType), "n": canonical(COLUMNS["n"].dataType)}
TABLES = st.dictionaries(st.integers(0, 30), st.integers(0, 3))


def rows(table):
    return {(key,): {"id": key, "n": value} for key, value in table.items()}


class Table:
    """A source; `happens` are tables that it becomes, one with each look."""

    def __init__(self, table, *happens, exact=True, behind=0):
        self.table, self.happens, self.is_exact, self.behind = table, list(happens), exact, behind

    def digests(self, progress):
        progress("the source", len(self.table))
        return {key: DIGEST(row) for key, row in rows(self.table).items()}

    def await_copy(self, _):
        return self.behind

    def newer(self, keys):
        self.table = self.happens.pop(0) if self.happens else self.table
        found = rows(self.table)
        return [(key, DIGEST(found[key]) if key in found else None) for key in keys]

    def rows(self, keys):
        return {key: row for key, row in rows(self.table).items() if key in keys}


class Copy:
    """A copy; `happens` are tables that it becomes, one before each look."""

    def __init__(self, table, *happens, twice=()):
        self.table, self.happens, self.twice = table, list(happens), twice

    def all(self):
        yield from rows(self.table).items()
        yield from rows(dict(self.twice)).items()

    def some(self, keys):
        self.table = self.happens.pop(0) if self.happens else self.table
        return [(key, row) for key, row in rows(self.table).items() if key in keys]


def compared(source, copy, within=0, show=5, naps=None):
    comparison = Comparison(
        source,
        copy,
        DIGEST,
        within=timedelta(seconds=within),
        sleep=(naps if naps is not None else []).append,
    )
    return comparison.run(TURNS, show, lambda *_: None)


@given(TABLES, TABLES, st.booleans())
def test_of_sides_that_stand_still_exactly_the_rows_that_differ_are_named(table, copy, exact):
    found = compared(Table(table, exact=exact), Copy(copy), show=100)
    different = {key for key in table.keys() | copy.keys() if table.get(key) != copy.get(key)}
    assert {one.key for one in found.differences} == {(key,) for key in different}
    assert found.is_equal == (not different)
    for one in found.differences:
        (key,) = one.key
        assert one.kind == (
            "missing" if key not in copy else "unexpected" if key not in table else "different"
        )
        assert one.columns == ({"n": (table[key], copy[key])} if one.kind == "different" else {})
    assert (found.whole.rows, found.whole.copied) == (len(table), len(copy))
    assert found.whole.is_equal == found.is_equal
    assert all(one.is_equal for one in found.ranges) == found.is_equal


@given(st.lists(TABLES, min_size=2, max_size=6), st.data())
def test_a_copy_that_follows_is_equal_however_much_moves_meanwhile(history, data):
    seen = data.draw(st.integers(1, len(history) - 1))
    late = data.draw(st.integers(0, seen))
    first, *happens = history[: seen + 1]
    copy = Copy(history[late], history[data.draw(st.integers(0, seen))])

    class Log(Table):
        def newer(self, keys):
            while self.happens:
                yield from super().newer(keys)

    found = compared(Log(first, *happens), copy)
    assert found.is_equal
    assert found.whole.is_equal


def test_a_table_that_moves_is_asked_until_the_copy_has_caught_up():
    naps = []
    source = Table({1: 0}, {1: 1}, {1: 2}, {1: 3}, exact=False)
    found = compared(source, Copy({}, {}, {1: 2}), within=60, naps=naps)
    assert (found.is_equal, found.looked_again) == (True, 1)
    assert naps[:-1] == [0.25]


def test_a_copy_of_an_older_state_is_different_when_the_patience_is_over():
    found = compared(Table({1: 1}, exact=False), Copy({1: 0}))
    assert [(one.key, one.kind, one.columns) for one in found.differences] == [
        ((1,), "different", {"n": (1, 0)})
    ]


def test_a_row_that_is_told_twice_counts_once():
    found = compared(Table({1: 1}), Copy({1: 1, 2: 2}, twice=[(1, 0), (2, 3)]))
    assert (found.whole.copied, found.different) == (2, 1)


def test_only_the_first_differences_are_named_and_all_are_counted():
    found = compared(Table(dict.fromkeys(range(50), 1), behind=7), Copy({}), show=2)
    assert (found.different, found.behind) == (50, 7)
    assert [one.key for one in found.differences] == [(0,), (1,)]
    assert len(found.ranges) <= 17
    assert found.ranges[0].first == (0,)
