"""What PostgreSQL's operators on ranges and multiranges say of them (9.20), over lists of bounds.

A range is a list of one pair of bounds, of none when it is empty; a multirange is a list of pairs in their order, with
something between each two. So each relation is defined once for both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from planner.errors import DataException
from planner.values import range_bounds as rb
from planner.values.range_bounds import Bounds
from planner.values.range_codecs import Codec

Ranges: TypeAlias = Sequence[Bounds]


def overlaps(codec: Codec, left: Ranges, right: Ranges) -> bool:
    """&&: some value is in both."""
    at = other = 0
    while at < len(left) and other < len(right):
        (low, high), (from_, to) = left[at], right[other]
        if codec.key(high) < codec.key(from_):
            at += 1
        elif codec.key(to) < codec.key(low):
            other += 1
        else:
            return True
    return False


def contains(codec: Codec, left: Ranges, right: Ranges) -> bool:
    """@>: every value of `right` is in `left`."""
    key = codec.key
    return all(
        any(key(low) <= key(from_) and key(to) <= key(high) for low, high in left) for from_, to in right
    )  # fmt: skip


def before(codec: Codec, left: Ranges, right: Ranges) -> bool:
    """<<: everything in `left` is below everything in `right`; false when one is empty."""
    return bool(left and right) and codec.key(left[-1][1]) < codec.key(right[0][0])


def not_right_of(codec: Codec, left: Ranges, right: Ranges) -> bool:
    """&<: `left` does not go beyond the end of `right`."""
    return bool(left and right) and codec.key(left[-1][1]) <= codec.key(right[-1][1])


def not_left_of(codec: Codec, left: Ranges, right: Ranges) -> bool:
    """&>: `left` does not begin before `right`."""
    return bool(left and right) and codec.key(left[0][0]) >= codec.key(right[0][0])


def adjacent(codec: Codec, left: Ranges, right: Ranges) -> bool:
    """-|-: one ends where the other begins."""
    if not left or not right:
        return False
    return rb.adjacent(codec, left[-1][1], right[0][0]) or rb.adjacent(codec, right[-1][1], left[0][0])


RELATIONS: Mapping[str, Callable[[Codec, Ranges, Ranges], bool]] = {
    "&&": overlaps,
    "@>": contains,
    "<@": lambda codec, left, right: contains(codec, right, left),
    "<<": before,
    ">>": lambda codec, left, right: before(codec, right, left),
    "&<": not_right_of,
    "&>": not_left_of,
    "-|-": adjacent,
}
"""By operator."""


def normalized(codec: Codec, ranges: Iterable[Bounds]) -> list[Bounds]:
    """The multirange of ranges in any order."""
    key = codec.key
    found: list[Bounds] = []
    for low, high in sorted(ranges, key=lambda item: (key(item[0]), key(item[1]))):
        if found:
            last = found[-1][1]
            if key(low) <= key(last) or rb.adjacent(codec, last, low):
                found[-1] = _hull(codec, found[-1], (low, high))
                continue
        found.append((low, high))
    return found


def _hull(codec: Codec, left: Bounds, right: Bounds) -> Bounds:
    """The range from the lower one of the lower bounds to the higher one of the upper ones. Of equal bounds, which may
    show different fraction digits, it has those of `right`."""
    key = codec.key
    return min(right[0], left[0], key=key), max(right[1], left[1], key=key)


def union(codec: Codec, left: Ranges, right: Ranges) -> list[Bounds]:
    """+ of multiranges."""
    return normalized(codec, [*left, *right])


def intersection(codec: Codec, left: Ranges, right: Ranges) -> list[Bounds]:
    """*: what is in both."""
    key = codec.key
    found: list[Bounds] = []
    at = other = 0
    while at < len(left) and other < len(right):
        (low, high), (from_, to) = left[at], right[other]
        first, last = max(low, from_, key=key), min(high, to, key=key)
        if key(first) <= key(last):
            found.append((first, last))
        if key(high) < key(to):
            at += 1
        else:
            other += 1
    return found


def difference(codec: Codec, left: Ranges, right: Ranges) -> list[Bounds]:
    """- of multiranges: what is in `left` and not in `right`."""
    key = codec.key
    found: list[Bounds] = []
    for low, high in left:
        start: bytes | None = low
        for from_, to in right:
            if start is None or key(to) < key(start):
                continue
            if key(from_) > key(high):
                break
            if key(start) < key(from_):
                found.append((start, rb.upper_before(codec, from_)))
            start = rb.lower_after(codec, to) if key(to) < key(high) else None
        if start is not None:
            found.append((start, high))
    return found


def range_union(codec: Codec, left: Ranges, right: Ranges) -> list[Bounds]:
    """+ of ranges. Raises 22000 when something is between them."""
    if len(union(codec, left, right)) > 1:
        raise DataException("result of range union would not be contiguous")
    return span(codec, [*left, *right])


def range_difference(codec: Codec, left: Ranges, right: Ranges) -> list[Bounds]:
    """- of ranges. Raises 22000 when `right` leaves two parts of `left`."""
    made = difference(codec, left, right)
    if len(made) > 1:
        raise DataException("result of range difference would not be contiguous")
    return made


def span(codec: Codec, ranges: Iterable[Bounds]) -> list[Bounds]:
    """The smallest range that holds all of `ranges` (range_merge)."""
    found: list[Bounds] = []
    for bounds in ranges:
        found = [_hull(codec, found[0], bounds)] if found else [bounds]
    return found
