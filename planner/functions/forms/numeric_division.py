"""Quotients of numerics, rounded where PostgreSQL rounds them.

PostgreSQL (numeric.c, select_div_scale) gives a quotient at least 16 significant digits: with `w` the estimated
weight of the quotient in groups of four decimal digits, ``scale = max(16 - 4 * w, scales of both sides)``. `w` is the
difference of the operands' weights, less one when the dividend's first group is not larger than the divisor's.

The local engine has no decimal division; it calls a function over text. Spark divides to 38 digits; the value is then
rounded by the same estimate. Each operand is computed once, bound to a name in a lambda, and its digits are looked at
only where the quotient's own size leaves two estimates; where an operand is a subquery, which Spark allows in no
lambda, it is repeated and the estimate uses logarithms.
"""

from __future__ import annotations

from planner.dialects.engine_name import EngineName
from planner.types.types import NumericShape, SqlType


def quotient(
    engine: EngineName, left: NumericShape, right: NumericShape, type: SqlType, *, subquery: bool = False
) -> str | None:
    """A template that divides ``{0}`` by ``{1}``, decimals of these shapes; None when Spark has too few digits.

    `subquery` says that an operand contains a subquery.
    """
    if engine == "local":
        inexact = (not left.exact_scale) + 2 * (not right.exact_scale)
        return f"CAST(tg_numeric_div(CAST({{0}} AS VARCHAR), CAST({{1}} AS VARCHAR), {inexact}) AS {{t}})"
    assert type.shape is not None
    operands = _spark_operands(left, right, type.shape.scale)
    if operands is None:
        return None
    least = max(left.scale if left.exact_scale else 0, right.scale if right.exact_scale else 0)
    if subquery:
        divided = f"CAST(CAST({{0}} AS {operands[0]}) / CAST({{1}} AS {operands[1]}) AS {{t}})"
        return _rounded(divided, _weight_by_logarithm(), least)
    divided = f"CAST(CAST(p.a AS {operands[0]}) / CAST(p.b AS {operands[1]}) AS {{t}})"
    return (
        "transform(transform(array(named_struct('a', {0}, 'b', {1})), "
        f"p -> named_struct('a', p.a, 'b', p.b, 'd', {divided})), "
        f"r -> {_rounded_by_size(type.shape, least, _same_first_group(left.scale, right.scale))})[0]"
    )


def _rounded(divided: str, weight: str, least: int) -> str:
    """`divided` rounded to the scale that `weight` gives; Spark's round wants a constant scale."""
    rounds = "".join(f" WHEN {w} THEN CAST(round({divided}, {max(16 - 4 * w, least)}) AS {{t}})" for w in range(-1, 5))
    return f"CASE least({weight}, 4){rounds} ELSE {divided} END"


def _rounded_by_size(shape: NumericShape, least: int, same_first_group: str) -> str:
    """The quotient r.d rounded to the scale that its own weight gives.

    With m the weight of the quotient's value, PostgreSQL's estimate is m, but m - 1 where the first groups of both
    operands are equal and the quotient is at least 10000^m; it is then less than twice that.
    """

    def rounded(weight: int) -> str:
        scale = max(16 - 4 * min(weight, 4), least)
        return "r.d" if scale >= shape.scale else f"CAST(round(r.d, {scale}) AS {{t}})"

    cases = ""
    for weight in range(5, -2, -1):
        if 4 * weight >= shape.precision - shape.scale:
            continue
        power = f"1{'0' * 4 * weight}" if weight >= 0 else f"0.{'0' * (-4 * weight - 1)}1"
        usual, less = rounded(weight), rounded(weight - 1)
        if usual != less:
            twice = f"abs(r.d) < CAST('{power.replace('1', '2')}' AS {{t}})"
            usual = f"CASE WHEN {twice} AND {same_first_group} THEN {less} ELSE {usual} END"
        cases += f" WHEN abs(r.d) >= CAST('{power}' AS {{t}}) THEN {usual}"
    return f"CASE{cases} ELSE {rounded(-2)} END" if cases else rounded(-2)


def _same_first_group(left_scale: int, right_scale: int) -> str:
    """Whether the first groups of four decimal digits of r.a and r.b are the same number."""

    def group(sql: str, scale: int) -> str:
        digits = f"trim(LEADING '0' FROM replace(CAST(abs({sql}) AS STRING), '.', ''))"
        # The leading digit stands for 10^exponent; & 3 is modulo 4 also below zero.
        return f"CAST(rpad({digits}, ((length({digits}) - {scale + 1}) & 3) + 1, '0') AS INT)"

    return f"{group('r.a', left_scale)} = {group('r.b', right_scale)}"


def _weight_by_logarithm() -> str:
    def weight(place: str) -> str:
        return f"CAST(floor(log10(CAST(abs({place}) AS DOUBLE)) / 4D) AS INT)"

    def group(place: str) -> str:
        return f"floor(CAST(abs({place}) AS DOUBLE) / power(10D, 4 * {weight(place)}))"

    difference = f"{weight('{0}')} - {weight('{1}')} - CASE WHEN {group('{0}')} <= {group('{1}')} THEN 1 ELSE 0 END"
    return f"CASE WHEN {{0}} <> 0 AND {{1}} <> 0 THEN {difference} END"


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
                return f"DECIMAL({whole + left_scale},{left_scale})", f"DECIMAL({right.precision},{right.scale})"
    return None
