"""Numbers as text and in binary: integers, floats, numeric.

Floats print PostgreSQL's shortest round-trip text (exponent form from 1e15 for float8, 1e6 for float4, and below 1e-4).
Arrow's own shortest form agrees for 1e-4 <= |x| < 1e15 (1e6) where it has no exponent; other values are written one row
at a time. numeric is Arrow decimal128(p, s) or the text that is shown; its binary form is base 10000 (numeric_send).
"""

from __future__ import annotations

import math
from decimal import Decimal
from struct import pack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frontend.encoding.columns import (
    ArrowArray,
    ColumnEncoder,
    Encoded,
    as_binary,
    binary_from_lengths,
    data_of,
    encoded_values,
    map_distinct,
    null_mask,
    numpy_values,
    replace_rows,
    without_nulls,
)

FLOAT8_EXPONENT_FROM = 15
FLOAT4_EXPONENT_FROM = 6
"""Decimal exponents from which shortest output is in exponent form (PostgreSQL, double_to_shortest_decimal)."""

NUMERIC_NEGATIVE = 0x4000
_NUMERIC_SPECIAL = {"NaN": 0xC000, "Infinity": 0xD000, "-Infinity": 0xF000}


def format_float(value: float, *, single: bool = False, extra_float_digits: int = 1) -> str:
    """One float as PostgreSQL prints it; `single` for float4."""
    if not single and extra_float_digits > 0 and -1e15 < value < 1e15 and "e" not in (shortest := repr(value)):
        return shortest.removesuffix(".0")
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if extra_float_digits <= 0:
        digits = max(1, (6 if single else 15) + extra_float_digits)
        return f"{value:.{digits}g}"
    shortest = _shortest_digits(value, single=single)
    mantissa, _, exponent_text = shortest.partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    digits_text = (whole + fraction).lstrip("0")
    if not digits_text:
        return sign + "0"
    leading_zeros = len(whole + fraction) - len(digits_text)
    exponent = len(whole) - leading_zeros - 1 + (int(exponent_text) if exponent_text else 0)
    digits_text = digits_text.rstrip("0")
    threshold = FLOAT4_EXPONENT_FROM if single else FLOAT8_EXPONENT_FROM
    if exponent < -4 or exponent >= threshold:
        point = "." + digits_text[1:] if len(digits_text) > 1 else ""
        return f"{sign}{digits_text[0]}{point}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits_text}"
    if len(digits_text) <= exponent + 1:
        return sign + digits_text.ljust(exponent + 1, "0")
    return f"{sign}{digits_text[: exponent + 1]}.{digits_text[exponent + 1 :]}"


def _shortest_digits(value: float, *, single: bool) -> str:
    """The shortest decimal strictly nearer to the value than to its neighbours. PostgreSQL, unlike Python, takes no
    decimal that lies exactly half-way; there are such only among integers too large for the mantissa."""
    shortest = str(np.float32(value)) if single else repr(value)
    if abs(value) < (2.0**24 if single else 2.0**53):
        return shortest
    number = np.float32(value) if single else np.float64(value)
    exact = Decimal(value)
    for digits in range(1, 18):
        distance = Decimal(shortest) - exact
        with np.errstate(over="ignore"):  # The neighbour of the largest number is infinite.
            neighbour = float(np.nextafter(number, type(number)(math.inf if distance > 0 else -math.inf)))
        if math.isinf(neighbour) or abs(distance) * 2 < abs(Decimal(neighbour) - exact):
            break
        shortest = f"{value:.{digits}e}"
    return shortest


def integer_text(array: ArrowArray) -> Encoded:
    """Integers of any width in decimal."""
    return encoded_values(pc.cast(array, pa.string()))


def float_text_encoder(*, single: bool, extra_float_digits: int) -> ColumnEncoder:
    """The encoder of float4 (`single`) or float8 under this extra_float_digits."""

    def one(value: float) -> bytes:
        return format_float(value, single=single, extra_float_digits=extra_float_digits).encode()

    def encode(array: ArrowArray) -> Encoded:
        values = numpy_values(array, np.float32 if single else np.float64)
        nulls = null_mask(array)
        if extra_float_digits <= 0:
            return Encoded(values=without_nulls(map_distinct(array, one)), nulls=nulls)
        text = without_nulls(as_binary(pc.cast(array, pa.string())))
        magnitude = np.abs(values)
        plain = (magnitude >= 1e-4) & (magnitude < (1e6 if single else 1e15))
        unusual = ~(plain | (magnitude == 0))
        # Arrow writes round numbers in exponent form, such as 2e+10.
        unusual |= pc.match_substring(text, "e").to_numpy(zero_copy_only=False)
        if nulls is not None:
            unusual &= ~nulls
        if unusual.any():
            text = replace_rows(text, unusual, [one(value) for value in values[unusual].tolist()])
        return Encoded(values=text, nulls=nulls)

    return encode


def _digits_of(array: ArrowArray, width: int) -> ArrowArray:
    """The decimal digits of each |unscaled value|, padded with zeros on the left to at least `width`; NULL is empty."""
    unscaled = pa.Array.from_buffers(
        pa.decimal128(38, 0), len(array), array.buffers(), null_count=array.null_count, offset=array.offset
    )
    digits = pc.cast(pc.abs(unscaled), pa.string())
    return pc.fill_null(pc.ascii_lpad(digits, width=width, padding="0"), "0" * width)


