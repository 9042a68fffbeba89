"""Records brought from known places: whole, wherever they lie, and nothing else."""

from itertools import pairwise

from confluent_kafka import TopicPartition
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from headwater import Log, Settings, Topic
from headwater.log.letter import instant
from headwater.run.originals import LEAP, PIECE, originals, pieces

PLACES = st.sets(st.tuples(st.integers(0, 3), st.integers(0, 5 * PIECE)), max_size=60)


@given(PLACES)
def test_every_place_is_in_one_piece(places: set[tuple[int, int]]) -> None:
    found = [(piece.partition, offset) for piece in pieces(places) for offset in piece.offsets]

    assert found == sorted(places)


@given(PLACES)
def test_a_piece_has_no_gap_worth_a_leap_and_an_end(places: set[tuple[int, int]]) -> None:
    for piece in pieces(places):
        assert all(later - earlier <= LEAP for earlier, later in pairwise(piece.offsets))
        assert piece.offsets[-1] - piece.offsets[0] < PIECE + LEAP


def test_records_come_back_as_they_were(spark: SparkSession, log: Log, system: Settings, name: str) -> None:
    topic = Topic(name, schema="n long")
    log.topics.create(topic)
    with log.writer() as writer:
        for number in range(100):
            writer.append_bytes(name, f"value {number}".encode(), key=b"k")
        writer.append_bytes(name, None, headers={"why": b"\x00", "empty": None})

    found = originals(spark, name, [(0, 3), (0, 99), (0, 100)], system)

    assert {place: (one["key"], one["value"]) for place, one in found.items()} == {
        (0, 3): (b"k", b"value 3"),
        (0, 99): (b"k", b"value 99"),
        (0, 100): (None, None),
    }
    assert found[0, 100]["headers"] == [{"key": "why", "value": b"\x00"}, {"key": "empty", "value": None}]
    assert instant(found[0, 3]["millis"]) == next(
        one.appended_at for one in log.read(name) if one.offset == 3
    )


def test_what_is_gone_is_not_there(spark: SparkSession, log: Log, system: Settings, name: str) -> None:
    topic = Topic(name, schema="n long")
    log.topics.create(topic)
    with log.writer() as writer:
        for number in range(10):
            writer.append_bytes(name, str(number).encode())
    for future in log._connection.admin.delete_records([TopicPartition(name, 0, 5)]).values():
        future.result(10)

    assert set(originals(spark, name, [(0, 1), (0, 7)], system)) == {(0, 7)}
    assert originals(spark, name, [(0, 1)], system) == {}
    assert originals(spark, name, [], system) == {}
