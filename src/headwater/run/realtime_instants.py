"""Texts of instants and local times as the codec reads them, in Spark's expressions.

Counted by hand: a cast would cut off the fraction's seventh digit, knows no zone beyond 18 hours, and takes
texts that the codec does not. Null is what is none, and what lies outside the years 1 to 9999.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F

DAY = r"(?!0000)\d{4}-\d{2}-\d{2}"
_MOMENT = rf"^{DAY}[Tt ]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?"
_ZONE = r"([Zz]|[+-]([01]\d|2[0-3]):?[0-5]\d)$"
_FIRST, _LAST = "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"


def instant(text: Column) -> Column:
    """The instant of a text with a zone."""
    clock = F.unix_micros(_clock(text, "Z").try_cast("timestamp"))
    at = F.timestamp_micros(clock + _micros(text) - _ahead(text))
    is_dated = at.between(F.lit(_FIRST).cast("timestamp"), F.lit(_LAST).cast("timestamp"))
    return F.when(text.rlike(_MOMENT + _ZONE) & is_dated, at)


def local(text: Column) -> Column:
    """The date and time of a text without a zone."""
    at = _clock(text, "").try_cast("timestamp_ntz") + F.make_dt_interval(secs=_micros(text) / 1_000_000)
    return F.when(text.rlike(f"{_MOMENT}$") & (at < F.lit("10000-01-01").cast("timestamp_ntz")), at)


def _clock(text: Column, zone: str) -> Column:
    """Date and time to the second; both stand at fixed places."""
    return F.concat(F.substring(text, 1, 10), F.lit("T"), F.substring(text, 12, 8), F.lit(zone))


def _micros(text: Column) -> Column:
    """The fraction of the second in microseconds, rounded by its seventh digit."""
    digits = F.substring(F.rpad(F.regexp_extract(text, r"\.(\d+)", 1), 7, "0"), 1, 7)
    return F.floor((digits.try_cast("int") + 5) / 10)


def _ahead(text: Column) -> Column:
    """How far the zone is ahead of UTC, in microseconds; 0 for Z, which is seen at once."""
    sign, hours, minutes = (F.regexp_extract(text, r"([+-])(\d{2}):?(\d{2})$", one) for one in (1, 2, 3))
    ahead = hours.try_cast("long") * 60 + minutes.try_cast("long")
    away = F.when(sign == "-", -ahead).otherwise(ahead) * 60_000_000
    return F.when(F.lower(F.right(text, F.lit(1))) == "z", F.lit(0)).otherwise(away)
