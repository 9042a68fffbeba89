"""Decimals in formats that give them a scale: held to the digit, or refused; never cut off in silence."""

from decimal import ROUND_HALF_EVEN, Context, Decimal, DecimalException, Inexact, InvalidOperation

from pyspark.sql import types as spark


def exact_decimal(value: Decimal, kind: spark.DecimalType) -> Decimal:
    """The decimal with exactly the type's scale; ValueError when that would change it."""
    context = Context(prec=kind.precision, rounding=ROUND_HALF_EVEN, traps=[Inexact, InvalidOperation])
    try:
        return value.quantize(Decimal(1).scaleb(-kind.scale), context=context)
    except DecimalException as error:
        raise ValueError(f"{value} does not fit {kind.simpleString()}") from error
