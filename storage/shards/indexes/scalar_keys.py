"""The keys of `storage.shards.indexes.keys` for one key at a time: point reads have no time for arrays of one element.

A key is a tuple of *plain* values, one for each column: None for NULL, int (INTEGER, also for dates and times: their
numbers), float, Decimal scaled by 10**38 as an int, bytes (TEXT in UTF-8, BYTES) or (days, microseconds). `plain` makes
them from Python's values, `plain_scalar` from Arrow's; equal keys have equal plain values.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa

from storage.shards.indexes.definition import Domain, KeyColumn
from storage.shards.indexes.keys import (
    DAY_MICROS,
    DECIMAL_SCALE,
    LONG_BYTES,
    MONTH_DAYS,
    MULTIPLIERS,
    NULL_WORD,
    SEED,
    null_bits,
)
from storage.shards.parts import stat_value

Plain: TypeAlias = int | bytes | tuple[int, int] | None

_MASK = (1 << 64) - 1
_LIMBS = (1 << 256) - 1
_FIRST, _SECOND = MULTIPLIERS
_DOUBLE = struct.Struct("<d")
_WORD = struct.Struct("<Q")
_NAN = 0x7FF8000000000000
_ONE: int = 10**DECIMAL_SCALE


def plain(column: KeyColumn, value: Any) -> Plain:
    """The Python value `value` of the column's type: int, bool, date, time, datetime (or the number of any), float,
    Decimal, str, bytes, (months, days, microseconds). Raises ValueError when the column can hold nothing like it."""
    if value is None:
        return None
    match column.domain:
        case Domain.INTEGER:
            if type(value) is int:
                return value
            number = stat_value(value)
            if not isinstance(number, int):
                raise ValueError(f"{value!r} is no value of type {column.source.type}")
            return number
        case Domain.TEXT:
            text: str = value.rstrip(" ") if column.padded else value
            return text.encode()
        case Domain.BYTES:
            return bytes(value)
        case Domain.FLOAT:
            return float_order(float(value))
        case Domain.DECIMAL:
            return scaled(value)
        case Domain.INTERVAL:
            if isinstance(value, dict):
                value = value["months"], value["days"], value["micros"]
            months, days, micros = value
            whole, rest = divmod(micros, DAY_MICROS)
            return months * MONTH_DAYS + days + whole, rest


def plain_scalar(column: KeyColumn, value: pa.Scalar) -> Plain:
    """As `plain`, of an Arrow value; also for dates and timestamps that Python does not have."""
    if not value.is_valid:
        return None
    if pa.types.is_temporal(value.type):
        number: int = value.value
        return number
    return plain(column, value.as_py())


_NUMBERS = {
    pa.date32().id: pa.int32(),
    pa.timestamp("us").id: pa.int64(),
    pa.time64("us").id: pa.int64(),
}
"""By the type of an array: what its values are numbers of."""


def plain_list(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values of an array, dates, times and timestamps as their numbers: Python does not have all of them."""
    number = _NUMBERS.get(column.type.id)
    return (column if number is None else column.cast(number)).to_pylist()  # type: ignore[no-any-return]


def float_order(value: float) -> int:
    """64 bits that compare as the numbers do."""
    # -0.0 + 0.0 is 0.0.
    bits: int = _NAN if math.isnan(value) else _WORD.unpack(_DOUBLE.pack(value + 0.0))[0]
    return bits ^ _MASK if bits >> 63 else bits | 1 << 63


def scaled(value: Decimal | int) -> int:
    """`value` times 10**38. Raises ValueError when that is no whole number."""
    if isinstance(value, int):
        return value * _ONE
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise ValueError(f"{value} is no number")
    number: int = int("".join(map(str, digits)))
    shift = DECIMAL_SCALE + exponent
    if shift >= 0:
        number *= 10**shift
    else:
        number, rest = divmod(number, 10**-shift)
        if rest:
            raise ValueError(f"{value} has more than {DECIMAL_SCALE} fraction digits")
    return -number if sign else number


