"""Dimensions of arrays: where elements are and what dimensions results have.

The engines keep the elements; these functions know only the dimensions (`planner.ir.array_value`), NULL for an ordinary
list, and how many elements there are. Places are numbers of elements from 1 on, in the order in which they are held;
place 0 is no element.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import TypeAlias

from planner.errors import (
    ArraySubscriptError,
    DataException,
    NullValueNotAllowed,
    ProgramLimitExceeded,
)
from planner.functions.udfs.table import Udf
from planner.ir.array_value import (
    MAX_DIMENSIONS,
    ArrayValue,
    check_size,
    dims_of,
    items_of,
    lengths_of,
    lower_bounds_of,
    too_many_dimensions,
)
from planner.types.types import SqlType
from planner.values.array_text import in_braces, quote_element, show_array
from planner.values.text_values import parse_text

Dims: TypeAlias = Sequence[int] | None
Bounds: TypeAlias = tuple[list[int], list[int]]
"""Lengths and lower bounds; both empty for an empty array."""

_TEXT_ARRAY = 1009
_I = "INTEGER"
_DIMS = "INTEGER[]"
_T = "VARCHAR"


def _bounds(dims: Dims, size: int) -> Bounds:
    if dims is not None:
        return list(lengths_of(dims)), list(lower_bounds_of(dims))
    return ([size], [1]) if size else ([], [])


def _dims(lengths: Sequence[int], lower_bounds: Sequence[int]) -> list[int] | None:
    found = dims_of(lengths, lower_bounds)
    return None if found is None else list(found)


# ---------------------------------------------------------------- input and output


def array_items(text: str) -> list[str | None]:
    """The texts of the elements of an array that is a text (array_in)."""
    return list(items_of(parse_text(text, SqlType(_TEXT_ARRAY))))  # type: ignore[arg-type]


def array_dims_in(text: str) -> list[int] | None:
    """The dimensions of an array that is a text."""
    value = parse_text(text, SqlType(_TEXT_ARRAY))
    return list(value.dims) if isinstance(value, ArrayValue) else None


def array_text(items: Sequence[str | None], dims: Sequence[int], between: str) -> str:
    """array_out(); `between` is the delimiter of the elements' type."""
    texts = ["NULL" if item is None else item if between == ";" else quote_element(item) for item in items]
    return show_array(texts, dims, between)


def array_json(items: Sequence[str], dims: Sequence[int], between: str) -> str:
    """Elements that are JSON as nested JSON arrays; `between` separates those of the outermost one."""
    lengths = lengths_of(dims)
    step = len(items) // lengths[0]
    inner = [len(lengths) - 1, *lengths[1:]]
    parts = (
        [in_braces(items[at : at + step], inner, "[", ",", "]") for at in range(0, len(items), step)]
        if len(lengths) > 1
        else list(items)
    )
    return f"[{between.join(parts)}]"


def shown_dims(dims: Dims, size: int) -> str | None:
    """array_dims()."""
    lengths, lower_bounds = _bounds(dims, size)
    if not lengths:
        return None
    return "".join([f"[{lower}:{lower + length - 1}]" for length, lower in zip(lengths, lower_bounds, strict=True)])


# ---------------------------------------------------------------- reading


def place(dims: Dims, size: int, subscripts: Sequence[int | None]) -> int:
    """The place of an element; 0 outside of the array."""
    lengths, lower_bounds = _bounds(dims, size)
    if len(lengths) != len(subscripts):
        return 0
    offset = 0
    for length, lower, subscript in zip(lengths, lower_bounds, subscripts, strict=True):
        if subscript is None or not lower <= subscript < lower + length:
            return 0
        offset = offset * length + subscript - lower
    return offset + 1


def _slice(dims: Dims, size: int, lower: Sequence[int | None], upper: Sequence[int | None], omitted: str) -> Bounds:
    """The lengths of a slice and where it begins in each dimension; see `slice_places`."""
    lengths, lower_bounds = _bounds(dims, size)
    if len(lengths) < len(lower):
        return [], []
    found: list[int] = []
    first: list[int] = []
    for number, (length, bound) in enumerate(zip(lengths, lower_bounds, strict=True)):
        low, high = bound, bound + length - 1
        if number < len(lower):
            given_low, given_high = lower[number], upper[number]
            low = low if omitted[2 * number] == "o" or given_low is None else max(low, given_low)
            high = high if omitted[2 * number + 1] == "o" or given_high is None else min(high, given_high)
        if high < low:
            return [], []
        found.append(high - low + 1)
        first.append(low - bound)
    return found, first


