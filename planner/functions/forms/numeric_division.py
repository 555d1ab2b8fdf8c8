"""Quotients of numerics, rounded where PostgreSQL rounds them.

PostgreSQL (numeric.c, select_div_scale) gives a quotient at least 16 significant digits: with `w` the estimated
weight of the quotient in groups of four decimal digits, ``scale = max(16 - 4 * w, scales of both sides)``. `w` is the
difference of the operands' weights, less one when the dividend's first group is not larger than the divisor's.

The result is wide: its text shows the scale. The local engine has no decimal division; it divides the operands' digits
as integers of 128 bits, and where these do not hold the quotient's calls a function over text, as both engines do where
an operand is wide itself. Spark divides decimals to 38 digits; the value is then rounded by the same
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

LARGE_QUOTIENT_SCALE = 4
"""For quotients from 10^12 upward, for which a decimal of the other scales has no room: 4 fraction digits, and none
from 10^16."""

MAX_OPERAND_SCALE = 12
"""Operands of more fraction digits may have quotients too small for a decimal to hold their digits."""


def quotient(
    engine: EngineName,
    left: NumericShape,
    right: NumericShape,
    *,
    subquery: bool = False,
    whole_digits: int | None = None,
) -> str | None:
    """A template that divides ``{0}`` by ``{1}``, numerics of these shapes.

    `subquery` says that an operand contains a subquery; `whole_digits`, how many a quotient has before the point at
    most, where the divisor is a number of values.
    """
    operands, scale = None, 0
    decimals = left.exact_scale and right.exact_scale and max(left.scale, right.scale) <= MAX_OPERAND_SCALE
    whole = left.precision - left.scale + right.scale if whole_digits is None else whole_digits
    if engine == "spark" and decimals:
        scale = _scale(left, right, whole)
        operands = _spark_operands(left, right, scale)
    if operands is None:
        dialect = dialect_of(engine)
        types = [SqlType(NUMERIC, -1, shape) for shape in (left, right)]
        of_texts = dialect.python("tg_numeric_div", dialect.shown("{0}", types[0]), dialect.shown("{1}", types[1]))
        return f"coalesce({_of_digits(left, right)}, {of_texts})" if engine == "local" and decimals else of_texts
    least = max(left.scale, right.scale)
    if subquery:
        divided = _divided("{0}", "{1}", operands, scale)
        return _by_weight(divided, _weight_by_logarithm("{0}", "{1}"), least, scale)
    divided = _divided("p.a", "p.b", operands, scale)
    same_group = _same_first_group(left.scale, right.scale)
    shown = _by_size("r.d", scale, least, same_group)
    large_scale = max(least, LARGE_QUOTIENT_SCALE)
    of_large = None if whole_digits is None or whole_digits <= 38 - scale else _spark_operands(left, right, large_scale)
    if of_large is None:
        return (
            "transform(transform(array(named_struct('a', {0}, 'b', {1})), "
            f"p -> named_struct('a', p.a, 'b', p.b, 'd', {divided})), r -> {shown})[0]"
        )
    large = _divided("p.a", "p.b", of_large, large_scale)
    room, held = 38 - scale - 1, _whole_digits(operands[0])
    fits = f"abs(p.a) < {_ten(min(room, held))} OR (abs(p.a) < {_ten(held)} AND abs({large}) < {_ten(room)})"
    # Two fields, as their scales differ.
    return (
        "transform(transform(array(named_struct('a', {0}, 'b', {1})), "
        f"p -> named_struct('a', p.a, 'b', p.b, 'd', CASE WHEN {fits} THEN {divided} END, "
        f"'e', CASE WHEN {fits} THEN NULL ELSE {large} END)), "
        f"r -> CASE WHEN r.e IS NULL THEN {shown} ELSE {_by_size('r.e', large_scale, least, same_group)} END)[0]"
    )


def _scale(left: NumericShape, right: NumericShape, whole_digits: int) -> int:
    """The scale of the decimals that Spark computes quotients as."""
    return max(left.scale, right.scale, min(WIDE_QUOTIENT_SCALE, max(QUOTIENT_SCALE, 38 - whole_digits)))


def number_scale(left: NumericShape, right: NumericShape, whole_digits: int) -> int | None:
    """The scale of `quotient_number`; None where Spark has no room for it."""
    if not left.exact_scale or not right.exact_scale or max(left.scale, right.scale) > MAX_OPERAND_SCALE:
        return None
    scale = _scale(left, right, whole_digits)
    return None if whole_digits > 38 - scale or _spark_operands(left, right, scale) is None else scale


def quotient_number(left: NumericShape, right: NumericShape, whole_digits: int) -> str:
    """A template of Spark's for the value of the quotient alone, as a decimal of `number_scale`, which there is."""
    scale = number_scale(left, right, whole_digits)
    assert scale is not None
    operands = _spark_operands(left, right, scale)
    assert operands is not None
    divided = _divided("p.a", "p.b", operands, scale)
    same_group = _same_first_group(left.scale, right.scale)
    return (
        "transform(transform(array(named_struct('a', {0}, 'b', {1})), "
        f"p -> named_struct('a', p.a, 'b', p.b, 'd', {divided})), "
        f"r -> {_by_size('r.d', scale, max(left.scale, right.scale), same_group, number=True)})[0]"
    )


def _divided(left: str, right: str, operands: tuple[str, str], scale: int) -> str:
    """Spark's quotient as a decimal of `scale`."""
    return f"CAST(CAST({left} AS {operands[0]}) / CAST({right} AS {operands[1]}) AS DECIMAL(38,{scale}))"


