"""Ranges and multiranges as bytes that compare as the values do, and the bounds that they consist of.

A range is 00 when it is empty, else 01, its lower bound and its upper bound; a multirange is its ranges one after the
other. A bound is::

    00                      no lower bound
    01 VALUE FLAG [SCALE]   FLAG: 00 upper and exclusive, 01 inclusive, 02 lower and exclusive
    02                      no upper bound

VALUE is prefix-free and compares as values of the subtype do: numbers, dates (days since 1970) and timestamps
(microseconds since 1970) as big-endian integers with the sign bit inverted; numerics as sign, decimal exponent and
digits. So lower bounds compare with upper ones as well, bytes of ranges compare as ranges do (range_cmp), those of
multiranges likewise, and an engine sorts, groups, joins and indexes them as it does bytea.

SCALE, two bytes after the flag of a numeric bound, is how many fraction digits it shows at least, which is no part of
what is compared: `comparison_key` makes it zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, TypeAlias

from msgspec import Struct

from planner.errors import DataException, DatetimeFieldOverflow, FeatureNotSupported, NumericValueOutOfRange
from planner.types import types as t
from planner.types.ranges import RangeType
from planner.types.type_names import format_type
from planner.values.datetimes.calendar_days import (
    DATE_INFINITY,
    LAST_DAY,
    TIMESTAMP_INFINITY,
    date_of,
    days_of,
    micros_of,
    timestamp_of,
    timestamptz_of,
)

Bounds: TypeAlias = tuple[bytes, bytes]
"""The lower and upper bound of a range that is not empty."""

EMPTY = b"\x00"
NO_LOWER, NO_UPPER = b"\x00", b"\x02"
_UPPER_EXCLUSIVE, _INCLUSIVE, _LOWER_EXCLUSIVE = 0, 1, 2


class Codec(Struct, frozen=True, kw_only=True):
    """How values of a subtype become bytes. `width` is how many they are, 0 when that depends on the value.

    The values are int (also of dates and timestamps, whose infinities are the ends of their integers) and Decimal."""

    subtype: int
    width: int
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]

    def key(self, bound: bytes) -> bytes:
        """What is compared of a bound."""
        return bound if self.width or bound[0] != 1 else bound[:-2]

    def end(self, data: bytes, start: int) -> int:
        """Where the bound ends that begins at `start`."""
        if data[start] != 1:
            return start + 1
        return start + 2 + self.width if self.width else _numeric_end(data, start + 1) + 3


# ---------------------------------------------------------------- values


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


_CODECS = {
    t.INT4: _integers(t.INT4, 4),
    t.INT8: _integers(t.INT8, 8),
    t.DATE: _integers(t.DATE, 4),
    t.TIMESTAMP: _integers(t.TIMESTAMP, 8),
    t.TIMESTAMPTZ: _integers(t.TIMESTAMPTZ, 8),
    t.NUMERIC: Codec(subtype=t.NUMERIC, width=0, encode=_encode_numeric, decode=_decode_numeric),
}


def codec_of(range_type: RangeType) -> Codec:
    """The codec of the values between a range type's bounds. Raises 0A000 when there is none."""
    codec = _CODECS.get(range_type.subtype)
    if codec is None:
        raise FeatureNotSupported(f"ranges over type {format_type(range_type.subtype)} are not supported")
    return codec


def plain_value(value: object, subtype: int) -> Any:
    """A value as in `planner.ir.nodes.Literal` as the codec of its type takes it."""
    if subtype == t.DATE and isinstance(value, (date, int, str)):
        return days_of(value)
    if subtype in (t.TIMESTAMP, t.TIMESTAMPTZ) and isinstance(value, (datetime, int, str)):
        return micros_of(value)
    return value


def literal_value(value: Any, subtype: int) -> object:
    """The inverse of `plain_value`."""
    if subtype == t.DATE:
        return ("infinity" if value > 0 else "-infinity") if abs(value) == DATE_INFINITY else date_of(value)
    if subtype in (t.TIMESTAMP, t.TIMESTAMPTZ):
        if abs(value) == TIMESTAMP_INFINITY:
            return "infinity" if value > 0 else "-infinity"
        return (timestamp_of if subtype == t.TIMESTAMP else timestamptz_of)(value)
    return value


# ---------------------------------------------------------------- bounds


def bound(codec: Codec, value: Any, flag: int) -> bytes:
    """The bound at `value`."""
    made = b"\x01" + codec.encode(value) + bytes([flag])
    if codec.width:
        return made
    exponent = value.as_tuple().exponent
    return made + (max(-exponent, 0) if isinstance(exponent, int) else 0).to_bytes(2)


def element(codec: Codec, value: Any) -> Bounds:
    """The range that has one value."""
    one = bound(codec, value, _INCLUSIVE)
    return one, one


