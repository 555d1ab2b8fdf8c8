"""numeric: PostgreSQL's arithmetic, with its own rules for how many digits a result shows (numeric.c).

Values come and go as text, so that no DECIMAL shape stands between: NaN, Infinity, -Infinity, or plain digits.
`dscale` is PostgreSQL's word for the number of fraction digits that a value shows; `weight` is the power of 10000 of
its first group of four digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal

from planner.common_errors import NanNotHeld, division_by_zero, numeric_overflow
from planner.errors import (
    FeatureNotSupported,
    InvalidArgumentForLogarithm,
    InvalidArgumentForPowerFunction,
    InvalidArgumentForWidthBucketFunction,
    InvalidParameterValue,
    NumericValueOutOfRange,
)
from planner.functions.udfs.table import Udf
from planner.types.types import NUMERIC, SqlType
from planner.values.text_values import MAX_FRACTION_DIGITS, MAX_WHOLE_DIGITS, fit_numeric, format_numeric, parse_text

_RANGE = 10**7
_CONTEXT = Context(prec=300_000, rounding=ROUND_HALF_UP, Emax=_RANGE, Emin=-_RANGE)
"""Holds every digit of a sum, a difference or a product."""
MIN_SIGNIFICANT = 16
MAX_SCALE = 1000
MAX_ROUNDED_SCALE = 2000
MAX_EXPONENT = 6000
"""exp() of more overflows, of less is zero."""
_NAN = Decimal("NaN")
_INFINITY = Decimal("Infinity")


def _context(digits: int) -> Context:
    return Context(prec=max(digits, 1), rounding=ROUND_HALF_UP, Emax=_RANGE, Emin=-_RANGE)


def _dscale(value: Decimal) -> int:
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    return max(0, -exponent)


def show(value: Decimal) -> str:
    """The text of a value, with the fraction digits that it has. Raises 22003 beyond PostgreSQL's range."""
    if value.is_nan():
        return "NaN"
    text = str(value)
    if len(text) < MAX_FRACTION_DIGITS and "E" not in text and (value or text[0] != "-"):
        return text
    if value.is_finite():
        if not value:
            return f"{value.copy_abs():f}"
        if value.adjusted() >= MAX_WHOLE_DIGITS or _dscale(value) > MAX_FRACTION_DIGITS:
            raise numeric_overflow()
        return f"{value:f}"
    return format_numeric(value)


def _weight(value: Decimal) -> int:
    return value.adjusted() // 4 if value else 0


def _first_group(value: Decimal) -> int:
    # NOTE: not abs(), which rounds to the 28 digits of Python's context.
    count = value.adjusted() - 4 * _weight(value) + 1
    return int("".join(map(str, value.as_tuple().digits[:count])).ljust(count, "0")) if value else 0


def _show(value: Decimal, scale: int) -> str:
    return show(_quantized(value, scale, ROUND_HALF_UP))


def _quantized(value: Decimal, scale: int, rounding: str) -> Decimal:
    return value.quantize(Decimal(1).scaleb(-scale), rounding=rounding, context=_CONTEXT)


def add(a: str, b: str) -> str:
    """a + b."""
    return show(_sum(Decimal(a), Decimal(b)))


def subtract(a: str, b: str) -> str:
    """a - b."""
    return show(_sum(Decimal(a), _CONTEXT.copy_negate(Decimal(b))))


def _sum(left: Decimal, right: Decimal) -> Decimal:
    if left.is_infinite() and right.is_infinite() and left != right:
        return _NAN
    return _CONTEXT.add(left, right)


def multiply(a: str, b: str) -> str:
    """a * b."""
    left, right = Decimal(a), Decimal(b)
    if (left.is_infinite() and right == 0) or (right.is_infinite() and left == 0):
        return "NaN"
    product = _CONTEXT.multiply(left, right)
    if len(a) + len(b) > MAX_FRACTION_DIGITS and product.is_finite() and _dscale(product) > MAX_FRACTION_DIGITS:
        return _show(product, MAX_FRACTION_DIGITS)
    return show(product)


