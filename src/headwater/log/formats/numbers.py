"""Numbers in formats with fixed widths: held, or refused; never cut off in silence.

JSON writes any number; Avro and Protobuf give a decimal its scale and a float its 32 bits. A float
is rounded to what 32 bits hold, as Spark does; one that is too large for them is refused.
"""

from decimal import ROUND_HALF_EVEN, Context, Decimal, DecimalException, Inexact, InvalidOperation

from pyspark.sql import types as spark

LARGEST_SINGLE = 3.4028235677973366e38  # what rounds to the largest float of 32 bits, not beyond


def exact_decimal(value: Decimal, kind: spark.DecimalType) -> Decimal:
    """The decimal with exactly the type's scale; ValueError when that would change it."""
    context = Context(prec=kind.precision, rounding=ROUND_HALF_EVEN, traps=[Inexact, InvalidOperation])
    try:
        scaled = value.quantize(Decimal(1).scaleb(-kind.scale), context=context)
    except DecimalException as error:
        raise ValueError(f"{value} does not fit {kind.simpleString()}") from error
    if not scaled.is_finite():
        raise ValueError(f"{value} does not fit {kind.simpleString()}")
    return scaled


def single(value: float) -> float:
    """A float that 32 bits can hold; ValueError when it is too large."""
    if abs(value) >= LARGEST_SINGLE:
        raise ValueError(f"{value} does not fit float")
    return value
