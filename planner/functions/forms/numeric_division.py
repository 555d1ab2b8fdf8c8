"""Quotients of numerics, rounded where PostgreSQL rounds them.

PostgreSQL (numeric.c, select_div_scale) gives a quotient at least 16 significant digits: with `w` the estimated
weight of the quotient in groups of four decimal digits, ``scale = max(16 - 4 * w, scales of both sides)``. `w` is the
difference of the operands' weights, less one when the dividend's first group is not larger than the divisor's.

The result is wide: its text shows the scale. The local engine has no decimal division; it calls a function over text,
as both do where an operand is wide itself. Spark divides decimals to 38 digits; the value is then rounded by the same
estimate. Each operand is computed once, bound to a name in a lambda, and its digits are looked at only where the
quotient's own size leaves two estimates; where an operand is a subquery, which Spark allows in no lambda, it is
repeated and the estimate uses logarithms.
"""

from __future__ import annotations

from planner.dialects.engine_name import EngineName
from planner.dialects.of_engine import dialect_of
from planner.types.types import NUMERIC, NumericShape, SqlType

QUOTIENT_SCALE = 20
"""PostgreSQL gives a quotient at least 16 significant digits, in groups of 4: 20 fraction digits below 1."""
WIDE_QUOTIENT_SCALE = 24
"""For quotients whose whole part is known to be short: 24 fraction digits below 0.0001."""


MAX_OPERAND_SCALE = 12
"""Operands of more fraction digits may have quotients too small for a decimal to hold their digits."""


def quotient(engine: EngineName, left: NumericShape, right: NumericShape, *, subquery: bool = False) -> str | None:
    """A template that divides ``{0}`` by ``{1}``, numerics of these shapes.

    `subquery` says that an operand contains a subquery.
    """
    operands, scale = None, 0
    decimals = left.exact_scale and right.exact_scale and max(left.scale, right.scale) <= MAX_OPERAND_SCALE
    if engine == "spark" and decimals:
        whole = left.precision - left.scale + right.scale
        scale = max(left.scale, right.scale, min(WIDE_QUOTIENT_SCALE, max(QUOTIENT_SCALE, 38 - whole)))
        operands = _spark_operands(left, right, scale)
    if operands is None:
        dialect = dialect_of(engine)
        types = [SqlType(NUMERIC, -1, shape) for shape in (left, right)]
        return dialect.python("tg_numeric_div", dialect.shown("{0}", types[0]), dialect.shown("{1}", types[1]))
    least = max(left.scale, right.scale)
    if subquery:
        divided = f"CAST(CAST({{0}} AS {operands[0]}) / CAST({{1}} AS {operands[1]}) AS DECIMAL(38,{scale}))"
        return _by_weight(divided, _weight_by_logarithm("{0}", "{1}"), least, scale)
    divided = f"CAST(CAST(p.a AS {operands[0]}) / CAST(p.b AS {operands[1]}) AS DECIMAL(38,{scale}))"
    return (
        "transform(transform(array(named_struct('a', {0}, 'b', {1})), "
        f"p -> named_struct('a', p.a, 'b', p.b, 'd', {divided})), "
        f"r -> {_by_size(scale, least, _same_first_group(left.scale, right.scale))})[0]"
    )


def _shown(divided: str, weight: int, least: int, scale: int) -> str:
    """The text of a quotient, a decimal of `scale`, rounded to the scale that its weight gives."""
    wanted = max(16 - 4 * weight, least)
    if wanted >= scale:
        return f"CAST({divided} AS STRING)"
    return f"CAST(CAST(round({divided}, {wanted}) AS DECIMAL(38,{wanted})) AS STRING)"


def _by_weight(divided: str, weight: str, least: int, scale: int) -> str:
    """The text of a quotient whose weight is an expression; Spark's round wants a constant scale."""
    rounds = "".join(f" WHEN {w} THEN {_shown(divided, w, least, scale)}" for w in range(-2, 5))
    return f"CASE greatest(least({weight}, 4), -2){rounds} END"


def _by_size(scale: int, least: int, same_first_group: str) -> str:
    """The text of the quotient r.d, rounded to the scale that its own weight gives.

    With m the weight of the quotient's value, PostgreSQL's estimate is m, but m - 1 where the first groups of both
    operands are equal and the quotient is at least 10000^m; it is then less than twice that.
    """

    def rounded(weight: int) -> str:
        return _shown("r.d", min(weight, 4), least, scale)

    cases = ""
    for weight in range(5, -2, -1):
        if 4 * weight >= 38 - scale:
            continue
        power = f"1{'0' * 4 * weight}" if weight >= 0 else f"0.{'0' * (-4 * weight - 1)}1"
        usual, less = rounded(weight), rounded(weight - 1)
        if usual != less:
            twice = f"abs(r.d) < CAST('{power.replace('1', '2')}' AS DECIMAL(38,{scale}))"
            usual = f"CASE WHEN {twice} AND {same_first_group} THEN {less} ELSE {usual} END"
        cases += f" WHEN abs(r.d) >= CAST('{power}' AS DECIMAL(38,{scale})) THEN {usual}"
    zero = _by_weight("r.d", f"-1 - {_weight('r.b')}", least, scale)
    return f"CASE WHEN r.a = 0 THEN {zero}{cases} ELSE {rounded(-2)} END"


def _same_first_group(left_scale: int, right_scale: int) -> str:
    """Whether the first groups of four decimal digits of r.a and r.b are the same number."""

    def group(sql: str, scale: int) -> str:
        digits = f"trim(LEADING '0' FROM replace(CAST(abs({sql}) AS STRING), '.', ''))"
        # The leading digit stands for 10^exponent; & 3 is modulo 4 also below zero.
        return f"CAST(rpad({digits}, ((length({digits}) - {scale + 1}) & 3) + 1, '0') AS INT)"

    return f"{group('r.a', left_scale)} = {group('r.b', right_scale)}"


def _weight(number: str) -> str:
    """The power of 10000 of a number's first group of digits; NULL of zero."""
    # NOTE: not nullif(): see `planner.functions.families.aggregates`.
    return f"CAST(floor(log10(CAST(CASE WHEN {number} <> 0 THEN abs({number}) END AS DOUBLE)) / 4D) AS INT)"


def _weight_by_logarithm(left: str, right: str) -> str:
    def group(place: str) -> str:
        return f"floor(CAST(abs({place}) AS DOUBLE) / power(10D, 4 * {_weight(place)}))"

    difference = f"{_weight(left)} - {_weight(right)} - CASE WHEN {group(left)} <= {group(right)} THEN 1 ELSE 0 END"
    return f"CASE WHEN {left} = 0 THEN -1 - {_weight(right)} ELSE {difference} END"


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
