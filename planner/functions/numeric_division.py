"""Quotients of numerics, rounded where PostgreSQL rounds them.

PostgreSQL (numeric.c, select_div_scale) gives a quotient at least 16 significant digits: with `w` the estimated weight of
the quotient in groups of four decimal digits, ``scale = max(16 - 4 * w, scales of both sides)``. `w` is the difference
of the operands' weights, less one when the dividend's first group is not larger than the divisor's.

The local engine has no decimal division; it calls a function over text. Spark divides exactly to 38 digits; the value
is then rounded by the same estimate, written in SQL.
"""

from __future__ import annotations

from planner.functions.forms import EngineName
from planner.types import NumericShape, SqlType


def quotient(engine: EngineName, left: NumericShape, right: NumericShape, type: SqlType) -> str | None:
    """A template that divides ``{0}`` by ``{1}``, decimals of these shapes; None when Spark has too few digits."""
    if engine == "local":
        inexact = (not left.exact_scale) + 2 * (not right.exact_scale)
        return f"CAST(tg_numeric_div(CAST({{0}} AS VARCHAR), CAST({{1}} AS VARCHAR), {inexact}) AS {{t}})"
    assert type.shape is not None
    operands = _spark_operands(left, right, type.shape.scale)
    if operands is None:
        return None
    dividend, divisor = operands
    divided = f"CAST(CAST({{0}} AS {dividend}) / CAST({{1}} AS {divisor}) AS {{t}})"
    least = max(left.scale if left.exact_scale else 0, right.scale if right.exact_scale else 0)
    weight = f"({_weight('{0}')} - {_weight('{1}')} - CASE WHEN {_first_group('{0}')} <= {_first_group('{1}')} THEN 1 ELSE 0 END)"
    rounds = "".join(
        f" WHEN {index} THEN CAST(round({divided}, {max(16 - 4 * index, least)}) AS {{t}})" for index in range(-1, 4)
    )
    return (
        f"CASE WHEN {{0}} = 0 OR {{1}} = 0 THEN {divided} ELSE CASE least(greatest({weight}, -2), 4){rounds} "
        f"WHEN 4 THEN CAST(round({divided}, {least}) AS {{t}}) ELSE {divided} END END"
    )


def _weight(place: str) -> str:
    magnitude = f"CAST(abs({place}) AS DOUBLE)"
    steps = "".join(f" WHEN {magnitude} >= 1e{4 * weight}D THEN {weight}" for weight in range(8, -3, -1))
    return f"CASE{steps} ELSE -3 END"


def _first_group(place: str) -> str:
    return f"floor(CAST(abs({place}) AS DOUBLE) / power(10D, 4 * {_weight(place)}))"


def _spark_operands(left: NumericShape, right: NumericShape, scale: int) -> tuple[str, str] | None:
    """DECIMAL types of both sides for which Spark's own rule keeps at least `scale` fraction digits.

    Spark (decimalOperations.allowPrecisionLoss=false): with i = p1 - s1 + s2 whole and d = max(6, s1 + p2 + 1) fraction
    digits, both at most 38, the fraction gets d - ((i + d - 38) / 2 + 1) when they exceed 38 together.
    """
    for spare in range(20):
        whole = max(min(18, left.precision - left.scale), left.precision - left.scale - spare)
        for left_scale in range(left.scale, 39 - whole):
            int_digits = min(38, whole + right.scale)
            fraction = min(38, max(6, left_scale + right.precision + 1))
            excess = int_digits + fraction - 38
            if excess > 0:
                fraction -= excess // 2 + 1
            if fraction >= scale:
                return (
                    f"DECIMAL({whole + left_scale},{left_scale})",
                    f"DECIMAL({right.precision},{right.scale})",
                )
    return None
