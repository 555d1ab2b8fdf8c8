"""How values between the bounds of ranges become bytes that compare as the values do, and none of which another begins
with: a `Codec` for each type that ranges are over.

Numbers, dates (days since 1970), times and timestamps (microseconds, since midnight and since 1970) are big-endian
integers with the sign bit inverted; floats their bits, inverted where they are negative; numerics sign, decimal
exponent and digits; texts their bytes and a zero, which none of them has; byte strings likewise, a zero in them written
``00 FF`` and their end ``00 00``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from msgspec import Struct

from planner.errors import FeatureNotSupported
from planner.types import types as t
from planner.types.ranges import RangeType
from planner.types.type_names import format_type
from planner.values.datetimes.calendar_days import (
    DATE_INFINITY,
    TIMESTAMP_INFINITY,
    clock_micros,
    clock_of,
    date_of,
    days_of,
    micros_of,
    timestamp_of,
    timestamptz_of,
)
from planner.values.opaque.address_text import lsn_of, show_lsn
from planner.values.opaque.money_text import cents_of, show_money
from planner.values.opaque.network_text import Network, parse_inet
from planner.values.opaque.timetz import DAY_MICROS, fields_of, show_timetz


class Codec(Struct, frozen=True, kw_only=True):
    """How values of a subtype become bytes. `width` is how many they are, 0 when that depends on the value: then
    `value_end` tells where one ends that begins somewhere.

    The values are as `plain_value` gives them: int (also of dates, times and timestamps, whose infinities are the ends
    of their integers), float, Decimal, bytes, and str of everything else."""

    subtype: int
    width: int
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]
    value_end: Callable[[bytes, int], int] | None = None
    scaled: bool = False
    """Whether a bound has a SCALE behind its flag."""

    def key(self, bound: bytes) -> bytes:
        """What is compared of a bound."""
        return bound if not self.scaled or bound[0] != 1 else bound[:-2]

    def end(self, data: bytes, start: int) -> int:
        """Where the bound ends that begins at `start`."""
        if data[start] != 1:
            return start + 1
        if self.value_end is None:
            return start + 2 + self.width
        return self.value_end(data, start + 1) + (3 if self.scaled else 1)


def _integers(subtype: int, width: int) -> Codec:
    offset = 1 << (8 * width - 1)
    return Codec(
        subtype=subtype,
        width=width,
        encode=lambda value: (value + offset).to_bytes(width),
        decode=lambda data: int.from_bytes(data[:width]) - offset,
    )


_MINUS_INFINITY, _NEGATIVE, _ZERO, _POSITIVE, _INFINITY, _NAN = range(6)
_EXPONENT_OFFSET = 1 << 31
_INVERTED = bytes(255 - byte for byte in range(256))


def _encode_numeric(value: Decimal) -> bytes:
    if value.is_nan():
        return bytes([_NAN])
    if value.is_infinite():
        return bytes([_MINUS_INFINITY if value < 0 else _INFINITY])
    if not value:
        return bytes([_ZERO])
    sign, digits, _ = value.as_tuple()
    shown = "".join(map(str, digits)).lstrip("0").rstrip("0")
    shown += "0" * (len(shown) % 2)
    pairs = bytes(int(shown[at : at + 2]) + 1 for at in range(0, len(shown), 2))
    body = (value.adjusted() + _EXPONENT_OFFSET).to_bytes(4) + pairs + b"\x00"
    return bytes([_NEGATIVE]) + body.translate(_INVERTED) if sign else bytes([_POSITIVE]) + body


def _numeric_end(data: bytes, start: int) -> int:
    sign = data[start]
    if sign not in (_NEGATIVE, _POSITIVE):
        return start + 1
    return data.index(b"\x00" if sign == _POSITIVE else b"\xff", start + 5) + 1


def _decode_numeric(data: bytes) -> Decimal:
    sign = data[0]
    end = _numeric_end(data, 0)
    scale = int.from_bytes(data[end + 1 : end + 3])
    special = {_MINUS_INFINITY: Decimal("-Infinity"), _INFINITY: Decimal("Infinity"), _NAN: Decimal("NaN")}.get(sign)
    if special is not None:
        return special
    if sign == _ZERO:
        return Decimal((0, (0,), -scale))
    body = data[1 : end - 1] if sign == _POSITIVE else data[1 : end - 1].translate(_INVERTED)
    digits = "".join([f"{pair - 1:02d}" for pair in body[4:]])
    adjusted = int.from_bytes(body[:4]) - _EXPONENT_OFFSET
    digits = digits.rstrip("0")
    shown = digits.ljust(max(adjusted + 1 + scale, 1), "0")
    return Decimal((int(sign == _NEGATIVE), tuple(map(int, shown)), adjusted + 1 - len(shown)))


def _floats(subtype: int, width: int) -> Codec:
    packed = struct.Struct(">d" if width == 8 else ">f")
    sign, every = 1 << (8 * width - 1), (1 << (8 * width)) - 1

    def encode(value: float) -> bytes:
        # All zeros are one value, and so are all that are no number.
        bits = int.from_bytes(packed.pack(value + 0.0 if value == value else float("nan")))
        return (
            (bits & ~sign if value != value else bits) ^ (sign if value != value or bits < sign else every)
        ).to_bytes(width)

    def decode(data: bytes) -> float:
        bits = int.from_bytes(data[:width])
        found: float = packed.unpack((bits ^ (sign if bits >= sign else every)).to_bytes(width))[0]
        return found

    return Codec(subtype=subtype, width=width, encode=encode, decode=decode)


def _texts(subtype: int) -> Codec:
    return Codec(
        subtype=subtype,
        width=0,
        encode=lambda value: value.encode() + b"\x00",
        decode=lambda data: data[: data.index(0)].decode(),
        value_end=lambda data, start: data.index(0, start) + 1,
    )


def _bytes_end(data: bytes, start: int) -> int:
    while True:
        start = data.index(0, start) + 2
        if data[start - 1] == 0:
            return start


def _fixed_texts(subtype: int, width: int) -> Codec:
    """Of texts that all have one length and compare as what they stand for."""
    return Codec(
        subtype=subtype, width=width, encode=lambda value: value.encode(), decode=lambda data: data[:width].decode()
    )


def _encode_timetz(text: str) -> bytes:
    micros, east = fields_of(text)
    return (micros - east * 1_000_000 + 2 * DAY_MICROS).to_bytes(8) + (2 * 86_400 - east).to_bytes(4)


def _decode_timetz(data: bytes) -> str:
    east = 2 * 86_400 - int.from_bytes(data[8:12])
    return show_timetz(int.from_bytes(data[:8]) - 2 * DAY_MICROS + east * 1_000_000, east)


def _encode_network(text: str) -> bytes:
    given = parse_inet(text)
    size = given.width // 8
    network_part = (given.address & given.mask).to_bytes(size)
    return bytes([given.version]) + network_part + bytes([given.bits]) + given.address.to_bytes(size)


def _network_end(data: bytes, start: int) -> int:
    return start + (10 if data[start] == 4 else 34)


def _network(data: bytes) -> Network:
    end = _network_end(data, 0)
    size = (end - 2) // 2
    return Network(data[0], int.from_bytes(data[end - size : end]), data[1 + size])


def _moneys() -> Codec:
    cents = _integers(t.MONEY, 8)
    return Codec(
        subtype=t.MONEY,
        width=8,
        encode=lambda value: cents.encode(cents_of(value)),
        decode=lambda data: show_money(cents.decode(data)),
    )


CODECS = {
    codec.subtype: codec
    for codec in (
        _integers(t.INT2, 2),
        _integers(t.INT4, 4),
        _integers(t.INT8, 8),
        _integers(t.DATE, 4),
        _integers(t.TIME, 8),
        _integers(t.TIMESTAMP, 8),
        _integers(t.TIMESTAMPTZ, 8),
        Codec(
            subtype=t.NUMERIC,
            width=0,
            encode=_encode_numeric,
            decode=_decode_numeric,
            value_end=_numeric_end,
            scaled=True,
        ),
        Codec(subtype=t.BOOL, width=1, encode=lambda value: bytes([value]), decode=lambda data: bool(data[0])),
        _floats(t.FLOAT4, 4),
        _floats(t.FLOAT8, 8),
        _texts(t.TEXT),
        _texts(t.VARCHAR),
        Codec(
            subtype=t.BYTEA,
            width=0,
            encode=lambda value: value.replace(b"\x00", b"\x00\xff") + b"\x00\x00",
            decode=lambda data: data[: _bytes_end(data, 0) - 2].replace(b"\x00\xff", b"\x00"),
            value_end=_bytes_end,
        ),
        _fixed_texts(t.UUID, 36),
        _fixed_texts(t.MACADDR, 17),
        _fixed_texts(t.MACADDR8, 23),
        Codec(subtype=t.TIMETZ, width=12, encode=_encode_timetz, decode=_decode_timetz),
        Codec(
            subtype=t.INET,
            width=0,
            encode=_encode_network,
            decode=lambda data: _network(data).inet(),
            value_end=_network_end,
        ),
        Codec(
            subtype=t.CIDR,
            width=0,
            encode=_encode_network,
            decode=lambda data: _network(data).cidr(),
            value_end=_network_end,
        ),
        Codec(
            subtype=t.PG_LSN,
            width=8,
            encode=lambda value: lsn_of(value).to_bytes(8),
            decode=lambda data: show_lsn(int.from_bytes(data[:8])),
        ),
        _moneys(),
    )
}
"""By the oid of their types."""


def codec_of(range_type: RangeType) -> Codec:
    """The codec of the values between a range type's bounds. Raises 0A000 when there is none."""
    codec = CODECS.get(range_type.subtype)
    if codec is None:
        raise FeatureNotSupported(f"ranges over type {format_type(range_type.subtype)} are not supported")
    return codec


def plain_value(value: object, subtype: int) -> Any:
    """A value as in `planner.ir.nodes.Literal` as the codec of its type takes it."""
    if subtype == t.DATE and isinstance(value, (date, int, str)):
        return days_of(value)
    if subtype in (t.TIMESTAMP, t.TIMESTAMPTZ) and isinstance(value, (datetime, int, str)):
        return micros_of(value)
    if subtype == t.TIME and isinstance(value, (time, int)):
        return clock_micros(value)
    return value


def literal_value(value: Any, subtype: int) -> object:
    """The inverse of `plain_value`."""
    if subtype == t.DATE:
        return ("infinity" if value > 0 else "-infinity") if abs(value) == DATE_INFINITY else date_of(value)
    if subtype in (t.TIMESTAMP, t.TIMESTAMPTZ):
        if abs(value) == TIMESTAMP_INFINITY:
            return "infinity" if value > 0 else "-infinity"
        return (timestamp_of if subtype == t.TIMESTAMP else timestamptz_of)(value)
    return clock_of(value) if subtype == t.TIME else value
