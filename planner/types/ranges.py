"""The range and multirange types: which subtype, multirange and arrays each one has (pg_range)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from msgspec import Struct

from planner.catalog_data.content import columns, types
from planner.types.types import DATE, INT4, INT8, NUMERIC


class RangeType(Struct, frozen=True, kw_only=True):
    """A row of pg_range. `discrete`: values of the subtype follow each other, so bounds have one canonical form."""

    oid: int
    subtype: int
    multirange: int
    discrete: bool


@cache
def _all() -> Mapping[int, RangeType]:
    """By the oids of ranges and of multiranges."""
    data = columns("pg_range")
    found: dict[int, RangeType] = {}
    for oid, subtype, multirange in zip(data["rngtypid"], data["rngsubtype"], data["rngmultitypid"], strict=True):
        made = RangeType(oid=oid, subtype=subtype, multirange=multirange, discrete=subtype in (INT4, INT8, DATE))
        found[oid] = found[multirange] = made
    return found


def range_of(oid: int) -> RangeType | None:
    """The range type that `oid` is, None when it is none."""
    found = _all().get(oid)
    return found if found is not None and found.oid == oid else None


def multirange_of(oid: int) -> RangeType | None:
    """The range type that the multirange type `oid` is made of, None when it is none."""
    found = _all().get(oid)
    return found if found is not None and found.oid != oid else None


def range_or_multirange(oid: int) -> RangeType | None:
    """The range type that `oid` is, or is made of."""
    return _all().get(oid)


@cache
def range_arrays() -> Mapping[int, int]:
    """The element type of each array type over ranges and multiranges."""
    rows = types()
    return {rows[oid].array: oid for oid in _all()}


@cache
def ordered_as_bytes() -> frozenset[int]:
    """The types whose bytes compare as their values do: all but those over numerics, whose bytes say how many digits
    are shown."""
    return frozenset(oid for oid, of in _all().items() if of.subtype != NUMERIC)
