"""Errors of tasks, read back from Spark's words."""

from headwater.errors import KeyMissing, WriterFenced
from headwater.sink.failures import said_in, spoken


def test_an_error_comes_back_as_it_was_raised():
    error = WriterFenced("another writer took over", detail="first\nsecond", hint="stop it")
    found = said_in(
        f"Job aborted\nTraceback (most recent call last):\n  File x\n{spoken(error)}\n\n\tat org.x"
    )
    assert type(found) is WriterFenced
    assert (found.message, found.detail, found.hint) == (
        "another writer took over",
        "first\nsecond",
        "stop it",
    )


def test_the_last_of_several_errors_is_the_one_that_was_raised():
    text = "\nThe above exception was the direct cause\n".join(
        spoken(one) for one in (WriterFenced("one"), KeyMissing("two"))
    )
    assert type(said_in(text)) is KeyMissing


def test_words_that_are_not_ours_stay_spark_errors():
    assert said_in("java.lang.OutOfMemoryError: Java heap space") is None
    assert said_in("headwater.errors.Nonsense: x [nonsense]") is None
