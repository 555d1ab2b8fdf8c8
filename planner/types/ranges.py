"""The range and multirange types, built-in ones and those of users: subtype, multirange and arrays (pg_range)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from msgspec import Struct

from planner.catalog_data.content import columns, type_by_name, types
from planner.types.derived_oids import FIRST_USER_TYPE, row_type_oid
from planner.types.type_scope import record_of
from planner.types.types import DATE, INT4, INT8, NUMERIC
from storage.catalog.model import PG_CATALOG_OID
from storage.catalog.types import UserRange


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
    found = range_or_multirange(oid)
    return found if found is not None and found.oid == oid else None


def multirange_of(oid: int) -> RangeType | None:
    """The range type that the multirange type `oid` is made of, None when it is none."""
    found = range_or_multirange(oid)
    return found if found is not None and found.oid != oid else None


def range_or_multirange(oid: int) -> RangeType | None:
    """The range type that `oid` is, or is made of."""
    if oid <= FIRST_USER_TYPE:
        return _all().get(oid)
    record = record_of(oid)
    return made_of(record) if isinstance(record, UserRange) else None


def made_of(record: UserRange) -> RangeType:
    """What a user's range or multirange is. Its values do not follow each other: it has no canonical form."""
    return RangeType(
        oid=row_type_oid(record.range),
        subtype=record.subtype,
        multirange=row_type_oid(record.multirange),
        discrete=False,
    )


_RANGE_OVER, _MULTIRANGE_OVER = "range over ", "multirange over "


def range_name(oid: int) -> str:
    """How functions in Python, which see no catalog, are told of a range or multirange type; `named_range` reads it."""
    if oid <= FIRST_USER_TYPE:
        return types()[oid].name
    found = range_or_multirange(oid)
    assert found is not None
    return f"{_RANGE_OVER if found.oid == oid else _MULTIRANGE_OVER}{types()[found.subtype].name}"


def named_range(name: str) -> tuple[RangeType, bool]:
    """What `range_name` told of: the range type, and whether it is its multirange that is meant."""
    for prefix in (_RANGE_OVER, _MULTIRANGE_OVER):
        if name.startswith(prefix):
            subtype = type_by_name()[PG_CATALOG_OID, name.removeprefix(prefix)]
            unknown = RangeType(oid=0, subtype=subtype.oid, multirange=0, discrete=False)
            return unknown, prefix == _MULTIRANGE_OVER
    oid = type_by_name()[PG_CATALOG_OID, name].oid
    return _all()[oid], _all()[oid].oid != oid


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
