"""How float4 and float8 are printed."""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from fractions import Fraction


def format_float(value: float, *, single: bool = False) -> str:
    """The shortest text that reads back as the same number, in PostgreSQL's style."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "-Infinity" if value < 0 else "Infinity"
    if single:
        text = next(
            candidate
            for digits in range(1, 10)
            if struct.pack("f", float(candidate := f"{value:.{digits - 1}e}")) == struct.pack("f", value)
        )
        limit = 6
    else:
        text = repr(value)
        limit = 15
    sign, digits, exponent = (
        Decimal(text).normalize().as_tuple() if value else (int(math.copysign(1, value) < 0), (0,), 0)
    )
    assert isinstance(exponent, int)
    body = "".join(map(str, digits))
    scientific = exponent + len(body) - 1
    prefix = "-" if sign else ""
    if scientific < -4 or scientific >= limit:
        fraction = f".{body[1:]}" if len(body) > 1 else ""
        return f"{prefix}{body[0]}{fraction}e{'-' if scientific < 0 else '+'}{abs(scientific):02d}"
    if exponent >= 0:
        return prefix + body + "0" * exponent
    if -exponent >= len(body):
        return f"{prefix}0.{'0' * (-exponent - len(body))}{body}"
    return f"{prefix}{body[:exponent]}.{body[exponent:]}"


def nearest_single(double: float, exact: Decimal | Fraction) -> float:
    """The float4 nearest to `exact`, of which `double` is the nearest float8; infinite where it is too large.

    SUBTLE: the float4 nearest to `double` is another one where `double` lies in the middle of two and `exact` does not.
    """
    try:
        packed = struct.pack("f", double)
    except OverflowError:
        return math.copysign(math.inf, double)
    near: float = struct.unpack("f", packed)[0]
    if near == double or not math.isfinite(double):
        return near
    (bits,) = struct.unpack("I", packed)
    away = abs(near) < abs(double)
    other: float = struct.unpack("f", struct.pack("I", bits + (1 if away else -1)))[0]
    if not math.isfinite(other) or double - near != other - double or exact == Decimal(double):
        return near
    return max(near, other) if exact > Decimal(double) else min(near, other)
