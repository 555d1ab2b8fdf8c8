"""Values of arrays that are no ordinary lists: of several dimensions, or with other lower bounds than 1.

A one-dimensional array whose lower bound is 1, and the empty array, is a tuple of its elements. Any other is an
`ArrayValue`: all its elements in one tuple, the last dimension running fastest, and `dims`, which says how many
dimensions there are, then the length of each, then the lower bound of each:

    {{1,2,3},{4,5,6}}     # ArrayValue((1, 2, 3, 4, 5, 6), (2, 2, 3, 1, 1))
    [0:1]={7,8}           # ArrayValue((7, 8), (1, 2, 0))

Arrays with the same elements are ordered by `dims`, as PostgreSQL orders them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from math import prod
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from planner.errors import FeatureNotSupported, ProgramLimitExceeded
from planner.types.types import SqlType

MAX_DIMENSIONS = 6
"""Dimensions of an array at most (PostgreSQL's MAXDIM)."""

MAX_ELEMENTS = 134_217_727
"""Elements of an array at most (PostgreSQL's MaxArraySize)."""

_T = TypeVar("_T")


class ArrayValue(Struct, frozen=True):
    """See the module."""

    items: tuple[object, ...]
    dims: tuple[int, ...]

    def nested(self) -> object:
        """The elements as tuples in tuples, one level for each dimension."""
        return nested(self.items, self.dims)


def lengths_of(dims: Sequence[int]) -> Sequence[int]:
    """The length of each dimension."""
    return dims[1 : 1 + dims[0]]


def lower_bounds_of(dims: Sequence[int]) -> Sequence[int]:
    """The lower bound of each dimension."""
    return dims[1 + dims[0] :]


def dims_of(lengths: Sequence[int], lower_bounds: Sequence[int]) -> tuple[int, ...] | None:
    """`dims` of an array; None for an ordinary list or an empty array."""
    if not lengths or 0 in lengths or (len(lengths) == 1 and lower_bounds[0] == 1):
        return None
    return (len(lengths), *lengths, *lower_bounds)


def array_value(
    items: Sequence[object], lengths: Sequence[int], lower_bounds: Sequence[int]
) -> tuple[object, ...] | ArrayValue:
    """The array of these elements."""
    dims = dims_of(lengths, lower_bounds)
    return tuple(items) if dims is None else ArrayValue(tuple(items), dims)


def items_of(value: object) -> tuple[object, ...]:
    """The elements of an array, whatever its dimensions."""
    if isinstance(value, ArrayValue):
        return value.items
    assert isinstance(value, tuple)
    return value


def held_type(value: object, type: SqlType) -> SqlType:
    """`type`, an array's, as one that holds `value`."""
    return replace(type, dimensioned=True) if isinstance(value, ArrayValue) else type


def map_items(value: object, change: Callable[[object], object]) -> tuple[object, ...] | ArrayValue:
    """The array with each element changed."""
    items = tuple(map(change, items_of(value)))
    return ArrayValue(items, value.dims) if isinstance(value, ArrayValue) else items


def nested(items: Sequence[object], dims: Sequence[int]) -> tuple[object, ...]:
    """The elements as tuples in tuples, one level for each dimension of `dims`."""
    level: Sequence[object] = items
    for length in reversed(lengths_of(dims)[1:]):
        level = [tuple(level[start : start + length]) for start in range(0, len(level), length)]
    return tuple(level)


ORDINARY_ONLY = "arrays of several dimensions, or whose lower bound is not 1, are not supported here"
ORDINARY_HINT = "ALTER COLUMN ... TYPE makes a column hold arrays of any dimensions, unless its table is published."


def not_ordinary() -> FeatureNotSupported:
    """The error for an array that is no ordinary list where only such are held."""
    return FeatureNotSupported(ORDINARY_ONLY, hint=ORDINARY_HINT)


def too_many_dimensions(number: int) -> ProgramLimitExceeded:
    """The error for more dimensions than there may be."""
    return ProgramLimitExceeded(f"number of array dimensions ({number}) exceeds the maximum allowed ({MAX_DIMENSIONS})")


def check_size(lengths: Sequence[int], lower_bounds: Sequence[int]) -> int:
    """The number of elements. Raises 54000 for too many, and for bounds beyond 32 bits (ArrayCheckBounds)."""
    if prod(lengths) > MAX_ELEMENTS:
        raise ProgramLimitExceeded(f"array size exceeds the maximum allowed ({MAX_ELEMENTS})")
    for length, lower in zip(lengths, lower_bounds, strict=True):
        if length + lower > 2**31 - 1:
            raise ProgramLimitExceeded(f"array lower bound is too large: {lower}")
    return prod(lengths)


def has_nan(value: object) -> bool:
    """Whether a value, as `planner.ir.nodes.Literal` has it, is or may be read as NaN, or holds such."""
    if value.__class__ is Decimal:
        return value != value
    match value:
        case float():
            return math.isnan(value)
        case str():
            return "nan" in value.lower()
        case tuple() | list():
            return any(map(has_nan, value))
        case ArrayValue():
            return any(map(has_nan, value.items))
        case _:
            return False
