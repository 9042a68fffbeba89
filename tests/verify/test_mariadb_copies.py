"""Copies of a MariaDB's table, by capture and a running pipeline: equal to the log and to the database."""

from datetime import timedelta

import pytest
from tests.capture.captured import Sql, come, own_mariadb, rows_of
from tests.run.test_pipelines import finished

from headwater import App, Pipeline, PostgresSink, RedisSink, Table, upserts
from headwater import Database as Postgres
from headwater.capture.capturing import ensure
from headwater.verify.pipeline import verify

pytestmark = [pytest.mark.system, pytest.mark.usefixtures("connect")]
SCHEMA = (
    "id long NOT NULL, name string, price decimal(12,2), much decimal(20,0), good boolean, kind string, "
    "sold_on date, sold_at timestamp, local timestamp_ntz, opens long, photo binary, about string, "
    "code string"
)
TABLE = (
    "id bigint PRIMARY KEY, name varchar(40), price decimal(12,2), much bigint unsigned, good boolean, "
    "kind enum('tea','cup'), sold_on date, sold_at timestamp(6) NULL, local datetime(6), opens time(6), "
    "photo blob, about json, code uuid"
)
ROWS = (
    "INSERT INTO goods SELECT seq, concat('thing ☂ ', seq), seq / 4, 18446744073709551615 - seq, seq % 2, "
    "1 + seq % 2, '2024-02-28' + INTERVAL seq DAY, now(6), now(6), sec_to_time(seq * 60.5), unhex(md5(seq)), "
    "json_object('of', seq), uuid() FROM seq_1_to_500"
)


def test_copies_are_equal_to_the_log_and_to_the_database(spark, system, mariadb, postgres, redis):
    with own_mariadb(mariadb, "copied", system) as database:
        sql = Sql(database.url or "")
        sql(f"CREATE TABLE goods ({TABLE})", ROWS)
        goods = Table(database, "copied.goods", schema=SCHEMA, key="id", partitions=2)
        ensure("copied", [goods], system)
        sql("UPDATE goods SET price = price + 1, good = NOT good WHERE id % 3 = 0")
        sql("DELETE FROM goods WHERE id % 7 = 0", "UPDATE goods SET id = id + 1000 WHERE id % 11 = 0")
        sql("INSERT INTO goods (id) VALUES (9999)")
        come(system, goods, lambda found: 9999 in rows_of(found))
        sinks = [
            PostgresSink("public.goods_of_mariadb", database=Postgres("here", postgres), key="id"),
            RedisSink("goods-of-mariadb", key="id", url=redis),
        ]
        app = App("copied", Pipeline("copies", upserts, reads=[goods], writes=sinks), captures=[goods])
        assert finished(app, spark, system).figures[0].state == "done"
        (count,) = sql("SELECT count(*) FROM goods")[0]
        for against in ("log", "database"):
            found = list(verify(app, "copies", system, against=against, within=timedelta(seconds=5)))
            assert [one.kind for one in found] == ["PostgresSink", "RedisSink"]
            assert [(one.verdict.differences, one.verdict.whole.rows) for one in found] == [((), count)] * 2
        sql.close()
