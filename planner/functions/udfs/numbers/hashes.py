"""PostgreSQL's hash functions, with its very values: applications lock by `hashtext('name')` and split rows by them.

Source: common/hashfn.c (Bob Jenkins' lookup3, in the byte order of little-endian machines) and access/hash/hashfunc.c.
"""

from __future__ import annotations

import ipaddress
import math
import struct
import uuid
from collections.abc import Callable, Mapping
from decimal import Decimal

from planner.functions.udfs.table import INTERVAL, Udf
from planner.values.opaque.timetz import fields_of

_MASK = 0xFFFFFFFF
_START = 0x9E3779B9 + 3923095


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & _MASK


def _mixed(a: int, b: int, c: int) -> tuple[int, int, int]:
    a = ((a - c) & _MASK) ^ _rotated(c, 4)
    c = (c + b) & _MASK
    b = ((b - a) & _MASK) ^ _rotated(a, 6)
    a = (a + c) & _MASK
    c = ((c - b) & _MASK) ^ _rotated(b, 8)
    b = (b + a) & _MASK
    a = ((a - c) & _MASK) ^ _rotated(c, 16)
    c = (c + b) & _MASK
    b = ((b - a) & _MASK) ^ _rotated(a, 19)
    a = (a + c) & _MASK
    c = ((c - b) & _MASK) ^ _rotated(b, 4)
    b = (b + a) & _MASK
    return a, b, c


def _final(a: int, b: int, c: int) -> tuple[int, int]:
    c = ((c ^ b) - _rotated(b, 14)) & _MASK
    a = ((a ^ c) - _rotated(c, 11)) & _MASK
    b = ((b ^ a) - _rotated(a, 25)) & _MASK
    c = ((c ^ b) - _rotated(b, 16)) & _MASK
    a = ((a ^ c) - _rotated(c, 4)) & _MASK
    b = ((b ^ a) - _rotated(a, 14)) & _MASK
    c = ((c ^ b) - _rotated(b, 24)) & _MASK
    return b, c


def _seeded(length: int, seed: int) -> tuple[int, int, int]:
    start = (_START + length) & _MASK
    if not seed:
        return start, start, start
    return _mixed((start + (seed >> 32 & _MASK)) & _MASK, (start + (seed & _MASK)) & _MASK, start)


def _of_bytes(data: bytes, seed: int) -> tuple[int, int]:
    a, b, c = _seeded(len(data), seed)
    whole = len(data) // 12 * 12
    for x, y, z in struct.iter_unpack("<III", data[:whole]):
        a, b, c = _mixed((a + x) & _MASK, (b + y) & _MASK, (c + z) & _MASK)
    rest = data[whole:]
    a += int.from_bytes(rest[:4], "little")
    b += int.from_bytes(rest[4:8], "little")
    # The lowest byte of the third number stands for the length.
    c += int.from_bytes(rest[8:], "little") << 8
    return _final(a & _MASK, b & _MASK, c & _MASK)


def _of_uint32(value: int, seed: int) -> tuple[int, int]:
    a, b, c = _seeded(4, seed)
    return _final((a + (value & _MASK)) & _MASK, b, c)


def _as_int4(halves: tuple[int, int]) -> int:
    return halves[1] - (1 << 32) if halves[1] >> 31 else halves[1]


def _as_int8(halves: tuple[int, int]) -> int:
    value = halves[0] << 32 | halves[1]
    return value - (1 << 64) if value >> 63 else value


def _folded(value: int) -> int:
    """The 32 bits that are hashed for a bigint: such that equal int4 and int8 have equal hashes."""
    high = value >> 32 & _MASK
    return (value & _MASK) ^ (high if value >= 0 else ~high & _MASK)


def _float_bytes(value: float) -> bytes:
    return struct.pack("<d", math.nan if math.isnan(value) else value)


def hash_bytes(data: bytes) -> int:
    """hash_any: 32 bits of some bytes, as an int4."""
    return _as_int4(_of_bytes(data, 0))


def hash_bytes_extended(data: bytes, seed: int) -> int:
    """hash_any_extended: 64 bits of some bytes, as an int8; with the seed 0 its low half is `hash_bytes`."""
    return _as_int8(_of_bytes(data, seed))


def hash_int8(value: int) -> int:
    """hashint8(), hashint4() and hashint2()."""
    return _as_int4(_of_uint32(_folded(value), 0))


def hash_int8_extended(value: int, seed: int) -> int:
    """hashint8extended() and its like."""
    return _as_int8(_of_uint32(_folded(value), seed))


def hash_float8(value: float) -> int:
    """hashfloat8() and hashfloat4(): both zeros have one hash."""
    return 0 if value == 0 else hash_bytes(_float_bytes(value))


def hash_float8_extended(value: float, seed: int) -> int:
    """hashfloat8extended() and hashfloat4extended()."""
    return seed if value == 0 else hash_bytes_extended(_float_bytes(value), seed)