def division_scale(dividend: Decimal, divisor: Decimal, least: int) -> int:
    """The fraction digits of a quotient (select_div_scale)."""
    weight = _weight(dividend) - _weight(divisor)
    if _first_group(dividend) <= _first_group(divisor):
        weight -= 1
    return min(max(MIN_SIGNIFICANT - 4 * weight, least, 0), MAX_SCALE)


def _special_quotient(dividend: Decimal, divisor: Decimal) -> str | None:
    """What NaN and the infinities give; None for finite numbers, of which the second is not zero."""
    if dividend.is_nan() or divisor.is_nan() or (dividend.is_infinite() and divisor.is_infinite()):
        return "NaN"
    if not divisor:
        raise division_by_zero()
    if dividend.is_infinite():
        return show(dividend if divisor > 0 else -dividend)
    return "0" if divisor.is_infinite() else None


def divide(a: str, b: str) -> str:
    """a / b."""
    dividend, divisor = Decimal(a), Decimal(b)
    special = _special_quotient(dividend, divisor)
    if special is not None:
        return special
    scale = division_scale(dividend, divisor, max(_dscale(dividend), _dscale(divisor)))
    return show(_quotient(dividend, divisor, scale, ROUND_HALF_UP))


def _quotient(dividend: Decimal, divisor: Decimal, scale: int, rounding: str) -> Decimal:
    """a / b in `scale` fraction digits, rounded once."""
    digits = max(dividend.adjusted() - divisor.adjusted(), 0) + scale + 10
    context = Context(prec=digits, rounding=ROUND_DOWN, Emax=_RANGE, Emin=-_RANGE)
    quotient = context.divide(dividend, divisor)
    return _quantized(quotient, scale, rounding)


def integer_divide(a: str, b: str) -> str:
    """div(a, b): the quotient truncated toward zero."""
    dividend, divisor = Decimal(a), Decimal(b)
    special = _special_quotient(dividend, divisor)
    return show(_quotient(dividend, divisor, 0, ROUND_DOWN)) if special is None else special


def remainder(a: str, b: str) -> str:
    """mod(a, b), with the sign of a."""
    dividend, divisor = Decimal(a), Decimal(b)
    if dividend.is_nan() or divisor.is_nan():
        return "NaN"
    if not divisor:
        raise division_by_zero()
    if dividend.is_infinite():
        return "NaN"
    return show(dividend if divisor.is_infinite() else _CONTEXT.remainder(dividend, divisor))


def negative(text: str) -> str:
    """-x."""
    return show(_CONTEXT.copy_negate(Decimal(text)))


def absolute(text: str) -> str:
    """abs(x)."""
    return text.removeprefix("-")


def sign(text: str) -> str:
    """sign(x)."""
    value = Decimal(text)
    return "NaN" if value.is_nan() else str((value > 0) - (value < 0))


def round_to(text: str, scale: int) -> str:
    """round(x, scale)."""
    return _rounded(text, scale, ROUND_HALF_UP)


def truncate_to(text: str, scale: int) -> str:
    """trunc(x, scale)."""
    return _rounded(text, scale, ROUND_DOWN)


def _rounded(text: str, scale: int, rounding: str) -> str:
    value = Decimal(text)
    if not value.is_finite():
        return text
    if scale >= 0:
        return show(_quantized(value, min(scale, MAX_FRACTION_DIGITS), rounding))
    # Only here may digits in front of the point go.
    # One digit more than there are: nothing is left of any number.
    scale = max(scale, -MAX_WHOLE_DIGITS - 1)
    return show(
        value.quantize(Decimal(1).scaleb(-scale, context=_CONTEXT), rounding, _CONTEXT).quantize(
            Decimal(1), rounding, _CONTEXT
        )
    )


def square_root(text: str) -> str:
    """sqrt(x)."""
    value = Decimal(text)
    if value.is_nan():
        return "NaN"
    if value < 0:
        raise InvalidArgumentForPowerFunction("cannot take square root of a negative number")
    if not value.is_finite():
        return text
    weight = _weight(value)
    digits = weight * 4 // 2 + 1 if weight >= 0 else 1 - (1 - weight * 4) // 2
    scale = min(max(MIN_SIGNIFICANT - digits, _dscale(value), 0), MAX_SCALE)
    return _show(_context(max(digits, 0) + scale + 20).sqrt(value), scale)