def _mixed(word: int) -> int:
    word ^= word >> 30
    word = word * _FIRST & _MASK
    word ^= word >> 27
    word = word * _SECOND & _MASK
    return word ^ word >> 31


def hash_of(columns: Sequence[KeyColumn], key: Sequence[Plain]) -> int:
    """See `keys.hashes`."""
    hashed = SEED
    for column, value in zip(columns, key, strict=True):
        if value is None:
            hashed = _mixed(hashed ^ NULL_WORD)
        elif isinstance(value, bytes):
            length = len(value)
            if length > LONG_BYTES:
                word = int.from_bytes(hashlib.blake2b(value, digest_size=8).digest(), "little")
                hashed = _mixed(hashed ^ word)
            else:
                for at in range(0, length, 8):
                    hashed = _mixed(hashed ^ int.from_bytes(value[at : at + 8], "little"))
            hashed = _mixed(hashed ^ length)
        elif isinstance(value, tuple):
            hashed = _mixed(_mixed(hashed ^ value[0] & _MASK) ^ value[1] & _MASK)
        elif column.domain is Domain.DECIMAL:
            limbs = value & _LIMBS
            for _ in range(4):
                hashed = _mixed(hashed ^ limbs & _MASK)
                limbs >>= 64
        else:
            hashed = _mixed(hashed ^ value & _MASK)
    return hashed


def prefix_of(columns: Sequence[KeyColumn], key: Sequence[Plain]) -> tuple[int, int]:
    """See `keys.prefixes`: the prefix of a key (which may have values for the first columns only), and the bits of the
    whole encoding. Keys that begin with the same values have prefixes from this to ``prefix | ones(64 - bits)``."""
    bits = used = 0
    for column, value in zip(columns, key, strict=False):
        if value is None:
            length = null_bits(column)
            code = 0 if column.nulls_first else (1 << length) - 1
        else:
            code, length = _encoded(column, value)
            if column.descending:
                code ^= (1 << length) - 1
        bits = bits << length | code
        used += length
    return (bits << 64 - used if used <= 64 else bits >> used - 64), used


def _encoded(column: KeyColumn, value: int | bytes | tuple[int, int]) -> tuple[int, int]:
    """A value's encoding and its length in bits; both cut off somewhere after 64 bits."""
    if isinstance(value, tuple):
        first, length = _encoded_integer(value[0])
        second, more = _encoded_integer(value[1])
        return first << more | second, length + more
    if isinstance(value, bytes):
        length = len(value)
        if column.domain is Domain.TEXT:
            code = 0
            for byte in value[:8]:
                code = code << 8 | byte + 2
            return code << 8 | 1, 8 * min(length + 1, 9)
        first = int.from_bytes(value[:7].ljust(7, b"\0"), "big")
        code = 1 << 62 | first << 6 | min(length, 8) << 2
        return (code, 64) if length <= 7 else (code << 8, 72)
    if column.domain is Domain.INTEGER:
        return _encoded_integer(value)
    if column.domain is Domain.FLOAT:
        return (1 << 62 | value >> 2, 64) if not value & 3 else (1 << 64 | value, 66)
    magnitude = ~value if value < 0 else value
    place = magnitude.bit_length()
    fraction = magnitude << 54 - place if place <= 54 else magnitude >> place - 54
    body = 1 << 61 | place << 53 | fraction & (1 << 53) - 1
    if value < 0:
        body = ~body & (1 << 62) - 1
    return (1 << 62 | body) << 2, 66


def _encoded_integer(value: int) -> tuple[int, int]:
    if value < 0:
        size = (~value).bit_length() + 7 >> 3
        head = 0x7F - size
    else:
        size = value.bit_length() + 7 >> 3
        head = 0x80 + size
    return head << 8 * size | value & (1 << 8 * size) - 1, 8 + 8 * size