def slice_places(
    dims: Dims, size: int, lower: Sequence[int | None], upper: Sequence[int | None], omitted: str
) -> list[int]:
    """The places of a slice (array_get_slice). `omitted` has a letter for each lower and upper bound in turn, ``o`` for
    one that is left out."""
    found, first = _slice(dims, size, lower, upper, omitted)
    if not found:
        return []
    lengths, _ = _bounds(dims, size)
    return _places(lengths, first, found)


def _places(lengths: Sequence[int], first: Sequence[int], counts: Sequence[int]) -> list[int]:
    """The places of a block of `counts` elements that starts at the offsets `first`, in an array of `lengths`."""
    steps = [prod(lengths[number + 1 :]) for number in range(len(lengths))]
    rows = [
        range(start * step, (start + count) * step, step)
        for start, count, step in zip(first, counts, steps, strict=True)
    ]
    return [sum(offsets) + 1 for offsets in product(*rows)]


def slice_dims(
    dims: Dims, size: int, lower: Sequence[int | None], upper: Sequence[int | None], omitted: str
) -> list[int] | None:
    """The dimensions of a slice: its lower bounds are 1."""
    found, _ = _slice(dims, size, lower, upper, omitted)
    return _dims(found, [1] * len(found))


# ---------------------------------------------------------------- assignment


def _assigned(
    dims: Dims, size: int, lower: Sequence[int | None], upper: Sequence[int | None], omitted: str, given: int
) -> tuple[Bounds, list[int], list[int], list[int]]:
    """What an assignment to an element or a slice (array_set_element, array_set_slice) makes: the new lengths and lower
    bounds, the old lengths, and the lower and upper bound of what is assigned in each dimension."""
    lengths, lower_bounds = _bounds(dims, size)
    sliced = bool(omitted)
    if len(lower) > MAX_DIMENSIONS:
        raise too_many_dimensions(len(lower))
    lows: list[int] = []
    highs: list[int] = []
    for number, low in enumerate(lower):
        high = upper[number] if sliced else low
        without = omitted[2 * number : 2 * number + 2] if sliced else "gg"
        if (low is None and without[0] != "o") or (high is None and without[1] != "o"):
            raise NullValueNotAllowed("array subscript in assignment must not be null")
        if "o" in without and not lengths:
            raise ArraySubscriptError(
                "array slice subscript must provide both boundaries",
                detail="When assigning to a slice of an empty array value, slice boundaries must be fully specified.",
            )
        if number < len(lengths):
            low = lower_bounds[number] if without[0] == "o" else low
            high = lower_bounds[number] + lengths[number] - 1 if without[1] == "o" else high
        elif lengths:
            raise ArraySubscriptError("wrong number of array subscripts")
        assert low is not None
        assert high is not None
        if high < low:
            raise ArraySubscriptError("upper bound cannot be less than lower bound")
        lows.append(low)
        highs.append(high)
    if not lengths:
        counts = [high - low + 1 for low, high in zip(lows, highs, strict=True)]
        new = counts, lows
        old = [0] * len(counts)
    else:
        if len(lengths) < len(lows) or (not sliced and len(lengths) != len(lows)):
            raise ArraySubscriptError("wrong number of array subscripts")
        for number in range(len(lows), len(lengths)):
            lows.append(lower_bounds[number])
            highs.append(lower_bounds[number] + lengths[number] - 1)
        new = list(lengths), list(lower_bounds)
        old = lengths
        if len(lengths) == 1:
            start, end = min(lows[0], lower_bounds[0]), max(highs[0] + 1, lower_bounds[0] + lengths[0])
            new = [end - start], [start]
        else:
            for low, high, length, bound in zip(lows, highs, lengths, lower_bounds, strict=True):
                if low < bound or high >= bound + length:
                    raise ArraySubscriptError("array subscript out of range")
    check_size(*new)
    if sliced and given < prod(high - low + 1 for low, high in zip(lows, highs, strict=True)):
        raise ArraySubscriptError("source array too small")
    return new, old, lows, highs