def exponential(text: str) -> str:
    """exp(x)."""
    value = Decimal(text)
    if value.is_nan() or value == _INFINITY:
        return text
    if value.is_infinite():
        return "0"
    size = min(max(float(value) * 0.434294481903252, -MAX_ROUNDED_SCALE), MAX_ROUNDED_SCALE)
    scale = min(max(MIN_SIGNIFICANT - int(size), _dscale(value), 0), MAX_SCALE)
    if value.copy_abs() >= MAX_EXPONENT:
        if value > 0:
            raise numeric_overflow()
        return _show(Decimal(0), scale)
    return _show(_context(scale + max(int(float(value) * 0.4343), 0) + 30).exp(value), scale)


def _log_weight(value: Decimal) -> int:
    """The decimal weight of ln(value) (estimate_ln_dweight)."""
    if Decimal("0.9") <= value <= Decimal("1.1"):
        near = _CONTEXT.subtract(value, Decimal(1))
        return near.adjusted() if near else 0
    size = float(_context(30).ln(value))
    return int(math.log10(abs(size))) if size else 0


def _check_logarithm(*values: Decimal) -> None:
    if any(value < 0 for value in values):
        raise InvalidArgumentForLogarithm("cannot take logarithm of a negative number")
    if not all(values):
        raise InvalidArgumentForLogarithm("cannot take logarithm of zero")


def natural_logarithm(text: str) -> str:
    """ln(x)."""
    value = Decimal(text)
    if value.is_nan():
        return "NaN"
    _check_logarithm(value)
    if value.is_infinite():
        return text
    scale = min(max(MIN_SIGNIFICANT - _log_weight(value), _dscale(value), 0), MAX_SCALE)
    return _show(_context(scale + 30).ln(value), scale)


def logarithm(base: str, text: str) -> str:
    """log(base, x)."""
    bottom, value = Decimal(base), Decimal(text)
    if bottom.is_nan() or value.is_nan():
        return "NaN"
    _check_logarithm(bottom, value)
    if bottom.is_infinite():
        return "NaN" if value.is_infinite() else "0"
    if value.is_infinite():
        return text
    weight = _log_weight(value) - _log_weight(bottom)
    scale = min(max(MIN_SIGNIFICANT - weight, _dscale(bottom), _dscale(value), 0), MAX_SCALE)
    context = _context(scale + 60)
    divisor = context.ln(bottom)
    if not divisor:
        raise division_by_zero()
    return _show(context.divide(context.ln(value), divisor), scale)


def _is_whole(value: Decimal) -> bool:
    return value.is_infinite() or value == value.to_integral_value(context=_CONTEXT)


def power(base: str, exponent: str) -> str:
    """base ^ exponent."""
    value, times = Decimal(base), Decimal(exponent)
    if value.is_nan():
        return "1" if times == 0 else "NaN"
    if times.is_nan():
        return "1" if value == 1 else "NaN"
    if not value and times < 0:
        raise InvalidArgumentForPowerFunction("zero raised to a negative power is undefined")
    if value < 0 and not _is_whole(times):
        raise InvalidArgumentForPowerFunction("a negative number raised to a non-integer power yields a complex result")
    if value.is_infinite() or times.is_infinite():
        return _power_of_special(value, times)
    least = max(_dscale(value), _dscale(times))
    if not value:
        scale = max(MIN_SIGNIFICANT, _dscale(value)) if _is_whole(times) else MIN_SIGNIFICANT
        return _show(Decimal(0 if times else 1), min(scale, MAX_SCALE))
    # As decimals, with the digits that a base next to one begins with: a float has neither that nor a huge exponent.
    # NOTE: not abs(), which rounds to the 28 digits of Python's context.
    distance = _CONTEXT.subtract(value.copy_abs(), Decimal(1))
    context = _context(30 + max(0, -distance.adjusted()))
    size = float(context.multiply(times, context.log10(value.copy_abs())))
    is_small = _is_whole(times) and -(2**31) <= times < 2**31
    if size > MAX_WHOLE_DIGITS or (not _is_whole(times) and size * 2.302585092994046 > MAX_EXPONENT * 1.0034):
        raise numeric_overflow()
    if is_small:
        scale = min(max(MIN_SIGNIFICANT, _dscale(value)), MAX_SCALE)
        if size + 1 < -scale:
            return _show(Decimal(0), scale)
    elif size + 1 < -MAX_SCALE:
        return _show(Decimal(0), MAX_SCALE)
    else:
        scale = min(max(MIN_SIGNIFICANT - int(size), least, 0), MAX_SCALE)
    return _show(_context(scale + max(int(size), 0) + 30).power(value, times), scale)


