"""A copy in a real Redis: the newest row of every key, whatever comes twice, late or out of order."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import msgspec
import pytest
import redis as client
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater import RedisSink, Settings
from headwater.embedded.ports import a_free_port
from headwater.errors import SinkRefused, SinkUnreachable, SpecError
from headwater.log.schema import parse_schema
from headwater.sink import by_key
from headwater.sink.by_key import Change
from headwater.sink.contract import Batch, Sink
from headwater.sink.redis_store import RedisStore, joined

pytestmark = pytest.mark.system
COLUMNS = "id long, name string"


def store(url, prefix, form="hash", columns=COLUMNS, **given) -> RedisStore:
    usual = {"keys": ("id",), "ttl": None, "remembered": timedelta(days=1)}
    return RedisStore(url=url, prefix=prefix, form=form, columns=parse_schema(columns), **usual | given)


def change(key: int, position: int, name: str | None = "x") -> Change:
    return Change((key,), position, None if name is None else {"id": key, "name": name})


def rows(url: str, prefix: str) -> dict[str, dict[str, str]]:
    """What a reader finds."""
    with client.Redis.from_url(url, decode_responses=True) as known:
        found = {}
        for key in known.scan_iter(f"{prefix}:*", count=1000):
            is_hash = known.type(key) == "hash"
            row = known.hgetall(key) if is_hash else msgspec.json.decode(known.get(key))
            found[key.removeprefix(f"{prefix}:")] = {name: str(value) for name, value in row.items()}
        return found


CHANGES = st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=12)


@pytest.mark.parametrize("form", ["hash", "json"])
def test_any_order_any_repetition_and_any_split_of_changes_end_in_the_newest_rows(redis, name, form):
    known = client.Redis.from_url(redis)

    @settings(max_examples=150, deadline=None)
    @given(CHANGES, st.randoms(use_true_random=False), st.integers(1, 4))
    def law(told, chance, size):
        changes = [change(key, 8 + at, None if gone else f"n{at}") for at, (key, gone) in enumerate(told)]
        wanted = {one.key: one for one in changes}
        played = changes + chance.choices(changes, k=5) if changes else []
        chance.shuffle(played)
        for start in range(0, len(played), size):
            store(redis, name, form)(iter([played[start : start + size]]))
        assert rows(redis, name) == {
            str(one.key[0]): {"id": str(one.key[0]), "name": one.row["name"], "_position": str(one.position)}
            for one in wanted.values()
            if one.row
        }
        for key in known.scan_iter(f"{name}*", count=1000):
            known.delete(key)

    law()
    known.close()


def test_a_batch_that_was_begun_before_a_switch_is_not_written_after_it(redis, name):
    store(redis, name)(iter([[change(1, 1, "before")]]))
    RedisSink(name, key="id", url=redis).beside(Settings()).switch(parse_schema(COLUMNS))
    with pytest.raises(SinkUnreachable, match="was switched"):
        store(redis, name)(iter([[change(1, 2, "late")]]))
    store(redis, name, switches=1)(iter([[change(1, 2, "after")]]))
    assert rows(redis, name)["1"]["name"] == "after"


def test_positions_beyond_53_bits_are_told_apart(redis, name):
    for form in ("hash", "json"):
        write = store(redis, f"{name}-{form}", form)
        write(iter([[change(1, 2**62 + 1, "newer")], [change(1, 2**62, "older")]]))
        assert rows(redis, f"{name}-{form}")["1"]["name"] == "newer"


def test_a_row_in_a_hash_has_its_columns_as_text_and_leaves_nulls_out(redis, name):
    columns = "id long, paid decimal(10,2), at timestamp, data binary, tags array<string>, note string"
    row = {
        "id": 7,
        "paid": Decimal("9.50"),
        "at": datetime(2026, 1, 1, tzinfo=UTC),
        "data": b"\x00\xff",
        "tags": ["a"],
        "note": "old",
    }
    write = store(redis, name, columns=columns)
    write(iter([[Change((7,), 1, row)]]))
    write(iter([[Change((7,), 2, row | {"note": None})]]))
    with client.Redis.from_url(redis) as known:
        assert known.hgetall(f"{name}:7") == {
            b"_position": b"2",
            b"id": b"7",
            b"paid": b"9.50",
            b"at": b"2026-01-01T00:00:00Z",
            b"data": b"\x00\xff",
            b"tags": b'["a"]',
        }


def test_a_row_as_json_has_all_its_columns(redis, name):
    write = store(redis, name, "json", columns="id long, paid decimal(10,2), note string")
    write(iter([[Change((7,), 3, {"id": 7, "paid": Decimal("9.50"), "note": None})]]))
    with client.Redis.from_url(redis) as known:
        assert known.get(f"{name}:7") == b'{"_position":3,"id":7,"paid":"9.50","note":null}'


def test_a_deleted_key_is_gone_and_its_position_is_remembered_for_a_while(redis, name):
    write = store(redis, name, remembered=timedelta(hours=1))
    write(iter([[change(1, 5)], [change(1, 6, None)], [change(1, 5)]]))
    with client.Redis.from_url(redis) as known:
        assert not known.exists(f"{name}:1")
        assert known.get(f"{name}~deleted:1") == b"6"
        assert 0 < known.pttl(f"{name}~deleted:1") <= 3_600_000
    write(iter([[change(1, 7, "back")]]))
    with client.Redis.from_url(redis) as known:
        assert known.hget(f"{name}:1", "name") == b"back"
        assert not known.exists(f"{name}~deleted:1")


def test_a_row_with_a_ttl_goes_when_it_is_not_written_for_so_long(redis, name):
    store(redis, name, ttl=timedelta(minutes=5))(iter([[change(1, 5)]]))
    with client.Redis.from_url(redis) as known:
        assert 0 < known.pttl(f"{name}:1") <= 300_000


def test_the_name_of_a_key_of_several_columns_cannot_be_that_of_another():
    assert joined([b"a:b%"]) == b"a:b%"
    assert len({joined(parts) for parts in ([b"a:b", b"c"], [b"a", b"b:c"], [b"a%3Ab", b"c"])}) == 3


def test_a_batch_is_written_from_the_executors_and_a_second_time_changes_nothing(spark, redis, name):
    sink = RedisSink(name, key="id", url=redis)
    columns = "id long, name string, operation string, position long"
    told = [(n % 50, f"n{n}", "update", n) for n in range(2000)] + [(3, None, "delete", 5000)]
    found = spark.createDataFrame(told, columns)
    sink.check(found.schema)
    for partitions in (4, 3):
        sink.write(found.repartition(partitions), Batch("test.p", 0, "q", Settings()))
        kept = rows(redis, name)
        assert len(kept) == 49
        assert kept["7"] == {"id": "7", "name": "n1957", "_position": "1957"}


def test_an_instant_can_be_the_version(spark, redis, name):
    sink = RedisSink(name, key="card", version="at", url=redis)
    found = spark.sql(
        "SELECT 'a' AS card, TIMESTAMP'2026-01-01 00:00:01.000002Z' AS at, 2 AS n "
        "UNION ALL SELECT 'a', TIMESTAMP'2026-01-01 00:00:01.000001Z', 1"
    )
    sink.write(found.repartition(2), Batch("test.p", 0, "q", Settings()))
    assert rows(redis, name)["a"]["n"] == "2"


def test_a_redis_that_is_away_is_unreachable_and_says_nothing_of_the_password(monkeypatch):
    monkeypatch.setattr(by_key.time, "sleep", lambda _: None)
    write = store(f"redis://:s3cret@127.0.0.1:{a_free_port()}/0", "orders")
    with pytest.raises(SinkUnreachable, match="Redis cannot be written to") as caught:
        write(iter([[change(1, 1)]]))
    assert "s3cret" not in str(caught.value) + repr(write) + repr(
        RedisSink("a", key="b", url="redis://:s3cret@h")
    )


def test_a_wrong_password_is_refused(redis):
    before, _, after = redis.partition("@")
    with pytest.raises(SinkRefused, match="Redis refuses us") as caught:
        store(f"{before}x@{after}", "orders")(iter([[change(1, 1)]]))
    assert "password" in caught.value.hint


def test_a_url_that_cannot_be_read_is_refused_and_not_repeated():
    with pytest.raises(SinkRefused, match="the URL of Redis cannot be read") as caught:
        store("redis://:s3cret/?@there:6379", "orders")(iter([[change(1, 1)]]))
    assert "s3cret" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_a_copy_in_another_form_is_refused(redis, name):
    store(redis, name)(iter([[change(1, 1)]]))
    with pytest.raises(SinkRefused, match="Redis refuses what it is given") as caught:
        store(redis, name, "json")(iter([[change(1, 2)]]))
    assert "WRONGTYPE" in caught.value.detail


def test_without_a_redis_the_sink_says_how_to_get_one(spark, tmp_path):
    found = spark.createDataFrame([], "id long, operation string, position long")
    with pytest.raises(SpecError, match="no Redis is there for the copy 'orders'") as caught:
        RedisSink("orders", key="id").write(found, Batch("test.p", 0, "q", Settings(home=tmp_path)))
    assert "--with redis" in caught.value.hint


def test_a_spec_that_cannot_be_is_refused():
    with pytest.raises(SpecError, match="cannot be a 'list'"):
        RedisSink("orders", key="id", form="list")
    with pytest.raises(SpecError, match="the ttl of the copy 'orders' must be"):
        RedisSink("orders", key="id", ttl=timedelta(0))


def test_it_is_a_sink_that_is_exactly_once():
    sink = RedisSink("orders", key=["id", "line"])
    assert isinstance(sink, Sink)
    assert (sink.guarantee, sink.name, sink.key) == ("exactly-once", "orders", ("id", "line"))
