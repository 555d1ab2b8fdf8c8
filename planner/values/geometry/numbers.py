"""The numbers of geometry: float8 with PostgreSQL's errors, and comparisons that let a millionth pass.

Source: PostgreSQL's utils/geo_decls.h (EPSILON, FPeq and its like) and utils/float.h (overflow, underflow, division).
"""

from __future__ import annotations

import math

from planner.errors import DivisionByZero, NumericValueOutOfRange

EPSILON = 1.0e-06

INFINITY = math.inf


def is_zero(a: float) -> bool:
    return abs(a) <= EPSILON


def eq(a: float, b: float) -> bool:
    return a == b or abs(a - b) <= EPSILON


def ne(a: float, b: float) -> bool:
    """Not for NaN."""
    return a != b and abs(a - b) > EPSILON


def lt(a: float, b: float) -> bool:
    return a + EPSILON < b


def le(a: float, b: float) -> bool:
    return a <= b + EPSILON


def gt(a: float, b: float) -> bool:
    return a > b + EPSILON


def ge(a: float, b: float) -> bool:
    return a + EPSILON >= b


def _overflow() -> NumericValueOutOfRange:
    return NumericValueOutOfRange("value out of range: overflow")


def _underflow() -> NumericValueOutOfRange:
    return NumericValueOutOfRange("value out of range: underflow")


def add(a: float, b: float) -> float:
    """a + b. Raises 22003 like float8_pl."""
    result = a + b
    if math.isinf(result) and not math.isinf(a) and not math.isinf(b):
        raise _overflow()
    return result


def sub(a: float, b: float) -> float:
    """a - b. Raises 22003 like float8_mi."""
    return add(a, -b)


def mul(a: float, b: float) -> float:
    """a * b. Raises 22003 like float8_mul."""
    result = a * b
    if math.isinf(result) and not math.isinf(a) and not math.isinf(b):
        raise _overflow()
    if result == 0.0 and a != 0.0 and b != 0.0:
        raise _underflow()
    return result


def div(a: float, b: float) -> float:
    """a / b. Raises 22012, 22003 like float8_div."""
    if b == 0.0:
        if math.isnan(a):
            return a
        raise DivisionByZero("division by zero")
    result = a / b
    if math.isinf(result) and not math.isinf(a):
        raise _overflow()
    if result == 0.0 and a != 0.0 and not math.isinf(b):
        raise _underflow()
    return result


def hypot(x: float, y: float) -> float:
    """The length of (x, y) by pg_hypot's formula, to its last bit. Raises 22003."""
    if math.isinf(x) or math.isinf(y):
        return math.inf
    if math.isnan(x) or math.isnan(y):
        return math.nan
    long, short = max(abs(x), abs(y)), min(abs(x), abs(y))
    if short == 0.0:
        return long
    ratio = short / long
    result = long * math.sqrt(1.0 + ratio * ratio)
    if math.isinf(result):
        raise _overflow()
    if result == 0.0:
        raise _underflow()
    return result


def less(a: float, b: float) -> bool:
    """a < b where NaN is greater than all else (float8_lt)."""
    return not math.isnan(a) and (math.isnan(b) or a < b)


def smaller(a: float, b: float) -> float:
    return a if less(a, b) else b


def greater(a: float, b: float) -> float:
    return a if less(b, a) else b


def same(a: float, b: float) -> bool:
    """a = b where NaN equals itself (float8_eq)."""
    return a == b or (math.isnan(a) and math.isnan(b))
