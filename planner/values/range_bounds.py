"""Ranges and multiranges as bytes that compare as the values do, and the bounds that they consist of.

A range is 00 when it is empty, else 01, its lower bound and its upper bound; a multirange is its ranges one after the
other. A bound is::

    00                      no lower bound
    01 VALUE FLAG [SCALE]   FLAG: 00 upper and exclusive, 01 inclusive, 02 lower and exclusive
    02                      no upper bound

VALUE is prefix-free and compares as values of the subtype do (`planner.values.range_codecs`). So lower bounds compare
with upper ones as well, bytes of ranges compare as ranges do (range_cmp), those of multiranges likewise, and an engine
sorts, groups, joins and indexes them as it does bytea.

SCALE, two bytes after the flag of a numeric bound, is how many fraction digits it shows at least, which is no part of
what is compared: `comparison_key` makes it zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from planner.errors import DataException, DatetimeFieldOverflow, NumericValueOutOfRange
from planner.types import types as t
from planner.types.ranges import RangeType
from planner.values.datetimes.calendar_days import DATE_INFINITY, LAST_DAY
from planner.values.range_codecs import CODECS, Codec, codec_of

Bounds: TypeAlias = tuple[bytes, bytes]
"""The lower and upper bound of a range that is not empty."""

EMPTY = b"\x00"
NO_LOWER, NO_UPPER = b"\x00", b"\x02"
_UPPER_EXCLUSIVE, _INCLUSIVE, _LOWER_EXCLUSIVE = 0, 1, 2


# ---------------------------------------------------------------- bounds


def bound(codec: Codec, value: Any, flag: int) -> bytes:
    """The bound at `value`."""
    made = b"\x01" + codec.encode(value) + bytes([flag])
    if not codec.scaled:
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
    codec = CODECS[t.NUMERIC]
    ranges = decode(codec, data)
    if not ranges:
        return data
    return encode_multirange([(_without_scale(codec, lower), _without_scale(codec, upper)) for lower, upper in ranges])


def _without_scale(codec: Codec, given: bytes) -> bytes:
    return codec.key(given) + b"\x00\x00" if given[0] == 1 else given
