"""Quotients of numerics, rounded where PostgreSQL rounds them.

PostgreSQL (numeric.c, select_div_scale) gives a quotient at least 16 significant digits: with `w` the estimated
weight of the quotient in groups of four decimal digits, ``scale = max(16 - 4 * w, scales of both sides)``. `w` is the
difference of the operands' weights, less one when the dividend's first group is not larger than the divisor's.

The result is wide: its text shows the scale. The local engine has no decimal division; it divides the operands' digits
as integers of 128 bits, and where these do not hold the quotient's calls a function over text, as both engines do where
an operand is wide itself. Spark divides decimals to 38 digits, small quotients by way of the dividend times a power
of ten; the value is then rounded by the same estimate. Each operand is computed once, bound to a name in a lambda, and
its digits are looked at only where the quotient's own size leaves two estimates; where an operand is a subquery, which
Spark allows in no lambda, it is repeated, the estimate uses logarithms, and there is one way alone: quotients below
10^-8 have fewer digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

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

LEAST_DIVIDEND = 8
"""Where dividends of a type with many digits have small quotients, those of so many whole digits have all of theirs."""

MAX_LOWER_RUNGS = 2
"""An expression has so many ways for small quotients at most; what is below them, for types of many digits alone, is
shown with the digits of the last."""

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
        operands = _spark_operands(left, right, scale, whole)
    if operands is None:
        dialect = dialect_of(engine)
        types = [SqlType(NUMERIC, -1, shape) for shape in (left, right)]
        of_texts = dialect.python("tg_numeric_div", dialect.shown("{0}", types[0]), dialect.shown("{1}", types[1]))
        return f"coalesce({_of_digits(left, right)}, {of_texts})" if engine == "local" and decimals else of_texts
    least = max(left.scale, right.scale)
    rungs = [_Rung(0, scale, operands), *_lower_rungs(left, right, scale)]
    large_scale = max(least, LARGE_QUOTIENT_SCALE)
    of_large = None if whole <= 38 - scale else _spark_operands(left, right, large_scale, whole)
    above = [] if of_large is None else [_Rung(0, large_scale, of_large)]
    if subquery:
        return _by_weight(rungs[0], "{0}", "{1}", _weight_by_logarithm("{0}", "{1}"), least)
    zero = _zero("r.b", right.scale, least)
    same_group = _same_first_group(left.scale, right.scale)
    shown = f"CASE WHEN r.a = 0 AND r.b IS NOT NULL THEN {zero} ELSE {_by_size('r.d', rungs, least, same_group)} END"
    divided = rungs[0].divided("p.a", "p.b")
    if not above:
        return (
            "transform(transform(array(named_struct('a', {0}, 'b', {1})), "
            f"p -> named_struct('a', p.a, 'b', p.b, 'd', {divided})), r -> {shown})[0]"
        )
    large = above[0].divided("p.a", "p.b")
    room, held = 38 - scale - 1, _whole_digits(operands[0])
    fits = f"abs(p.a) < {_ten(held)} AND abs({large}) < {_ten(room)}"
    if whole_digits is not None:
        fits = f"abs(p.a) < {_ten(min(room, held))} OR ({fits})"
    # Two fields, as their scales differ.
    return (
        "transform(transform(array(named_struct('a', {0}, 'b', {1})), "
        f"p -> named_struct('a', p.a, 'b', p.b, 'd', CASE WHEN {fits} THEN {divided} END, "
        f"'e', CASE WHEN {fits} THEN NULL ELSE {large} END)), "
        f"r -> CASE WHEN r.e IS NULL THEN {shown} ELSE {_by_size('r.e', above, least, same_group)} END)[0]"
    )


class _Rung(NamedTuple):
    """A way in which Spark computes quotients: of the dividend times 10^`shift`, as a decimal of `scale`.

    A decimal of 38 digits does not hold the digits of all quotients. One rung has those of quotients from 10^(4 *
    `lowest`) upward, the next one those below, and so on.
    """

    shift: int
    scale: int
    operands: tuple[str, str]
    limit: int | None = None
    """It is for dividends below 10^`limit`; None: for all that there are."""

    @property
    def lowest(self) -> int:
        """The lowest weight of quotients all of whose digits it has, also where the estimate is one less."""
        return -((self.scale + self.shift - 20) // 4)

    def divided(self, left: str, right: str) -> str:
        """The quotient times 10^`shift`."""
        if self.shift:
            left = f"{left} * {_ten(self.shift)}"
        return _divided(left, right, self.operands, self.scale)

    def limited(self, dividend: str, shown: str, otherwise: str) -> str:
        """What is `shown` of dividends that the rung is for."""
        fits = None if self.limit is None else f"abs({dividend}) < {_ten(self.limit)}"
        return shown if fits is None else f"CASE WHEN {fits} THEN {shown} ELSE {otherwise} END"

    def constant(self, exponent: int, digit: int = 1) -> str:
        """`digit` * 10^`exponent`, times 10^`shift`."""
        place = exponent + self.shift
        power = f"{digit}{'0' * place}" if place >= 0 else f"0.{'0' * (-place - 1)}{digit}"
        return f"CAST('{power}' AS DECIMAL(38,{self.scale}))"

    def shown(self, divided: str, weight: int, least: int) -> str:
        """The text of what `divided` gave, rounded to the scale of a quotient of this estimated weight."""
        wanted = max(16 - 4 * weight, least) - self.shift
        rounded = divided if wanted >= self.scale else f"CAST(round({divided}, {wanted}) AS DECIMAL(38,{wanted}))"
        if not self.shift:
            return f"CAST({rounded} AS STRING)"
        digits = f"replace(CAST(abs({rounded}) AS STRING), '.', '')"
        sign = f"CASE WHEN {divided} < 0 THEN '-0.' ELSE '0.' END"
        return f"{sign} || lpad({digits}, {min(wanted, self.scale) + self.shift}, '0')"


def _lower_rungs(left: NumericShape, right: NumericShape, scale: int) -> list[_Rung]:
    """Those for quotients whose digits a decimal of `scale` does not hold, down to the smallest that the shapes allow
    or that Spark has room for."""
    rungs: list[_Rung] = []
    rung: _Rung | None = _Rung(0, scale, ("", ""))
    smallest = -(left.scale + right.precision - right.scale)
    while rung is not None and 4 * rung.lowest > smallest and len(rungs) < MAX_LOWER_RUNGS:
        rung = _lower_rung(left, right, rung)
        rungs += [rung] if rung is not None else []
    return rungs


def _lower_rung(left: NumericShape, right: NumericShape, above: _Rung) -> _Rung | None:
    """One with more digits than `above`, the most that can be; None where Spark has room for none."""
    below = 4 * above.lowest
    """The quotients are less than 10^`below`, and so is the dividend less than that times the divisor."""
    for digits in range(38 - below, above.shift + above.scale, -1):
        for scale in (20, 16, 12):
            shift = digits - scale
            if shift % 4 or not above.shift < shift < 38 or below + shift + scale > 38:
                continue
            whole = min(left.precision - left.scale, right.precision - right.scale + below) + shift
            shifted = NumericShape(min(38, max(whole, 0) + left.scale), left.scale)
            operands = _spark_operands(shifted, right, scale, below + shift, least_whole=shift + LEAST_DIVIDEND)
            held = 0 if operands is None else _whole_digits(operands[0])
            if operands is not None and held >= min(whole, shift + LEAST_DIVIDEND):
                return _Rung(shift, scale, operands, None if held >= whole else held - shift)
    return None


def _scale(left: NumericShape, right: NumericShape, whole_digits: int) -> int:
    """The scale of the decimals that Spark computes quotients as."""
    return max(left.scale, right.scale, min(WIDE_QUOTIENT_SCALE, max(QUOTIENT_SCALE, 38 - whole_digits)))


def number_scale(left: NumericShape, right: NumericShape, whole_digits: int) -> int | None:
    """The scale of `quotient_number`; None where Spark has no room for it."""
    if not left.exact_scale or not right.exact_scale or max(left.scale, right.scale) > MAX_OPERAND_SCALE:
        return None
    scale = _scale(left, right, whole_digits)
    return None if whole_digits > 38 - scale or _spark_operands(left, right, scale, whole_digits) is None else scale


def quotient_number(left: NumericShape, right: NumericShape, whole_digits: int) -> str:
    """A template of Spark's for the value of the quotient alone, as a decimal of `number_scale`, which there is."""
    scale = number_scale(left, right, whole_digits)
    assert scale is not None
    operands = _spark_operands(left, right, scale, whole_digits)
    assert operands is not None
    rung, least = _Rung(0, scale, operands), max(left.scale, right.scale)
    same_group = _same_first_group(left.scale, right.scale)
    return (
        "transform(transform(array(named_struct('a', {0}, 'b', {1})), "
        f"p -> named_struct('a', p.a, 'b', p.b, 'd', {rung.divided('p.a', 'p.b')})), "
        f"r -> {_by_size('r.d', [rung], least, same_group, number=True)})[0]"
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
    digits = shape.precision + shape.scale + 1
    if digits <= _HUGE_DIGITS:
        # DuckDB multiplies decimals of up to 18 digits to no more than 18.
        number = f"CAST(abs({place}) AS DECIMAL({digits},{shape.scale}))"
        return f"CAST({number} * CAST({10**shape.scale} AS DECIMAL({shape.scale + 1},0)) AS HUGEINT)"
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
    # The digits are fewer than 38, so of more fraction digits all are in the fraction.
    point = _power("least(d.r, 38)")
    fraction = f"lpad(CAST(d.d % {point} AS VARCHAR), CAST(d.r AS INTEGER), '0')"
    shown = (
        "CASE WHEN d.d IS NOT NULL THEN CASE WHEN d.s < 0 AND d.d <> 0 THEN '-' ELSE '' END || "
        f"CAST(d.d // {point} AS VARCHAR) || CASE WHEN d.r = 0 THEN '' ELSE '.' || {fraction} END END"
    )
    result = f"[{operands}]"
    for name, step in (("p", weights), ("q", scaled), ("r", divided), ("d", shown)):
        result = f"list_transform({result}, lambda {name}: {step})"
    return f"({result})[1]"


def _rounded(divided: str, weight: int, least: int, scale: int) -> str:
    """A quotient, a decimal of `scale`, rounded to the scale that its weight gives."""
    wanted = max(16 - 4 * weight, least)
    return divided if wanted >= scale else f"CAST(round({divided}, {wanted}) AS DECIMAL(38,{scale}))"


def _by_weight(rung: _Rung, left: str, right: str, weight: str, least: int) -> str:
    """The text of a quotient whose weight is an expression; Spark's round wants a constant scale."""
    divided = rung.divided(left, right)
    rounds = "".join(f" WHEN {each} THEN {rung.shown(divided, each, least)}" for each in range(-2, 5))
    return f"CASE greatest(least({weight}, 4), -2){rounds} END"


def _by_size(
    place: str, rungs: Sequence[_Rung], least: int, same_first_group: str, *, highest: int = 4, number: bool = False
) -> str:
    """The text of the quotient, which the first of `rungs` left at `place`, rounded to the scale that its own weight
    gives; with `number` the decimal.

    With m the weight of the quotient's value, PostgreSQL's estimate is m, but m - 1 where the first groups of both
    operands are equal and the quotient is at least 10000^m; it is then less than twice that. `highest` is the largest
    m.
    """
    rung, *lower = rungs
    name = len(lower)

    def rounded(weight: int) -> str:
        return _rounded(place, weight, least, rung.scale) if number else rung.shown(place, weight, least)

    lowest = rung.lowest if lower else rung.lowest - 1
    highest = min(highest, (37 - rung.scale - rung.shift) // 4)
    sizes, ambiguous = "", []
    for weight in range(highest, lowest - 1, -1):
        at_least = f"abs({place}) >= {rung.constant(4 * weight)}"
        sizes += f" WHEN {at_least} THEN {weight}"
        if rounded(weight) != rounded(weight - 1):
            ambiguous.append(f"({at_least} AND abs({place}) < {rung.constant(4 * weight, 2)})")
    below = lowest - 2
    """Stands for what is smaller than the weights are for."""
    if lower:
        of_lower = _by_size(f"t{name}.d", lower, least, same_first_group, highest=lowest - 1)
        divided = lower[0].divided("r.a", "r.b")
        other = f"transform(array(named_struct('d', {divided})), t{name} -> {of_lower})[0]"
        other = lower[0].limited("r.a", other, rounded(lowest - 1))
    else:
        other = rounded(lowest - 1)
    shown = {weight: rounded(weight) for weight in range(highest, lowest - 2, -1)}
    cases = "".join(f" WHEN {weight} THEN {text}" for weight, text in shown.items() if text != other)
    if not cases:
        return other
    estimate = f"CASE{sizes} ELSE {below} END"
    if ambiguous:
        estimate += f" - CASE WHEN ({' OR '.join(ambiguous)}) AND {same_first_group} THEN 1 ELSE 0 END"
    return f"transform(array({estimate}), w{name} -> CASE w{name}{cases} ELSE {other} END)[0]"


def _first_digits(number: str) -> str:
    """The digits of a decimal without zeros before them."""
    return f"trim(LEADING '0' FROM replace(CAST(abs({number}) AS STRING), '.', ''))"


def _weight(number: str, scale: int) -> str:
    """The power of 10000 of a decimal's first group of digits."""
    return f"CAST(floor((length({_first_digits(number)}) - {scale + 1}) / 4) AS INT)"


def _first_group(number: str, scale: int) -> str:
    """The first group of four decimal digits of a decimal, as an integer."""
    # The leading digit stands for 10^exponent; & 3 is modulo 4 also below zero.
    digits = _first_digits(number)
    return f"CAST(rpad({digits}, ((length({digits}) - {scale + 1}) & 3) + 1, '0') AS INT)"


def _same_first_group(left_scale: int, right_scale: int) -> str:
    """Whether the first groups of r.a and r.b are the same number."""
    return f"{_first_group('r.a', left_scale)} = {_first_group('r.b', right_scale)}"


def _weight_by_logarithm(left: str, right: str) -> str:
    def weight(place: str) -> str:
        # NOTE: not nullif(): see `planner.functions.families.aggregates`.
        return f"CAST(floor(log10(CAST(CASE WHEN {place} <> 0 THEN abs({place}) END AS DOUBLE)) / 4D) AS INT)"

    def group(place: str) -> str:
        return f"floor(CAST(abs({place}) AS DOUBLE) / power(10D, 4 * {weight(place)}))"

    difference = f"{weight(left)} - {weight(right)} - CASE WHEN {group(left)} <= {group(right)} THEN 1 ELSE 0 END"
    return f"CASE WHEN {left} = 0 THEN -1 - {weight(right)} ELSE {difference} END"


def _zero(right: str, right_scale: int, least: int) -> str:
    """The text of the quotient of 0 by a number."""
    digits = f"greatest(20 + 4 * {_weight(right, right_scale)}, {least})"
    return f"trim(TRAILING '.' FROM rpad('0.', {digits} + 2, '0'))"


def _spark_operands(
    left: NumericShape, right: NumericShape, scale: int, whole_digits: int, *, least_whole: int = 18
) -> tuple[str, str] | None:
    """DECIMAL types of both sides for which Spark's own rule keeps at least `scale` fraction digits, and of quotients
    of so many whole digits all that a decimal of `scale` has room for. The left side has all its whole digits, or if
    that cannot be as many as can be, at least `least_whole`.

    Spark (decimalOperations.allowPrecisionLoss=false): with i = p1 - s1 + s2 whole and d = max(6, s1 + p2 + 1) fraction
    digits, both at most 38, the fraction gets d - ((i + d - 38) / 2 + 1) when they exceed 38 together.
    """
    own = left.precision - left.scale
    needed = min(whole_digits, 38 - scale)
    wholes = (*range(own, 39), *range(own - 1, min(least_whole, own) - 1, -1))
    for whole, right_precision in product(wholes, dict.fromkeys((right.precision, 38))):
        for left_scale in range(left.scale, 39 - whole):
            int_digits = min(38, whole + right.scale)
            fraction = min(38, max(6, left_scale + right_precision + 1))
            excess = int_digits + fraction - 38
            if excess > 0:
                fraction -= excess // 2 + 1
                int_digits = 38 - fraction
            if fraction >= scale and int_digits >= needed:
                return f"DECIMAL({whole + left_scale},{left_scale})", f"DECIMAL({right_precision},{right.scale})"
    return None
