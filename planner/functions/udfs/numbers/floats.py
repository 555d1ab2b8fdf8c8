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
}