def _whole_digits(decimal: str) -> int:
    """The digits before the point that a DECIMAL type has."""
    precision, scale = decimal.removeprefix("DECIMAL(").removesuffix(")").split(",")
    return int(precision) - int(scale)


def _ten(exponent: int) -> str:
    """Spark's constant 10^exponent."""
    return f"CAST('1{'0' * exponent}' AS DECIMAL({exponent + 1},0))"


_HUGE_DIGITS = 38
"""An integer of 128 bits holds all numbers of so many digits."""


def _power(exponent: str) -> str:
    """10 to a power that an integer of 128 bits holds."""
    return f"CAST(rpad('1', CAST({exponent} AS INTEGER) + 1, '0') AS HUGEINT)"


def _digits(place: str, shape: NumericShape) -> str:
    """The digits of a decimal's absolute value, as an integer of 128 bits."""
    if shape.precision + shape.scale + 1 <= _HUGE_DIGITS:
        return f"CAST(abs({place}) * CAST({10**shape.scale} AS DECIMAL({shape.scale + 1},0)) AS HUGEINT)"
    return f"CAST(replace(CAST(abs({place}) AS VARCHAR), '.', '') AS HUGEINT)"


def _of_digits(left: NumericShape, right: NumericShape) -> str:
    """The local engine's quotient of decimals; NULL where an integer of 128 bits does not hold twice its digits, and
    where the divisor is 0."""

    def weight(digits: str, scale: int) -> str:
        return f"CAST(floor((length(CAST({digits} AS VARCHAR)) - {1 + scale}) / 4.0) AS BIGINT)"

    def first_group(digits: str, weight: str, scale: int) -> str:
        cut, added = f"{scale} + 4 * {weight}", f"-({scale} + 4 * {weight})"
        return (
            f"CASE WHEN {cut} >= 0 THEN {digits} // {_power(f'greatest({cut}, 0)')} "
            f"ELSE {digits} * {_power(f'greatest({added}, 0)')} END"
        )

    operands = f"struct_pack(s := sign({{0}}) * sign({{1}}), a := {_digits('{0}', left)}, b := {_digits('{1}', right)})"
    weights = (
        "struct_pack(s := p.s, a := p.a, b := p.b, n := length(CAST(p.a AS VARCHAR)), "
        f"v := CASE WHEN p.a = 0 THEN 0 ELSE {weight('p.a', left.scale)} END, w := {weight('p.b', right.scale)})"
    )
    less = f"{first_group('q.a', 'q.v', left.scale)} <= {first_group('q.b', 'q.w', right.scale)}"
    estimate = f"16 - 4 * (q.v - q.w - CASE WHEN {less} THEN 1 ELSE 0 END)"
    scale = f"greatest({estimate}, {max(left.scale, right.scale)})"
    scaled = f"struct_pack(s := q.s, a := q.a, b := q.b, n := q.n, r := {scale})"
    shift = f"r.r + {right.scale - left.scale}"
    divided = (
        f"struct_pack(s := r.s, r := r.r, d := CASE WHEN r.n + {shift} <= {_HUGE_DIGITS - 2} "
        f"THEN (2 * r.a * {_power(f'({shift})')} + r.b) // (2 * r.b) END)"
    )
    fraction = f"lpad(CAST(d.d % {_power('d.r')} AS VARCHAR), CAST(d.r AS INTEGER), '0')"
    shown = (
        "CASE WHEN d.d IS NOT NULL THEN CASE WHEN d.s < 0 AND d.d <> 0 THEN '-' ELSE '' END || "
        f"CAST(d.d // {_power('d.r')} AS VARCHAR) || CASE WHEN d.r = 0 THEN '' ELSE '.' || {fraction} END END"
    )
    result = f"[{operands}]"
    for name, step in (("p", weights), ("q", scaled), ("r", divided), ("d", shown)):
        result = f"list_transform({result}, lambda {name}: {step})"
    return f"({result})[1]"


def _rounded(divided: str, weight: int, least: int, scale: int) -> str:
    """A quotient, a decimal of `scale`, rounded to the scale that its weight gives."""
    wanted = max(16 - 4 * weight, least)
    return divided if wanted >= scale else f"CAST(round({divided}, {wanted}) AS DECIMAL(38,{scale}))"


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


def _by_size(place: str, scale: int, least: int, same_first_group: str, *, number: bool = False) -> str:
    """The text of the quotient at `place`, rounded to the scale that its own weight gives; with `number` the decimal.

    With m the weight of the quotient's value, PostgreSQL's estimate is m, but m - 1 where the first groups of both
    operands are equal and the quotient is at least 10000^m; it is then less than twice that.
    """

    def rounded(weight: int) -> str:
        return (_rounded if number else _shown)(place, min(weight, 4), least, scale)

    cases = ""
    for weight in range(5, -2, -1):
        if 4 * weight >= 38 - scale:
            continue
        power = f"1{'0' * 4 * weight}" if weight >= 0 else f"0.{'0' * (-4 * weight - 1)}1"
        usual, less = rounded(weight), rounded(weight - 1)
        if usual != less:
            twice = f"abs({place}) < CAST('{power.replace('1', '2')}' AS DECIMAL(38,{scale}))"
            usual = f"CASE WHEN {twice} AND {same_first_group} THEN {less} ELSE {usual} END"
        cases += f" WHEN abs({place}) >= CAST('{power}' AS DECIMAL(38,{scale})) THEN {usual}"
    if number:
        return f"CASE{cases} ELSE {rounded(-2)} END" if cases else rounded(-2)
    zero = _by_weight(place, f"-1 - {_weight('r.b')}", least, scale)
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
