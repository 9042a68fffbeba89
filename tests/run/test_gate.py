"""The gate: which code may write a copy, and when it waits for a rebuild."""

import sys
from dataclasses import replace
from datetime import timedelta

import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

from headwater import Database, Pipeline, RedisSink, Table, upserts
from headwater.clock import wait_until
from headwater.errors import CopyRebuilt, SinkUnreachable
from headwater.run.code import code_of
from headwater.run.copies import TOPIC, Copies
from headwater.run.gate import Gate, holders

NOW = timedelta(milliseconds=1)
ORDERS = Table(Database("shop"), "public.orders", schema="id long NOT NULL, name string", key="id")
PLAIN = Pipeline("kept", upserts, reads=[ORDERS], writes=RedisSink("orders", key="id"))
RATES = {"eur": 1.0}
dearer_than = sys.modules[__name__]
"""A module of the user's own."""


def dearer(rows):
    return raised(rows, RATES["eur"])


def raised(rows, by):
    return upserts(rows).where(f"amount > {by}")


def test_code_is_the_same_in_every_process_and_another_when_anything_that_it_uses_is(monkeypatch):
    def code(function) -> str:
        return code_of(replace(PLAIN, function=function))

    assert code(upserts) == code_of(PLAIN) != code(dearer)
    assert code(lambda rows: rows.where("x > 1")) != code(lambda rows: rows.where("x > 2"))
    before = code(dearer)
    assert code(dearer) == before
    monkeypatch.setitem(RATES, "eur", 2.0)
    assert code(dearer) != before
    before = code(dearer)
    monkeypatch.setattr("tests.run.test_gate.raised", lambda rows, by: rows.where(f"amount >= {by}"))
    assert code(dearer) != before
    limit = 1
    assert code(lambda rows: rows.limit(limit)) != code(lambda rows: rows.limit(PLAIN))
    assert code_of(replace(PLAIN, writes=RedisSink("orders", key="name"))) != code_of(PLAIN)
    assert code_of(replace(PLAIN, function=None, sql="SELECT 1")) != code_of(PLAIN)


def test_code_is_followed_into_modules_classes_and_functions_that_spark_calls(monkeypatch):
    class Turned:
        def run(self, rows):
            return rows

    doubled = F.udf(lambda value: value * 2, LongType())
    functions = (
        lambda rows: dearer_than.raised(rows, 1),
        lambda rows: Turned().run(rows),
        lambda rows: rows.select(doubled("id")),
    )
    before = [code_of(replace(PLAIN, function=one)) for one in functions]
    monkeypatch.setattr(dearer_than, "raised", lambda rows, by: rows.where(f"amount < {by}"))
    monkeypatch.setattr(Turned, "run", lambda _, rows: rows.limit(1))
    doubled = F.udf(lambda value: value * 3, LongType())
    after = [code_of(replace(PLAIN, function=one)) for one in functions]
    assert not set(before) & set(after)


def test_a_pipeline_that_keeps_no_copy_has_no_gate(system):
    class Nothing:
        name, guarantee = "nothing", "exactly-once"
        check = write = print

    assert Gate.of("shop.kept", replace(PLAIN, writes=Nothing()), system) is None


@pytest.mark.system
def test_a_switch_is_waited_for_and_older_code_writes_no_more(system, log, name):
    label, mine = f"{name}.kept", code_of(PLAIN)
    old, new = Gate(label, PLAIN, system), Gate(label, replace(PLAIN, function=dearer), system)
    rebuild = Copies(label, system)
    old.wait(NOW)
    theirs = code_of(replace(PLAIN, function=dearer))
    rebuild.rebuilds(theirs)
    old.wait(NOW)
    rebuild.rebuilds(theirs, switching=True)
    with pytest.raises(SinkUnreachable, match="is about to switch the copies"):
        old.wait(NOW)
    new.wait(NOW)  # nobody holds the rebuild any more, and the rows are its own either way
    with log.join(holders(label), TOPIC) as member:
        assert wait_until(lambda: list(member.take(0.1)) or bool(member.assignment()), timedelta(seconds=30))
        with pytest.raises(SinkUnreachable):
            new.wait(NOW)
        rebuild.retire(theirs)
        new.wait(NOW)
    with pytest.raises(CopyRebuilt, match="were rebuilt with other code"):
        old.wait(NOW)
    with pytest.raises(CopyRebuilt):  # another process, later
        Gate(label, PLAIN, system).wait(NOW)
    rebuild.rebuilds(mine)
    rebuild.retire(mine)  # back again
    old.wait(NOW)
    with pytest.raises(CopyRebuilt):
        new.wait(NOW)
    log.groups.delete(holders(label))