def _is_negative(array: ArrowArray) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    high: np.ndarray[tuple[int], np.dtype[np.int64]] = numpy_values_128(array)[:, 1]
    return high < 0


def numpy_values_128(array: ArrowArray) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """The (low, high) 64-bit words of a decimal128 array."""
    if len(array) == 0:
        return np.zeros((0, 2), dtype=np.int64)
    words = np.frombuffer(array.buffers()[1], dtype=np.int64, count=2 * (array.offset + len(array)))
    return words.reshape(-1, 2)[array.offset :]


def _as_decimal128(array: ArrowArray) -> ArrowArray:
    if pa.types.is_decimal128(array.type):
        return array
    if pa.types.is_integer(array.type):
        return pc.cast(pc.cast(array, pa.int64()), pa.decimal128(19, 0))
    return pc.cast(array, pa.decimal128(38, array.type.scale))


def numeric_text(array: ArrowArray) -> Encoded:
    """numeric held as decimals: exactly the fraction digits of their Arrow scale."""
    decimals = _as_decimal128(array)
    text = pc.cast(decimals, pa.string())
    # Arrow writes values below 1e-6 in exponent form.
    if pc.any(pc.match_substring(text, "E")).as_py():
        text = _plain_numeric_text(decimals)
    return Encoded(values=without_nulls(as_binary(text)), nulls=null_mask(decimals))


def _plain_numeric_text(array: ArrowArray) -> ArrowArray:
    scale = array.type.scale
    digits = _digits_of(array, scale + 1)
    sign = pa.array(np.where(_is_negative(array), "-", "").tolist(), pa.string())
    if scale <= 0:
        text = pc.binary_join_element_wise(sign, digits, "")
    else:
        text = pc.binary_join_element_wise(
            sign, pc.utf8_slice_codeunits(digits, 0, -scale), ".", pc.utf8_slice_codeunits(digits, -scale), ""
        )
    mask = null_mask(array)
    return text if mask is None else pc.if_else(pa.array(mask), pa.scalar(None, pa.string()), text)


def numeric_binary(array: ArrowArray) -> Encoded:
    """Decimals in base 10000: int16 ndigits, weight, sign, dscale, then the digits without zeros at either end."""
    decimals = _as_decimal128(array)
    count = len(decimals)
    scale = max(decimals.type.scale, 0)
    whole_groups = max(1, -(-(38 - scale) // 4))
    fraction_groups = -(-scale // 4)
    width = whole_groups * 4 + scale
    padded = pc.ascii_rpad(_digits_of(decimals, width), width=(whole_groups + fraction_groups) * 4, padding="0")
    data, _ = data_of(padded.view(pa.binary()))
    places = data.reshape(count, -1) - ord("0")
    groups = places.reshape(count, whole_groups + fraction_groups, 4).astype(np.int16) @ np.array(
        [1000, 100, 10, 1], dtype=np.int16
    )
    nonzero = groups != 0
    any_digit = nonzero.any(axis=1)
    first = np.where(any_digit, nonzero.argmax(axis=1), 0)
    last = np.where(any_digit, groups.shape[1] - 1 - nonzero[:, ::-1].argmax(axis=1), -1)
    table = np.empty((count, 4 + groups.shape[1]), dtype=">i2")
    table[:, 0] = np.where(any_digit, last - first + 1, 0)
    table[:, 1] = np.where(any_digit, whole_groups - 1 - first, 0)
    table[:, 2] = np.where(_is_negative(decimals), NUMERIC_NEGATIVE, 0)
    table[:, 3] = scale
    table[:, 4:] = groups
    position = np.arange(groups.shape[1])
    keep = np.ones(table.shape, dtype=bool)
    keep[:, 4:] = (position >= first[:, None]) & (position <= last[:, None])
    nulls = null_mask(decimals)
    if nulls is not None:
        keep[nulls] = False
    return Encoded(values=binary_from_lengths(keep.sum(axis=1) * 2, table[keep], count), nulls=nulls)


def numeric_sent(value: Decimal) -> bytes:
    """The binary form of any numeric."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        # PostgreSQL sends a scale with the infinities.
        return pack(">HhHH", 0, 0, _NUMERIC_SPECIAL[str(value)], 0 if value.is_nan() else 0x20)
    scale = max(-exponent, 0)
    whole = "".join(map(str, digits)) + "0" * max(exponent, 0)
    whole = whole.rjust(scale + 1, "0")
    before, after = whole[: len(whole) - scale], whole[len(whole) - scale :]
    before = before.rjust(-(-len(before) // 4) * 4, "0")
    after = after.ljust(-(-len(after) // 4) * 4, "0")
    groups = [int((before + after)[at : at + 4]) for at in range(0, len(before + after), 4)]
    weight = len(before) // 4 - 1
    first = next((place for place, group in enumerate(groups) if group), len(groups))
    groups, weight = groups[first:], weight - first
    while groups and not groups[-1]:
        groups.pop()
    negative = NUMERIC_NEGATIVE if sign else 0
    return pack(f">HhHH{len(groups)}H", len(groups), weight if groups else 0, negative, scale, *groups)


def wide_numeric_binary(array: ArrowArray) -> Encoded:
    """numeric held as text, in base 10000."""
    sent = map_distinct(array, lambda text: numeric_sent(Decimal(text)))
    return Encoded(values=without_nulls(sent), nulls=null_mask(array))
