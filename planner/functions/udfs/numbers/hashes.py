"""PostgreSQL's hash functions, with its very values: applications lock by `hashtext('name')` and split rows by them.

Source: common/hashfn.c (Bob Jenkins' lookup3, in the byte order of little-endian machines) and access/hash/hashfunc.c.
"""

from __future__ import annotations

import math
import struct
import uuid
from collections.abc import Mapping

from planner.functions.udfs.table import Udf

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


UDFS: Mapping[str, Udf] = {
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
