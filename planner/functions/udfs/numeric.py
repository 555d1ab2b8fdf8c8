"""numeric: division, roots, powers and logarithms with PostgreSQL's own rules for how many digits to give.

Values come and go as text, so that no DECIMAL shape stands between. `dscale` is PostgreSQL's word for the number of
fraction digits that a value shows; `weight` is the power of 10000 of its first group of four digits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal

from planner.common_errors import division_by_zero, float_overflow, numeric_overflow
from planner.errors import (
    InvalidArgumentForLogarithm,
    InvalidArgumentForPowerFunction,
    InvalidArgumentForWidthBucketFunction,
    InvalidParameterValue,
    NumericValueOutOfRange,
)
from planner.functions.udfs.table import Udf

_CONTEXT = Context(prec=1100, rounding=ROUND_HALF_UP, Emax=10**6, Emin=-(10**6))
MIN_SIGNIFICANT = 16
MAX_SCALE = 1000


def _parse(text: str, inexact: bool = False) -> tuple[Decimal, int]:
    """A value and its dscale; the trailing zeros of an inexact value do not count."""
    if inexact and "." in text:
        text = text.rstrip("0").rstrip(".") or "0"
    return Decimal(text), len(text) - text.index(".") - 1 if "." in text else 0


def _weight(value: Decimal) -> int:
    return value.adjusted() // 4 if value else 0


def _first_group(value: Decimal) -> int:
    return int(abs(value).scaleb(-4 * _weight(value), context=_CONTEXT)) if value else 0


def _show(value: Decimal, scale: int) -> str:
    rounded = value.quantize(Decimal(1).scaleb(-scale), context=_CONTEXT)
    return f"{rounded if rounded else abs(rounded):f}"


def division_scale(dividend: Decimal, divisor: Decimal, least: int) -> int:
    """The fraction digits of a quotient (select_div_scale)."""
    weight = _weight(dividend) - _weight(divisor)
    if _first_group(dividend) <= _first_group(divisor):
        weight -= 1
    return min(max(MIN_SIGNIFICANT - 4 * weight, least, 0), MAX_SCALE)


def divide(a: str, b: str, inexact: int) -> str:
    """a / b; bit 1 of `inexact` says that a's trailing zeros do not count, bit 2 that b's do not."""
    dividend, left = _parse(a, bool(inexact & 1))
    divisor, right = _parse(b, bool(inexact & 2))
    if not divisor:
        raise division_by_zero()
    scale = division_scale(dividend, divisor, max(left, right))
    return _show(_CONTEXT.divide(dividend, divisor), scale)


def multiply(a: str, b: str, scale: int) -> str:
    """a * b, which must be exact in `scale` fraction digits."""
    product = _CONTEXT.multiply(Decimal(a), Decimal(b))
    shown = product.quantize(Decimal(1).scaleb(-scale), context=_CONTEXT)
    if shown != product:
        raise numeric_overflow()
    return f"{shown:f}"


def integer_divide(a: str, b: str) -> str:
    """div(a, b): the quotient truncated toward zero."""
    divisor = Decimal(b)
    if not divisor:
        raise division_by_zero()
    return f"{_CONTEXT.divide(Decimal(a), divisor).quantize(Decimal(1), rounding=ROUND_DOWN, context=_CONTEXT):f}"


def round_to(text: str, scale: int) -> str:
    """round(x, scale)."""
    return _show(Decimal(text), scale) if scale >= 0 else _negative_scale(text, scale, ROUND_HALF_UP)


def _negative_scale(text: str, scale: int, rounding: str) -> str:
    unit = Decimal(1).scaleb(-scale)
    return f"{(Decimal(text) / unit).quantize(Decimal(1), rounding=rounding, context=_CONTEXT) * unit:f}"


def truncate_to(text: str, scale: int) -> str:
    """trunc(x, scale)."""
    if scale < 0:
        return _negative_scale(text, scale, ROUND_DOWN)
    return f"{Decimal(text).quantize(Decimal(1).scaleb(-scale), rounding=ROUND_DOWN, context=_CONTEXT):f}"


def square_root(text: str) -> str:
    """sqrt(x)."""
    value, dscale = _parse(text)
    if value < 0:
        raise InvalidArgumentForPowerFunction("cannot take square root of a negative number")
    weight = _weight(value)
    digits = weight * 4 // 2 + 1 if weight >= 0 else 1 - (1 - weight * 4) // 2
    return _show(_CONTEXT.sqrt(value), min(max(MIN_SIGNIFICANT - digits, dscale, 0), MAX_SCALE))


def exponential(text: str) -> str:
    """exp(x)."""
    value, dscale = _parse(text)
    scale = min(max(MIN_SIGNIFICANT - int(float(value) * 0.434294481903252), dscale, 0), MAX_SCALE)
    if abs(value) > 6000:
        raise numeric_overflow()
    return _show(Context(prec=scale + 60).exp(value), scale)


def _log_weight(value: Decimal) -> int:
    """The decimal weight of ln(value) (estimate_ln_dweight)."""
    if Decimal("0.9") <= value <= Decimal("1.1"):
        near = value - 1
        return near.adjusted() if near else 0
    size = float(Context(prec=30).ln(value))
    return int(math.log10(abs(size))) if size else 0


def _checked_logarithm(value: Decimal) -> None:
    if not value:
        raise InvalidArgumentForLogarithm("cannot take logarithm of zero")
    if value < 0:
        raise InvalidArgumentForLogarithm("cannot take logarithm of a negative number")


def natural_logarithm(text: str) -> str:
    """ln(x)."""
    value, dscale = _parse(text)
    _checked_logarithm(value)
    scale = min(max(MIN_SIGNIFICANT - _log_weight(value), dscale, 0), MAX_SCALE)
    return _show(Context(prec=scale + 60).ln(value), scale)


def logarithm(base: str, text: str) -> str:
    """log(base, x)."""
    bottom, base_scale = _parse(base)
    value, dscale = _parse(text)
    _checked_logarithm(bottom)
    _checked_logarithm(value)
    scale = min(max(MIN_SIGNIFICANT - (_log_weight(value) - _log_weight(bottom)), base_scale, dscale, 0), MAX_SCALE)
    context = Context(prec=scale + 60)
    divisor = context.ln(bottom)
    if not divisor:
        raise division_by_zero()
    return _show(context.divide(context.ln(value), divisor), scale)


def power(base: str, exponent: str) -> str:
    """base ^ exponent."""
    value, base_scale = _parse(base)
    times, exponent_scale = _parse(exponent)
    if not value and times < 0:
        raise InvalidArgumentForPowerFunction("zero raised to a negative power is undefined")
    if value < 0 and times != times.to_integral_value():
        raise InvalidArgumentForPowerFunction("a negative number raised to a non-integer power yields a complex result")
    least = max(base_scale, exponent_scale)
    if not value:
        return _show(Decimal(0 if times else 1), min(max(MIN_SIGNIFICANT, least), MAX_SCALE))
    size = float(times) * math.log10(abs(value))
    if size > 40:
        raise numeric_overflow()
    scale = min(max(MIN_SIGNIFICANT - int(size), least, 0), MAX_SCALE)
    return _show(Context(prec=scale + 80, Emax=10**6, Emin=-(10**6)).power(value, times), scale)


def factorial(number: str) -> str:
    """n!."""
    count = int(number)
    if count < 0:
        raise NumericValueOutOfRange("factorial of a negative number is undefined")
    if count > 33:
        raise numeric_overflow()
    return str(math.factorial(count))


def greatest_common_divisor(a: str, b: str) -> str:
    """gcd(a, b) of decimals."""
    left, right = Decimal(a), Decimal(b)
    scale = max(_parse(a)[1], _parse(b)[1])
    unit = Decimal(10) ** scale
    return _show(Decimal(math.gcd(int(left * unit), int(right * unit))) / unit, scale)


def least_common_multiple(a: str, b: str) -> str:
    """lcm(a, b) of decimals."""
    scale = max(_parse(a)[1], _parse(b)[1])
    unit = Decimal(10) ** scale
    return _show(Decimal(math.lcm(int(Decimal(a) * unit), int(Decimal(b) * unit))) / unit, scale)


def variance(kind: str, count: int, total: str | None, squares: list[str | None], inexact: int) -> str | None:
    """stddev and variance from the count, the sum and the sums of squares (numeric_stddev_internal). With `inexact`,
    zeros at the end of a value are not its own.

    A value's digits are cut into parts of 13; `squares` are the sums of the products of each pair of parts, the first
    is the most significant one."""
    if total is None or count == 0 or (count == 1 and kind.endswith("samp")):
        return None
    parts = {1: 1, 3: 2, 6: 3}[len(squares)]
    pairs = [(left, right) for left in range(parts) for right in range(left, parts)]
    square = 0
    for (left, right), product in zip(pairs, squares, strict=True):
        weight = 10 ** (13 * (2 * parts - 2 - left - right))
        square += (1 if left == right else 2) * int(product or 0) * weight
    _, scale = _parse(total)
    sum_, squared = Decimal(total), Decimal(square).scaleb(-2 * scale, _CONTEXT)
    if inexact:
        scale = max(_own_scale(sum_), -(-_own_scale(squared) // 2))
    return _deviation(kind, count, sum_, squared, scale)


def _own_scale(value: Decimal) -> int:
    exponent = _CONTEXT.normalize(value).as_tuple().exponent
    assert isinstance(exponent, int)
    return max(0, -exponent)


def variance_of(kind: str, values: list[str | None]) -> str | None:
    """stddev and variance of distinct values."""
    numbers = [Decimal(value) for value in values if value is not None]
    if not numbers or (len(numbers) == 1 and kind.endswith("samp")):
        return None
    scale = max(_parse(value)[1] for value in values if value is not None)
    squares = sum((_CONTEXT.multiply(number, number) for number in numbers), Decimal())
    return _deviation(kind, len(numbers), sum(numbers, Decimal()), squares, scale)


def _deviation(kind: str, count: int, sum_: Decimal, squares: Decimal, scale: int) -> str:
    numerator = _CONTEXT.subtract(_CONTEXT.multiply(count, squares), _CONTEXT.multiply(sum_, sum_))
    if numerator <= 0:
        return "0"
    denominator = Decimal(count * (count - 1 if kind.endswith("samp") else count))
    rscale = division_scale(numerator, denominator, 2 * scale)
    result = Decimal(_show(_CONTEXT.divide(numerator, denominator), rscale))
    if kind.startswith("stddev"):
        result = _CONTEXT.sqrt(result)
    return _show(result, rscale)


def min_scale(text: str) -> int:
    """min_scale(x): fraction digits without trailing zeros."""
    return _parse(text, True)[1]


def series(start: str, stop: str, step: str) -> list[str]:
    """generate_series(start, stop, step) of numerics."""
    value, end, stride = Decimal(start), Decimal(stop), Decimal(step)
    if not stride:
        raise InvalidParameterValue("step size cannot equal zero")
    found: list[str] = []
    while (value <= end) if stride > 0 else (value >= end):
        found.append(f"{value:f}")
        value += stride
    return found


def to_hex(number: int) -> str:
    """to_hex(bigint)."""
    return f"{number & 0xFFFFFFFFFFFFFFFF:x}"


def shift(direction: str, number: int, count: int, bits: int) -> int:
    """<< and >> on integers of `bits` bits: the count is taken modulo the width, as the hardware does."""
    count &= bits - 1
    if direction == ">>":
        return number >> count
    wrapped = (number << count) & ((1 << bits) - 1)
    return wrapped - (1 << bits) if wrapped >> (bits - 1) else wrapped


def bit_count(data: bytes) -> int:
    """bit_count(bytea)."""
    return int.from_bytes(data, "big").bit_count()


def width_bucket(value: float, low: float, high: float, count: int) -> int:
    """width_bucket(value, low, high, count)."""
    if count <= 0:
        raise InvalidArgumentForWidthBucketFunction("count must be greater than zero")
    if math.isnan(value) or math.isnan(low) or math.isnan(high):
        raise InvalidArgumentForWidthBucketFunction("operand, lower bound, and upper bound cannot be NaN")
    if math.isinf(low) or math.isinf(high):
        raise InvalidArgumentForWidthBucketFunction("lower and upper bounds must be finite")
    if low == high:
        raise InvalidArgumentForWidthBucketFunction("lower bound cannot equal upper bound")
    if low < high:
        return 0 if value < low else count + 1 if value >= high else int(count * (value - low) / (high - low)) + 1
    return 0 if value > low else count + 1 if value <= high else int(count * (low - value) / (low - high)) + 1


def float_power(base: float, exponent: float) -> float:
    """power(float8, float8) of numbers."""
    if base == 0 and exponent < 0:
        raise InvalidArgumentForPowerFunction("zero raised to a negative power is undefined")
    if base < 0 and not math.isinf(base) and exponent != math.floor(exponent) and not math.isinf(exponent):
        raise InvalidArgumentForPowerFunction("a negative number raised to a non-integer power yields a complex result")
    try:
        result = math.pow(base, exponent)
    except OverflowError:
        raise float_overflow() from None
    if result == 0 and base != 0 and not math.isinf(base) and not math.isinf(exponent):
        raise NumericValueOutOfRange("value out of range: underflow")
    return result


def float_exponential(value: float) -> float:
    """exp(float8)."""
    try:
        result = math.exp(value)
    except OverflowError:
        raise float_overflow() from None
    if result == 0 and not math.isinf(value):
        raise NumericValueOutOfRange("value out of range: underflow")
    return result


_EXACT_DEGREES: dict[str, dict[float, float]] = {
    "sind": {0: 0.0, 30: 0.5, 90: 1.0, 150: 0.5, 180: 0.0, 210: -0.5, 270: -1.0, 330: -0.5},
    "cosd": {0: 1.0, 60: 0.5, 90: 0.0, 120: -0.5, 180: -1.0, 240: -0.5, 270: 0.0, 300: 0.5},
    "tand": {0: 0.0, 45: 1.0, 135: -1.0, 180: 0.0, 225: 1.0, 315: -1.0, 90: math.inf, 270: -math.inf},
    "cotd": {45: 1.0, 90: 0.0, 135: -1.0, 225: 1.0, 270: 0.0, 315: -1.0, 0: math.inf, 180: -math.inf},
}
_EXACT_ARCS: dict[str, dict[float, float]] = {
    "asind": {0.0: 0.0, 0.5: 30.0, 1.0: 90.0, -0.5: -30.0, -1.0: -90.0},
    "acosd": {0.0: 90.0, 0.5: 60.0, 1.0: 0.0, -0.5: 120.0, -1.0: 180.0},
    "atand": {0.0: 0.0, 1.0: 45.0, -1.0: -45.0},
}


def degrees(function: str, value: float) -> float:
    """The trigonometric functions of degrees, exact where PostgreSQL's are."""
    if function in _EXACT_ARCS:
        if function != "atand" and abs(value) > 1:
            raise NumericValueOutOfRange("input is out of range")
        exact = _EXACT_ARCS[function].get(value)
        if exact is not None:
            return exact
        return math.degrees({"asind": math.asin, "acosd": math.acos, "atand": math.atan}[function](value))
    if math.isinf(value):
        raise NumericValueOutOfRange("input is out of range")
    reduced = math.fmod(value, 360.0)
    exact = _EXACT_DEGREES[function].get(reduced + 360 if reduced < 0 else reduced)
    if exact is not None:
        return exact
    angle = math.radians(reduced)
    if function == "cotd":
        return 1.0 / math.tan(angle)
    return float({"sind": math.sin, "cosd": math.cos, "tand": math.tan}[function](angle))


