"""A captured table in a pipeline: its changes in their general form, in the order of the log."""

import json
from datetime import timedelta

from tests.run.test_pipelines import finished, read

from headwater import App, Bounded, Database, Divert, KafkaSink, Pipeline, Source, Table, Topic, upserts
from headwater.log.dead import DeadLetters

LATEST = "id long, name string, operation string, position long"


def table(name: str) -> Table:
    schema = "id long NOT NULL, name string, amount decimal(10,2)"
    return Table(Database("shop"), f"public.{name.replace('-', '_')}", schema=schema, key="id")


def envelope(op, *, before=None, after=None, second=0):
    source = {"ts_us": 1_794_999_960_000_000 + second * 1_000_000, "lsn": 256 + second}
    return json.dumps({"op": op, "before": before, "after": after, "source": source}).encode()


def written(log, one: Table, *values: bytes | None) -> None:
    log.topics.create(one.changes)
    with log.writer() as writer:
        for value in values:
            writer.append_bytes(one.changes.name, value, key=b'{"id":1}')


def test_changes_become_rows_to_keep_in_the_order_of_the_log_and_what_tells_no_row_is_dead(
    spark, system, log, name
):
    orders, target = table(name), Topic(f"{name}-out", schema=LATEST)
    ada, bea = {"id": 1, "name": "ada", "amount": "9.50"}, {"id": 1, "name": "bea", "amount": "9.50"}
    written(
        log,
        orders,
        envelope("r", after=ada),
        envelope("u", before=ada, after=bea),
        envelope("t"),
        envelope("d", before={"id": 1, "name": None, "amount": None}),
        None,
    )
    log.topics.create(target)
    copy = Pipeline("copy", upserts, reads=[orders], writes=KafkaSink(target))
    found = finished(App(name, copy), spark, system)
    assert [(row.name, row.operation, row.position) for row in read(log, target)] == [
        ("ada", "read", 0),
        ("bea", "update", 1),
        (None, "delete", 3),
    ]
    assert found.figures[0].dead == 1
    (letter,) = [one.letter for one in DeadLetters(orders.changes.name, system).read()]
    assert "was truncated" in letter.reason


def test_when_changes_were_committed_is_their_event_time(spark, system, log, name):
    orders, target = table(name), Topic(f"{name}-out", schema="minute timestamp, changes long")
    ada = {"id": 1, "name": "ada", "amount": "9.50"}
    written(log, orders, *(envelope("u", after=ada, second=second) for second in (0, 10, 300, 20)))
    log.topics.create(target)
    counted = Pipeline(
        "counted",
        sql=f"SELECT w.start AS minute, count(*) AS changes FROM "
        f"(SELECT window(committed_at, '1 minute') AS w FROM {Source(orders.changes).table}) GROUP BY w",
        reads=[orders],
        writes=KafkaSink(target),
        watermark=Bounded(timedelta(seconds=1)),
        late=Divert(f"{name}-late"),
    )
    found = finished(App(name, counted), spark, system)
    assert [row.changes for row in read(log, target)] == [3]
    assert found.figures[0].late == 0
