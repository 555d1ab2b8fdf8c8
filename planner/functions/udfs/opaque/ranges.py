"""Functions on ranges and multiranges, held as the bytes of `planner.values.range_bounds`.

Values of a subtype come and go as text in ISO style, which casts of every engine read and write. A range type is an
argument by its name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from msgspec import Struct

from planner.errors import DataException, FeatureNotSupported, NullValueNotAllowed, SqlSyntaxError
from planner.functions.udfs.table import Udf
from planner.types.ranges import RangeType, named_range
from planner.types.types import DATE, SqlType
from planner.values import range_bounds as rb
from planner.values import range_sets
from planner.values.datetimes.calendar_days import DATE_INFINITY, TIMESTAMP_INFINITY
from planner.values.range_bounds import Bounds
from planner.values.range_codecs import Codec, codec_of, literal_value, plain_value
from planner.values.range_text import parse_ranges, show_ranges
from planner.values.text_values import format_text, parse_text

_FLAGS = ("[]", "[)", "(]", "()")


class _Of(Struct, frozen=True):
    """A range type or (`several`) its multirange, by what `range_name` calls it."""

    type: RangeType
    several: bool
    codec: Codec

    @property
    def subtype(self) -> SqlType:
        """The type of what is between the bounds."""
        return SqlType(self.type.subtype)

    def value(self, text: str) -> Any:
        """Text of the subtype as its codec takes it."""
        return plain_value(parse_text(text, self.subtype), self.type.subtype)

    def made(self, ranges: Sequence[Bounds]) -> bytes:
        """`ranges` as a value of the type."""
        if self.several:
            return rb.encode_multirange(ranges)
        return rb.encode_range(ranges[0] if ranges else None)


@lru_cache(maxsize=64)
def _of(name: str) -> _Of:
    found, several = named_range(name)
    return _Of(found, several, codec_of(found))


@lru_cache(maxsize=64)
def _settings(given: str) -> Mapping[str, str]:
    zone, _, style = given.rpartition(";")
    return {"TimeZone": zone, "DateStyle": style}


def read(text: str, name: str, settings: str) -> object:
    """The input function."""
    of, known = _of(name), _settings(settings)
    return parse_ranges(text, of.type, lambda part, subtype: parse_text(part, subtype, known), several=of.several)


def write(data: bytes, name: str, settings: str) -> str:
    """The output function."""
    of, known = _of(name), _settings(settings)
    return show_ranges(data, of.type, lambda item, subtype: format_text(item, subtype, known), several=of.several)


def make(lower: str | None, upper: str | None, flags: str | None, name: str) -> bytes:
    """The constructor of a range type."""
    if flags is None:
        raise DataException("range constructor flags argument must not be null")
    if flags not in _FLAGS:
        raise SqlSyntaxError(
            "invalid range bound flags", hint='Valid values are "[]", "[)", "(]", and "()".'
        )  # fmt: skip
    of = _of(name)
    low = None if lower is None else of.value(lower)
    high = None if upper is None else of.value(upper)
    return rb.encode_range(rb.bounds_of(of.type, low, high, lower_inc=flags[0] == "[", upper_inc=flags[1] == "]"))


def value(data: bytes, name: str, upper: bool) -> str | None:
    """lower() and upper(), as text."""
    of = _of(name)
    ranges = rb.decode(of.codec, data)
    if not ranges:
        return None
    found = rb.value_of(of.codec, ranges[-1][1] if upper else ranges[0][0])
    return None if found is None else format_text(literal_value(found, of.type.subtype), of.subtype)


def number(data: bytes, name: str, upper: bool) -> int | None:
    """lower() and upper() of dates and timestamps, as days or microseconds since 1970."""
    of = _of(name)
    ranges = rb.decode(of.codec, data)
    if not ranges:
        return None
    found = rb.value_of(of.codec, ranges[-1][1] if upper else ranges[0][0])
    return None if found is None else int(found)


def finite_number(data: bytes, name: str, upper: bool) -> int | None:
    """`number` for an engine without infinite dates and timestamps."""
    found = number(data, name, upper)
    infinity = DATE_INFINITY if _of(name).type.subtype == DATE else TIMESTAMP_INFINITY
    if found is not None and abs(found) == infinity:
        raise FeatureNotSupported("infinite dates and timestamps are not supported on Spark")
    return found


def fact(data: bytes, name: str, which: str) -> bool:
    """isempty(), lower_inc(), upper_inc(), lower_inf(), upper_inf()."""
    codec = _of(name).codec
    ranges = rb.decode(codec, data)
    if not ranges or which == "isempty":
        return not ranges and which == "isempty"
    bound = ranges[0][0] if which.startswith("lower") else ranges[-1][1]
    return rb.is_inclusive(codec, bound) if which.endswith("inc") else bound[0] != 1


def relates(left: bytes, right: bytes, name: str, symbol: str) -> bool:
    """An operator that says how two ranges or multiranges lie."""
    codec = _of(name).codec
    return range_sets.RELATIONS[symbol](codec, rb.decode(codec, left), rb.decode(codec, right))


def has(data: bytes, text: str, name: str) -> bool:
    """@> of a range or multirange and a value."""
    of = _of(name)
    return range_sets.contains(of.codec, rb.decode(of.codec, data), [rb.element(of.codec, of.value(text))])


def combine(left: bytes, right: bytes, name: str, symbol: str) -> bytes:
    """+, - and * of two ranges or two multiranges."""
    of = _of(name)
    table = _OF_MULTIRANGES if of.several else _OF_RANGES
    return of.made(table[symbol](of.codec, rb.decode(of.codec, left), rb.decode(of.codec, right)))


_OF_RANGES = {"+": range_sets.range_union, "-": range_sets.range_difference, "*": range_sets.intersection}
_OF_MULTIRANGES = {"+": range_sets.union, "-": range_sets.difference, "*": range_sets.intersection}


def merge(left: bytes, right: bytes, name: str) -> bytes:
    """range_merge() of two ranges or of a multirange and nothing."""
    codec = _of(name).codec
    made = range_sets.span(codec, [*rb.decode(codec, left), *rb.decode(codec, right)])
    return rb.encode_range(made[0] if made else None)


def multirange(ranges: Sequence[bytes | None], name: str) -> bytes:
    """The multirange of some ranges."""
    codec = _of(name).codec
    found: list[Bounds] = []
    for item in ranges:
        if item is None:
            raise NullValueNotAllowed("multirange values cannot contain null members")
        found += rb.decode(codec, item)
    return rb.encode_multirange(range_sets.normalized(codec, found))


def as_multirange(data: bytes) -> bytes:
    """multirange() of one range."""
    return b"" if data == rb.EMPTY else data


def parts(data: bytes, name: str) -> list[bytes]:
    """unnest() of a multirange."""
    return [rb.encode_range(bounds) for bounds in rb.decode(_of(name).codec, data)]


def aggregate(values: Sequence[bytes | None], name: str) -> bytes | None:
    """range_agg(): the union of ranges or multiranges."""
    present = [item for item in values if item is not None]
    return multirange(present, name) if present else None


def intersect_all(values: Sequence[bytes | None], name: str) -> bytes | None:
    """range_intersect_agg()."""
    of = _of(name)
    left: Sequence[Bounds] | None = None
    for item in values:
        if item is not None:
            right = rb.decode(of.codec, item)
            left = right if left is None else range_sets.intersection(of.codec, left, right)
    return None if left is None else of.made(left)


def compare(left: bytes, right: bytes) -> int:
    """range_cmp() and multirange_cmp() of comparison keys."""
    return (left > right) - (left < right)


_T, _B = "VARCHAR", "BLOB"

UDFS: Mapping[str, Udf] = {
    "tg_range_in": Udf((_T, _T, _T), _B, read),
    "tg_range_out": Udf((_B, _T, _T), _T, write),
    "tg_range_between": Udf((_T, _T, _T), _B, lambda lower, upper, name: make(lower, upper, "[)", name), nulls=True),
    "tg_range_make": Udf((_T, _T, _T, _T), _B, make, nulls=True),
    "tg_range_number": Udf((_B, _T, "BOOLEAN"), "BIGINT", number),
    "tg_range_finite_number": Udf((_B, _T, "BOOLEAN"), "BIGINT", finite_number),
    "tg_range_value": Udf((_B, _T, "BOOLEAN"), _T, value),
    "tg_range_is": Udf((_B, _T, _T), "BOOLEAN", fact),
    "tg_range_relates": Udf((_B, _B, _T, _T), "BOOLEAN", relates),
    "tg_range_has": Udf((_B, _T, _T), "BOOLEAN", has),
    "tg_range_combine": Udf((_B, _B, _T, _T), _B, combine),
    "tg_range_merge": Udf((_B, _B, _T), _B, merge),
    "tg_range_key": Udf((_B,), _B, rb.comparison_key),
    "tg_range_compare": Udf((_B, _B), "INTEGER", compare),
    "tg_multirange_of": Udf((_B,), _B, as_multirange),
    "tg_multirange": Udf(("BLOB[]", _T), _B, multirange),
    "tg_multirange_parts": Udf((_B, _T), "BLOB[]", parts),
    "tg_range_agg": Udf(("BLOB[]", _T), _B, aggregate),
    "tg_range_intersect_agg": Udf(("BLOB[]", _T), _B, intersect_all),
}