_T, _I, _B, _F = "VARCHAR", "INTEGER", "BIGINT", "DOUBLE"

UDFS: Mapping[str, Udf] = {
    "tg_numeric_div": Udf((_T, _T, _I), _T, divide),
    "tg_numeric_mul": Udf((_T, _T, _I), _T, multiply),
    "tg_numeric_idiv": Udf((_T, _T), _T, integer_divide),
    "tg_numeric_round": Udf((_T, _I), _T, round_to),
    "tg_numeric_trunc": Udf((_T, _I), _T, truncate_to),
    "tg_numeric_sqrt": Udf((_T,), _T, square_root),
    "tg_numeric_exp": Udf((_T,), _T, exponential),
    "tg_numeric_ln": Udf((_T,), _T, natural_logarithm),
    "tg_numeric_log10": Udf((_T,), _T, lambda text: logarithm("10", text)),
    "tg_numeric_log": Udf((_T, _T), _T, logarithm),
    "tg_numeric_power": Udf((_T, _T), _T, power),
    "tg_numeric_factorial": Udf((_T,), _T, factorial),
    "tg_numeric_gcd": Udf((_T, _T), _T, greatest_common_divisor),
    "tg_numeric_lcm": Udf((_T, _T), _T, least_common_multiple),
    "tg_numeric_variance": Udf((_T, _B, _T, "VARCHAR[]", _I), _T, variance, nulls=True),
    "tg_numeric_variance_of": Udf((_T, "VARCHAR[]"), _T, variance_of),
    "tg_numeric_min_scale": Udf((_T,), _I, min_scale),
    "tg_numeric_series": Udf((_T, _T, _T), "VARCHAR[]", series),
    "tg_to_hex": Udf((_B,), _T, to_hex),
    "tg_shift": Udf((_T, _B, _I, _I), _B, shift),
    "tg_bit_count": Udf(("BLOB",), _B, bit_count),
    "tg_width_bucket": Udf((_F, _F, _F, _I), _I, width_bucket),
    "tg_float8_power": Udf((_F, _F), _F, float_power),
    "tg_float8_exp": Udf((_F,), _F, float_exponential),
    "tg_degrees": Udf((_T, _F), _F, degrees),
}