def _power_of_special(value: Decimal, times: Decimal) -> str:
    if value == 1 or times == 0:
        return "1"
    if not value:
        return "0"
    if times.is_infinite():
        if value == -1:
            return "1"
        return "Infinity" if (value.copy_abs() > 1) == (times > 0) else "0"
    if times < 0:
        return "0"
    odd = value < 0 and _CONTEXT.remainder(times, Decimal(2)) != 0
    return "-Infinity" if odd else "Infinity"


MAX_FACTORIAL = 32177
"""The factorial of more has too many digits."""


def factorial(number: str) -> str:
    """n!."""
    count = int(number)
    if count < 0:
        raise NumericValueOutOfRange("factorial of a negative number is undefined")
    if count > MAX_FACTORIAL:
        raise numeric_overflow()
    return show(Decimal(math.factorial(count)))


def greatest_common_divisor(a: str, b: str) -> str:
    """gcd(a, b)."""
    return _of_whole_parts(math.gcd, Decimal(a), Decimal(b))


def least_common_multiple(a: str, b: str) -> str:
    """lcm(a, b)."""
    return _of_whole_parts(math.lcm, Decimal(a), Decimal(b))


def _of_whole_parts(function: Callable[[int, int], int], left: Decimal, right: Decimal) -> str:
    if not left.is_finite() or not right.is_finite():
        return "NaN"
    scale = max(_dscale(left), _dscale(right))
    wholes = [int(value.scaleb(scale, context=_CONTEXT)) for value in (left, right)]
    return show(Decimal(function(*wholes)).scaleb(-scale, context=_CONTEXT))


def total(fast: str | None, scale: int | None, rest: Sequence[str] | None) -> str | None:
    """sum(): of a partial sum whose values show up to `scale` fraction digits, and of the values not in it."""
    if fast is None and all(text is None for text in rest or ()):
        return None
    found = Decimal(0)
    if fast is not None:
        found = _quantized(Decimal(fast), scale or 0, ROUND_HALF_UP)
    for text in rest or ():
        if text is not None:
            found = _sum(found, Decimal(text))
    return show(found)


def average(fast: str | None, scale: int | None, rest: Sequence[str] | None, count: int) -> str | None:
    """avg(), from what makes the sum and the number of values."""
    summed = total(fast, scale, rest)
    return None if summed is None else divide(summed, str(count))


def over_distinct(kind: str, values: Sequence[str | None]) -> str | None:
    """sum, avg, stddev or variance of distinct values: of equal ones the first."""
    kept: dict[str, str] = {}
    for value in values:
        if value is not None:
            kept.setdefault(trim_scale(value), value)
    found = list(kept.values())
    if kind == "sum":
        return total(None, None, found)
    return average(None, None, found, len(found)) if kind == "avg" else variance_of(kind, found)