def assigned_places(
    dims: Dims, size: int, lower: Sequence[int | None], upper: Sequence[int | None], omitted: str, given: int
) -> list[int]:
    """The places, in the old elements followed by the `given` new ones, of what an array has after an assignment."""
    (lengths, bounds), old, lows, highs = _assigned(dims, size, lower, upper, omitted, given)
    if old and old[0]:
        if len(lengths) == 1:
            start = _bounds(dims, size)[1][0] - bounds[0]
            places = [0] * start + list(range(1, size + 1))
            places += [0] * (lengths[0] - len(places))
        else:
            places = list(range(1, size + 1))
    else:
        places = [0] * prod(lengths)
    first = [low - bound for low, bound in zip(lows, bounds, strict=True)]
    counts = [high - low + 1 for low, high in zip(lows, highs, strict=True)]
    for number, at in enumerate(_places(lengths, first, counts), size + 1):
        places[at - 1] = number
    return places


def assigned_dims(
    dims: Dims, size: int, lower: Sequence[int | None], upper: Sequence[int | None], omitted: str, given: int
) -> list[int] | None:
    """The dimensions of an array after an assignment."""
    (lengths, bounds), _, _, _ = _assigned(dims, size, lower, upper, omitted, given)
    return _dims(lengths, bounds)


# ---------------------------------------------------------------- building


def filled_dims(lengths: Sequence[int | None] | None, bounds: Sequence[int | None] | None) -> list[int] | None:
    """The dimensions of array_fill()'s result, ordinary lists included; None for an empty one."""
    if lengths is None or bounds is None:
        raise NullValueNotAllowed("dimension array or low bound array cannot be null")
    if len(lengths) > MAX_DIMENSIONS:
        raise too_many_dimensions(len(lengths))
    if None in lengths or None in bounds:
        raise NullValueNotAllowed("dimension values cannot be null")
    if bounds and len(bounds) != len(lengths):
        raise ArraySubscriptError(
            "wrong number of array subscripts", detail="Low bound array has different size than dimensions array."
        )
    counts = [length for length in lengths if length is not None]
    lower = [bound for bound in bounds if bound is not None] or [1] * len(counts)
    if any(length < 0 for length in counts):
        raise ProgramLimitExceeded("array size exceeds the maximum allowed (134217727)")
    return [len(counts), *counts, *lower] if counts and check_size(counts, lower) else None


def filled_size(lengths: Sequence[int | None] | None, bounds: Sequence[int | None] | None) -> int:
    """The number of elements of array_fill()'s result."""
    dims = filled_dims(lengths, bounds)
    return 0 if dims is None else prod(lengths_of(dims))


def concatenated_dims(left: Dims, left_size: int, right: Dims, right_size: int) -> list[int] | None:
    """The dimensions of array_cat()'s result, whose elements are those of the one and then of the other."""
    if not left_size or not right_size:
        kept = right if not left_size else left
        return None if kept is None else list(kept)
    (one, one_bounds), (other, other_bounds) = _bounds(left, left_size), _bounds(right, right_size)
    if abs(len(one) - len(other)) > 1:
        raise _incompatible(f"Arrays of {len(one)} and {len(other)} dimensions are not compatible for concatenation.")
    if len(one) == len(other):
        if one[1:] != other[1:] or one_bounds[1:] != other_bounds[1:]:
            raise _incompatible("Arrays with differing element dimensions are not compatible for concatenation.")
        lengths, bounds = [one[0] + other[0], *one[1:]], one_bounds
    elif len(one) < len(other):
        if one != other[1:] or one_bounds != other_bounds[1:]:
            raise _incompatible("Arrays with differing dimensions are not compatible for concatenation.")
        lengths, bounds = [other[0] + 1, *other[1:]], other_bounds
    else:
        if one[1:] != other or one_bounds[1:] != other_bounds:
            raise _incompatible("Arrays with differing dimensions are not compatible for concatenation.")
        lengths, bounds = [one[0] + 1, *one[1:]], one_bounds
    check_size(lengths, bounds)
    return _dims(lengths, bounds)


