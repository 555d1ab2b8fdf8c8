"""Integers and floats: shifts, powers, trigonometry of degrees, with PostgreSQL's errors."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping

from planner.common_errors import float_overflow
from planner.errors import (
    InvalidArgumentForPowerFunction,
    InvalidArgumentForWidthBucketFunction,
    NumericValueOutOfRange,
)
from planner.functions.udfs.table import Udf


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
    if base < 0 and not math.isinf(exponent) and exponent != math.floor(exponent):
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


_RADIANS_PER_DEGREE = 0.0174532925199432957692
_SIN_30 = math.sin(30.0 * _RADIANS_PER_DEGREE)
_ONE_MINUS_COS_60 = 1.0 - math.cos(60.0 * _RADIANS_PER_DEGREE)
_ASIN_HALF, _ACOS_HALF, _ATAN_ONE = math.asin(0.5), math.acos(0.5), math.atan(1.0)


def _sine_of_right_angle(degrees: float) -> float:
    """The sine of 0 to 90 degrees, exact at 0, 30 and 90."""
    if degrees <= 30.0:
        return math.sin(degrees * _RADIANS_PER_DEGREE) / _SIN_30 / 2.0
    return _cosine_to_60(90.0 - degrees)


def _cosine_to_60(degrees: float) -> float:
    return 1.0 - (1.0 - math.cos(degrees * _RADIANS_PER_DEGREE)) / _ONE_MINUS_COS_60 / 2.0


def _cosine_of_right_angle(degrees: float) -> float:
    """The cosine of 0 to 90 degrees, exact at 0, 60 and 90."""
    return _cosine_to_60(degrees) if degrees <= 60.0 else _sine_of_right_angle(90.0 - degrees)


_TAN_45 = _sine_of_right_angle(45.0) / _cosine_of_right_angle(45.0)
_COT_45 = _cosine_of_right_angle(45.0) / _sine_of_right_angle(45.0)


def _arc_sine(value: float) -> float:
    """Of 0 to 1."""
    if value <= 0.5:
        return math.asin(value) / _ASIN_HALF * 30.0
    return 90.0 - math.acos(value) / _ACOS_HALF * 60.0


def _arc_cosine(value: float) -> float:
    """Of 0 to 1."""
    if value <= 0.5:
        return 90.0 - math.asin(value) / _ASIN_HALF * 30.0
    return math.acos(value) / _ACOS_HALF * 60.0


def degrees(function: str, value: float) -> float:
    """The trigonometric functions of degrees, exact where PostgreSQL's are, and to the last digit by its ways
    (float.c: sind_q1 and its like). Raises 22003."""
    if function == "atand":
        return math.atan(value) / _ATAN_ONE * 45.0
    if function in ("asind", "acosd"):
        if abs(value) > 1:
            raise NumericValueOutOfRange("input is out of range")
        if function == "asind":
            return _arc_sine(value) if value >= 0 else -_arc_sine(-value)
        return _arc_cosine(value) if value >= 0 else 90.0 + _arc_sine(-value)
    if math.isinf(value):
        raise NumericValueOutOfRange("input is out of range")
    reduced = math.fmod(value, 360.0)
    odd, even = 1.0, 1.0
    if reduced < 0:
        reduced, odd = -reduced, -odd
    if reduced > 180.0:
        reduced, odd = 360.0 - reduced, -odd
    if reduced > 90.0:
        reduced, even = 180.0 - reduced, -even
    sine, cosine = _sine_of_right_angle(reduced), _cosine_of_right_angle(reduced)
    match function:
        case "sind":
            return odd * sine
        case "cosd":
            return even * cosine
        case "tand":
            found = odd * even * (math.inf if cosine == 0 else sine / cosine / _TAN_45)
        case _:
            found = odd * even * (math.copysign(math.inf, sine) if sine == 0 else cosine / sine / _COT_45)
    return found or 0.0


def arc_tangent_degrees(y: float, x: float) -> float:
    """atan2d()."""
    return math.atan2(y, x) / _ATAN_ONE * 45.0


def sent(kind: str, value: float) -> bytes:
    """float4send and float8send: the bytes of a float, the first one first."""
    return struct.pack(">f" if kind == "float4" else ">d", value)


_T, _I, _B, _F = "VARCHAR", "INTEGER", "BIGINT", "DOUBLE"

UDFS: Mapping[str, Udf] = {
    "tg_to_hex": Udf((_B,), _T, to_hex),
    "tg_shift": Udf((_T, _B, _I, _I), _B, shift),
    "tg_bit_count": Udf(("BLOB",), _B, bit_count),
    "tg_width_bucket": Udf((_F, _F, _F, _I), _I, width_bucket),
    "tg_float8_power": Udf((_F, _F), _F, float_power),
    "tg_float8_exp": Udf((_F,), _F, float_exponential),
    "tg_float_send": Udf((_T, _F), "BLOB", sent),
    "tg_degrees": Udf((_T, _F), _F, degrees),
    "tg_atan2d": Udf((_F, _F), _F, arc_tangent_degrees),
}