def variance(kind: str, count: int, total: str | None, squares: list[str | None]) -> str | None:
    """stddev and variance from the count, the sum and the sums of squares (numeric_stddev_internal).

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
    sum_ = Decimal(total)
    scale = _dscale(sum_)
    return _deviation(kind, count, sum_, Decimal(square).scaleb(-2 * scale, _CONTEXT), scale)


def variance_of(kind: str, values: Sequence[str | None]) -> str | None:
    """stddev and variance of values."""
    numbers = [Decimal(value) for value in values if value is not None]
    if not numbers or (len(numbers) == 1 and kind.endswith("samp")):
        return None
    if not all(number.is_finite() for number in numbers):
        return "NaN"
    scale = max(_dscale(number) for number in numbers)
    summed, squares = Decimal(0), Decimal(0)
    for number in numbers:
        summed = _CONTEXT.add(summed, number)
        squares = _CONTEXT.add(squares, _CONTEXT.multiply(number, number))
    return _deviation(kind, len(numbers), summed, squares, scale)


def _deviation(kind: str, count: int, sum_: Decimal, squares: Decimal, scale: int) -> str:
    numerator = _CONTEXT.subtract(_CONTEXT.multiply(count, squares), _CONTEXT.multiply(sum_, sum_))
    if numerator <= 0:
        return "0"
    denominator = Decimal(count * (count - 1 if kind.endswith("samp") else count))
    rscale = division_scale(numerator, denominator, 2 * scale)
    result = _quotient(numerator, denominator, rscale, ROUND_HALF_UP)
    if kind.startswith("stddev"):
        result = _context(max(result.adjusted(), 0) + rscale + 10).sqrt(result)
    return _show(result, rscale)


def scale_of(text: str) -> int | None:
    """scale(x): NULL of NaN and of the infinities."""
    value = Decimal(text)
    return _dscale(value) if value.is_finite() else None


def trim_scale(text: str) -> str:
    """trim_scale(x)."""
    return text.rstrip("0").rstrip(".") if "." in text else text


def min_scale(text: str) -> int | None:
    """min_scale(x): fraction digits without trailing zeros."""
    return scale_of(trim_scale(text))


def series(start: str, stop: str, step: str) -> list[str]:
    """generate_series(start, stop, step) of numerics."""
    value, end, stride = Decimal(start), Decimal(stop), Decimal(step)
    for name, given in (("start value", value), ("stop value", end), ("step size", stride)):
        if not given.is_finite():
            raise InvalidParameterValue(f"{name} cannot be {'NaN' if given.is_nan() else 'infinity'}")
    if not stride:
        raise InvalidParameterValue("step size cannot equal zero")
    found: list[str] = []
    while (value <= end) if stride > 0 else (value >= end):
        found.append(show(value))
        value = _CONTEXT.add(value, stride)
    return found


_DAY_MICROS = 86_400_000_000
_JULIAN_1970 = 2_440_588


def julian(micros: int) -> str:
    """The Julian date of a moment, in microseconds since 1970."""
    days, rest = divmod(micros, _DAY_MICROS)
    return add(str(days + _JULIAN_1970), divide(str(rest), str(_DAY_MICROS)))


def numeric_in(text: str) -> str:
    """The input function."""
    value = parse_text(text, SqlType(NUMERIC))
    assert isinstance(value, Decimal)
    return show(value)


def fit(text: str, typmod: int) -> str:
    """A value rounded to the scale of numeric(precision, scale). Raises 22003 where it does not fit."""
    return show(fit_numeric(Decimal(text), typmod))


def fit_decimal(text: str, typmod: int) -> str:
    """Like `fit`, for a column that is held as decimals: they have no NaN."""
    if text == "NaN":
        raise NanNotHeld
    return fit(text, typmod)


def of_float(value: float, digits: int) -> str:
    """A float as numeric, in that many significant digits."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return show(Decimal(f"{value:.{digits}g}") + 0)


_INTEGER_BITS = {"smallint": 16, "integer": 32, "bigint": 64}


def to_integer(text: str, name: str) -> int:
    """A value as an integer, halves away from zero."""
    value = Decimal(text)
    if not value.is_finite():
        raise FeatureNotSupported(f"cannot convert {'NaN' if value.is_nan() else 'infinity'} to {name}")
    number = int(_quantized(value, 0, ROUND_HALF_UP)) if value.adjusted() < 30 else 2**80
    limit = 1 << (_INTEGER_BITS[name] - 1)
    if not -limit <= number < limit:
        raise NumericValueOutOfRange(f"{name} out of range")
    return number