def _numeric_digits(text: str) -> tuple[bytes, int]:
    """What hash_numeric() hashes: the digits of base 10,000 without zeros at either end, and the power of the first."""
    _, decimals, exponent = Decimal(text).as_tuple()
    assert isinstance(exponent, int)
    shift = exponent % 4
    number = int("".join(map(str, decimals))) * 10**shift
    digits: list[int] = []
    while number:
        number, digit = divmod(number, 10_000)
        digits.append(digit)
    weight = (exponent - shift) // 4 + len(digits) - 1
    while digits and not digits[0]:
        digits.pop(0)
    return b"".join(digit.to_bytes(2, "little") for digit in reversed(digits)), weight


def hash_numeric(text: str) -> int:
    """hash_numeric(), of the text of a numeric: whatever its scale."""
    if not Decimal(text).is_finite():
        return 0
    digits, weight = _numeric_digits(text)
    return hash_bytes(digits) ^ weight if digits else -1


def hash_numeric_extended(text: str, seed: int) -> int:
    """hash_numeric_extended()."""
    if not Decimal(text).is_finite():
        return seed
    digits, weight = _numeric_digits(text)
    if digits:
        return hash_bytes_extended(digits, seed) ^ weight
    return _signed(seed - 1)


def hash_timetz(text: str) -> int:
    """timetz_hash(): of the clock and of the zone, in seconds west of Greenwich."""
    micros, east = fields_of(text)
    return hash_int8(micros) ^ _as_int4(_of_uint32(-east, 0))


def hash_timetz_extended(text: str, seed: int) -> int:
    """timetz_hash_extended()."""
    micros, east = fields_of(text)
    return hash_int8_extended(micros, seed) ^ _as_int8(_of_uint32(-east, seed))


def _interval_span(interval: Mapping[str, int]) -> int:
    """The length of an interval of months of 30 days, as an int8 that wraps around (interval_cmp_value)."""
    return _signed((interval["months"] * 30 + interval["days"]) * 86_400_000_000 + interval["micros"])


def _signed(value: int) -> int:
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def _address_bytes(text: str) -> bytes:
    """An inet as it is hashed: family, bits of the mask, address."""
    found = ipaddress.ip_interface(text)
    return bytes((2 if found.version == 4 else 3, found.network.prefixlen)) + found.ip.packed


def _of_data(read: Callable[[str], bytes]) -> tuple[Udf, Udf]:
    """The hash of the bytes that `read` makes of a value's text, and the one with a seed."""
    return (
        Udf(("VARCHAR",), "INTEGER", lambda text: hash_bytes(read(text))),
        Udf(("VARCHAR", "BIGINT"), "BIGINT", lambda text, seed: hash_bytes_extended(read(text), seed)),
    )


_INET, _INET_EXTENDED = _of_data(_address_bytes)
_MAC, _MAC_EXTENDED = _of_data(lambda text: bytes.fromhex(text.replace(":", "")))

UDFS: Mapping[str, Udf] = {
    "tg_hash_inet": _INET,
    "tg_hash_inet_extended": _INET_EXTENDED,
    "tg_hash_mac": _MAC,
    "tg_hash_mac_extended": _MAC_EXTENDED,
    "tg_hash_numeric": Udf(("VARCHAR",), "INTEGER", hash_numeric),
    "tg_hash_numeric_extended": Udf(("VARCHAR", "BIGINT"), "BIGINT", hash_numeric_extended),
    "tg_hash_timetz": Udf(("VARCHAR",), "INTEGER", hash_timetz),
    "tg_hash_timetz_extended": Udf(("VARCHAR", "BIGINT"), "BIGINT", hash_timetz_extended),
    "tg_hash_interval": Udf((INTERVAL,), "INTEGER", lambda interval: hash_int8(_interval_span(interval))),
    "tg_hash_interval_extended": Udf(
        (INTERVAL, "BIGINT"), "BIGINT", lambda interval, seed: hash_int8_extended(_interval_span(interval), seed)
    ),
    "tg_hash_text": Udf(("VARCHAR",), "INTEGER", lambda text: hash_bytes(text.encode())),
    "tg_hash_text_extended": Udf(
        ("VARCHAR", "BIGINT"), "BIGINT", lambda text, seed: hash_bytes_extended(text.encode(), seed)
    ),
    "tg_hash_int8": Udf(("BIGINT",), "INTEGER", hash_int8),
    "tg_hash_int8_extended": Udf(("BIGINT", "BIGINT"), "BIGINT", hash_int8_extended),
    "tg_hash_float8": Udf(("DOUBLE",), "INTEGER", hash_float8),
    "tg_hash_float8_extended": Udf(("DOUBLE", "BIGINT"), "BIGINT", hash_float8_extended),
    "tg_hash_uuid": Udf(("VARCHAR",), "INTEGER", lambda text: hash_bytes(uuid.UUID(text).bytes)),
    "tg_hash_uuid_extended": Udf(
        ("VARCHAR", "BIGINT"), "BIGINT", lambda text, seed: hash_bytes_extended(uuid.UUID(text).bytes, seed)
    ),
}