def _incompatible(detail: str) -> ArraySubscriptError:
    return ArraySubscriptError("cannot concatenate incompatible arrays", detail=detail)


def extended_dims(dims: Dims, size: int) -> list[int] | None:
    """The dimensions of array_append()'s and array_prepend()'s result."""
    if dims is None:
        return None
    if dims[0] != 1:
        raise DataException("argument must be empty or one-dimensional array")
    check_size([size + 1], [dims[2]])
    return _dims([size + 1], [dims[2]])


def gathered_dims(inner: Sequence[Sequence[int] | None] | None, sizes: Sequence[int | None] | None) -> list[int] | None:
    """The dimensions of array_agg() of arrays, None without any; `sizes` are NULL for arrays that are."""
    if inner is None or sizes is None:
        return None
    found: Bounds | None = None
    for dims, size in zip(inner, sizes, strict=True):
        if size is None:
            raise NullValueNotAllowed("cannot accumulate null arrays")
        if not size:
            raise ArraySubscriptError("cannot accumulate empty arrays")
        bounds = _bounds(dims, size)
        if found is None:
            found = bounds
        elif bounds != found:
            raise ArraySubscriptError("cannot accumulate arrays of different dimensionality")
    return _outer(found, len(sizes))


def constructed_dims(inner: Sequence[Sequence[int] | None], sizes: Sequence[int | None]) -> list[int] | None:
    """The dimensions of ARRAY[...] of arrays."""
    known = [_bounds(dims, size) if size else None for dims, size in zip(inner, sizes, strict=True)]
    found = next((bounds for bounds in known if bounds is not None), None)
    if found is not None and any(bounds != found for bounds in known):
        raise ArraySubscriptError("multidimensional arrays must have array expressions with matching dimensions")
    return _outer(found, len(sizes))


def _outer(inner: Bounds | None, count: int) -> list[int] | None:
    if inner is None:
        return None
    lengths, bounds = [count, *inner[0]], [1, *inner[1]]
    if len(lengths) > MAX_DIMENSIONS:
        raise too_many_dimensions(len(lengths))
    check_size(lengths, bounds)
    return _dims(lengths, bounds)


_SLICE = (_DIMS, _I, _DIMS, _DIMS, _T)
UDFS: Mapping[str, Udf] = {
    "tg_array_items": Udf((_T,), "VARCHAR[]", array_items),
    "tg_array_dims_in": Udf((_T,), _DIMS, array_dims_in),
    "tg_array_text": Udf(("VARCHAR[]", _DIMS, _T), _T, array_text),
    "tg_array_json": Udf(("VARCHAR[]", _DIMS, _T), _T, array_json),
    "tg_array_shown_dims": Udf((_DIMS, _I), _T, shown_dims, nulls=True),
    "tg_array_place": Udf((_DIMS, _I, _DIMS), _I, place, nulls=True),
    "tg_array_slice_places": Udf(_SLICE, _DIMS, slice_places, nulls=True),
    "tg_array_slice_dims": Udf(_SLICE, _DIMS, slice_dims, nulls=True),
    "tg_array_assigned_places": Udf((*_SLICE, _I), _DIMS, assigned_places, nulls=True),
    "tg_array_assigned_dims": Udf((*_SLICE, _I), _DIMS, assigned_dims, nulls=True),
    "tg_array_filled_dims": Udf((_DIMS, _DIMS), _DIMS, filled_dims, nulls=True),
    "tg_array_filled_size": Udf((_DIMS, _DIMS), _I, filled_size, nulls=True),
    "tg_array_concatenated_dims": Udf((_DIMS, _I, _DIMS, _I), _DIMS, concatenated_dims, nulls=True),
    "tg_array_extended_dims": Udf((_DIMS, _I), _DIMS, extended_dims, nulls=True),
    "tg_array_gathered_dims": Udf(("INTEGER[][]", _DIMS), _DIMS, gathered_dims, nulls=True),
    "tg_array_constructed_dims": Udf(("INTEGER[][]", _DIMS), _DIMS, constructed_dims, nulls=True),
}