def numeric_width_bucket(value: str, low: str, high: str, count: int) -> int:
    """width_bucket(value, low, high, count) of numerics."""
    operand, lower, upper = Decimal(value), Decimal(low), Decimal(high)
    if count <= 0:
        raise InvalidArgumentForWidthBucketFunction("count must be greater than zero")
    if operand.is_nan() or lower.is_nan() or upper.is_nan():
        raise InvalidArgumentForWidthBucketFunction("operand, lower bound, and upper bound cannot be NaN")
    if lower.is_infinite() or upper.is_infinite():
        raise InvalidArgumentForWidthBucketFunction("lower and upper bounds must be finite")
    if lower == upper:
        raise InvalidArgumentForWidthBucketFunction("lower bound cannot equal upper bound")
    ascending = lower < upper
    if (operand < lower) if ascending else (operand > lower):
        return 0
    if (operand >= upper) if ascending else (operand <= upper):
        if count == 2**31 - 1:
            raise NumericValueOutOfRange("integer out of range")
        return count + 1
    context = _context(200)
    share = context.divide(
        context.multiply(Decimal(count), context.subtract(operand, lower)), context.subtract(upper, lower)
    )
    return int(share) + 1


_T, _I, _B, _F = "VARCHAR", "INTEGER", "BIGINT", "DOUBLE"

UDFS: Mapping[str, Udf] = {
    "tg_numeric_add": Udf((_T, _T), _T, add),
    "tg_numeric_sub": Udf((_T, _T), _T, subtract),
    "tg_numeric_mul": Udf((_T, _T), _T, multiply),
    "tg_numeric_div": Udf((_T, _T), _T, divide),
    "tg_numeric_idiv": Udf((_T, _T), _T, integer_divide),
    "tg_numeric_mod": Udf((_T, _T), _T, remainder),
    "tg_numeric_neg": Udf((_T,), _T, negative),
    "tg_numeric_abs": Udf((_T,), _T, absolute),
    "tg_numeric_sign": Udf((_T,), _T, sign),
    "tg_numeric_round": Udf((_T, _I), _T, round_to),
    "tg_numeric_trunc": Udf((_T, _I), _T, truncate_to),
    "tg_numeric_ceil": Udf((_T,), _T, lambda text: _rounded(text, 0, ROUND_CEILING)),
    "tg_numeric_floor": Udf((_T,), _T, lambda text: _rounded(text, 0, ROUND_FLOOR)),
    "tg_numeric_sqrt": Udf((_T,), _T, square_root),
    "tg_numeric_exp": Udf((_T,), _T, exponential),
    "tg_numeric_ln": Udf((_T,), _T, natural_logarithm),
    "tg_numeric_log10": Udf((_T,), _T, lambda text: logarithm("10", text)),
    "tg_numeric_log": Udf((_T, _T), _T, logarithm),
    "tg_numeric_power": Udf((_T, _T), _T, power),
    "tg_numeric_factorial": Udf((_T,), _T, factorial),
    "tg_numeric_gcd": Udf((_T, _T), _T, greatest_common_divisor),
    "tg_numeric_lcm": Udf((_T, _T), _T, least_common_multiple),
    "tg_numeric_sum": Udf((_T, _I, "VARCHAR[]"), _T, total, nulls=True),
    "tg_numeric_avg": Udf((_T, _I, "VARCHAR[]", _B), _T, average, nulls=True),
    "tg_numeric_over_distinct": Udf((_T, "VARCHAR[]"), _T, over_distinct),
    "tg_numeric_variance": Udf((_T, _B, _T, "VARCHAR[]"), _T, variance, nulls=True),
    "tg_numeric_variance_of": Udf((_T, "VARCHAR[]"), _T, variance_of),
    "tg_numeric_scale": Udf((_T,), _I, scale_of),
    "tg_numeric_min_scale": Udf((_T,), _I, min_scale),
    "tg_numeric_trim_scale": Udf((_T,), _T, trim_scale),
    "tg_numeric_series": Udf((_T, _T, _T), "VARCHAR[]", series),
    "tg_numeric_julian": Udf((_B,), _T, julian),
    "tg_numeric_in": Udf((_T,), _T, numeric_in),
    "tg_numeric_fit": Udf((_T, _I), _T, fit),
    "tg_numeric_fit_decimal": Udf((_T, _I), _T, fit_decimal),
    "tg_numeric_of_float": Udf((_F, _I), _T, of_float),
    "tg_numeric_to_integer": Udf((_T, _T), _B, to_integer),
    "tg_numeric_width_bucket": Udf((_T, _T, _T, _I), _I, numeric_width_bucket),
}