def value_of(codec: Codec, given: bytes) -> Any:
    """The value of a bound, None when it is none."""
    return codec.decode(given[1:]) if given[0] == 1 else None


def is_inclusive(codec: Codec, given: bytes) -> bool:
    """Whether a bound's value is in the range."""
    return given[0] == 1 and codec.key(given)[-1] == _INCLUSIVE


def adjacent(codec: Codec, upper: bytes, lower: bytes) -> bool:
    """Whether nothing is between an upper and a lower bound, and nothing in both."""
    if upper[0] != 1 or lower[0] != 1:
        return False
    one, other = codec.key(upper), codec.key(lower)
    return one[:-1] == other[:-1] and other[-1] - one[-1] == 1


def lower_after(codec: Codec, upper: bytes) -> bytes:
    """The lower bound of what is beyond an upper one that is finite."""
    return _with_flag(codec, upper, _LOWER_EXCLUSIVE if is_inclusive(codec, upper) else _INCLUSIVE)


def upper_before(codec: Codec, lower: bytes) -> bytes:
    """The upper bound of what is before a lower one that is finite."""
    return _with_flag(codec, lower, _UPPER_EXCLUSIVE if is_inclusive(codec, lower) else _INCLUSIVE)


def _with_flag(codec: Codec, given: bytes, flag: int) -> bytes:
    place = len(codec.key(given)) - 1
    return given[:place] + bytes([flag]) + given[place + 1 :]


def bounds_of(range_type: RangeType, lower: Any, upper: Any, *, lower_inc: bool, upper_inc: bool) -> Bounds | None:
    """The range between two values (None: no bound) in its canonical form; None when it is empty.

    Raises 22000 for a lower bound above the upper one; 22003 and 22008 where the canonical form is beyond the type.
    """
    codec = codec_of(range_type)
    low = NO_LOWER if lower is None else bound(codec, lower, _INCLUSIVE if lower_inc else _LOWER_EXCLUSIVE)
    high = NO_UPPER if upper is None else bound(codec, upper, _INCLUSIVE if upper_inc else _UPPER_EXCLUSIVE)
    if lower is not None and upper is not None:
        first, last = codec.encode(lower), codec.encode(upper)
        if first > last:
            raise DataException("range lower bound must be less than or equal to range upper bound")
        if first == last and not (lower_inc and upper_inc):
            return None
    if not range_type.discrete:
        return low, high
    if lower is not None and not lower_inc and _is_finite(lower, codec.subtype):
        lower = _next(lower, codec.subtype)
        low = bound(codec, lower, _INCLUSIVE)
    if upper is not None and upper_inc and _is_finite(upper, codec.subtype):
        high = bound(codec, _next(upper, codec.subtype), _UPPER_EXCLUSIVE)
    return None if low[:-1] == high[:-1] and high[-1] == _UPPER_EXCLUSIVE else (low, high)


def _is_finite(value: int, subtype: int) -> bool:
    return subtype != t.DATE or abs(value) != DATE_INFINITY


def _next(value: int, subtype: int) -> int:
    if subtype == t.DATE:
        if value >= LAST_DAY:
            raise DatetimeFieldOverflow("date out of range")
    elif value == (2**31 if subtype == t.INT4 else 2**63) - 1:
        raise NumericValueOutOfRange(f"{'integer' if subtype == t.INT4 else 'bigint'} out of range")
    return value + 1


# ---------------------------------------------------------------- ranges and multiranges


def encode_range(bounds: Bounds | None) -> bytes:
    """A range's bytes; None: the empty one."""
    return EMPTY if bounds is None else b"\x01" + bounds[0] + bounds[1]


def encode_multirange(ranges: Sequence[Bounds]) -> bytes:
    """The bytes of a multirange of `ranges`, which are in order with something between each two."""
    return b"".join([b"\x01" + lower + upper for lower, upper in ranges])


def decode(codec: Codec, data: bytes) -> list[Bounds]:
    """The ranges of a multirange, or the one of a range, none when it is empty."""
    size = codec.width + 2
    if codec.width and len(data) == 2 * size + 1 and data[1] == 1:
        # One range with two bounds: no other value is as long.
        return [(data[1 : size + 1], data[size + 1 :])]
    found: list[Bounds] = []
    at = 0
    while at < len(data) and data[at]:
        middle = codec.end(data, at + 1)
        end = codec.end(data, middle)
        found.append((data[at + 1 : middle], data[middle:end]))
        at = end
    return found


def comparison_key(data: bytes) -> bytes:
    """What is compared of a range or multirange of numerics."""
    codec = _CODECS[t.NUMERIC]
    ranges = decode(codec, data)
    if not ranges:
        return data
    return encode_multirange([(_without_scale(codec, lower), _without_scale(codec, upper)) for lower, upper in ranges])


def _without_scale(codec: Codec, given: bytes) -> bytes:
    return codec.key(given) + b"\x00\x00" if given[0] == 1 else given
