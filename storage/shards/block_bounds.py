"""The bounds of the parts of a block as arrays, so that a condition is held against all of them at once.

They are coarser than the statistics, and never narrower: a bound becomes one of 2**32 steps between the least and the
greatest of the block, the same way as the value that it is compared with, which keeps their order (`_Scale`). What is
left (`places_left`) is looked into, and the statistics have the last word.

A file has eight bytes for a column, and only the columns have them by which parts differ most; two more for each bucket
that the table is partitioned by, of which bounds say nothing; and four, if it is a file of others, for where it lies.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
from msgspec import Struct

from storage.shards.partitions.transforms import PartitionField, PartitionValue
from storage.shards.parts import ANY_OF, TEXTS, ColumnStats, Part, comparable_bound, stat_value
from storage.shards.pruning import Condition, Needed

MAX_COLUMNS = 6
"""Columns of a block that have arrays."""

WIDEST = 0.5
"""A column has none where its parts span more of the block's values on an average."""

MAX_VALUES = 4096
"""A list of more values is left to the statistics."""

_STEPS = (1 << 32) - 1
_TEXT_BYTES = 6
"""Of a text so many bytes are compared after what all texts of the block begin with: they are exact as a float."""

Mask: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"
Steps: TypeAlias = "np.ndarray[Any, np.dtype[np.uint32]]"


def path_hashes(paths: Iterable[str]) -> Steps:
    """A hash of each path."""
    return np.array([zlib.crc32(path.encode("utf-8", "surrogatepass")) for path in paths], np.uint32)


class _Scale(Struct, frozen=True):
    """From values to steps: of two values the greater has no smaller step.

    Numbers are taken from `base`, texts without `prefix`, which all between the block's bounds have.
    """

    domain: str
    base: float | int | Decimal = 0
    prefix: bytes = b""
    span: float = 1.0

    @classmethod
    def between(cls, domain: str, low: Any, high: Any) -> _Scale | None:
        """The scale of values from `low` to `high`; None where there is none."""
        if domain in TEXTS:
            first, last = _as_bytes(low), _as_bytes(high)
            same = 0
            while same < min(len(first), len(last)) and first[same] == last[same]:
                same += 1
            from_, to = _number(first, same), _number(last, same)
            return cls(domain, base=from_, prefix=first[:same], span=max(to - from_, 1))
        if domain not in ("int", "float", "decimal") or not math.isfinite(low) or not math.isfinite(high):
            return None
        span = float(high - low)
        return cls(domain, base=low, span=span or 1.0) if math.isfinite(span) else None

    def number(self, value: Any) -> float:
        """Where `value` is. Raises TypeError for one of another type."""
        if self.domain not in TEXTS:
            return float(value - self.base)
        if isinstance(value, str) is not (self.domain == "str"):
            raise TypeError("no value of the column")
        text = _as_bytes(value)
        if not text.startswith(self.prefix):
            return -math.inf if text < self.prefix else math.inf
        return float(_number(text, len(self.prefix)) - self.base)

    def steps(self, numbers: Sequence[float]) -> Steps:
        """The steps of what `number` gave."""
        given = np.array(numbers, np.float64)
        inside = 1 + np.clip(given / self.span, 0, 1) * (_STEPS - 2)
        # The outermost steps are of what is beyond all bounds of the block.
        found: Steps = np.where(given < 0, 0, np.where(given > self.span, _STEPS, inside)).astype(np.uint32)
        return found


def _as_bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, bytes):
        return value
    raise TypeError("no text")


def _number(text: bytes, start: int) -> int:
    return int.from_bytes(text[start : start + _TEXT_BYTES].ljust(_TEXT_BYTES, b"\0"), "big")


class _Column(Struct, frozen=True):
    """The bounds of a column, each part at its place. One that has no value has its lower bound above the upper."""

    scale: _Scale
    lows: Steps
    highs: Steps

    def mask(self, op: str, value: Any) -> Mask | None:
        """Which parts may meet ``op value``; None where that is not told."""
        values = value if op == "in" else (value,)
        if op not in _COMPARED or len(values) > MAX_VALUES:
            return None
        known = [stat_value(each) for each in values if each is not None]
        if any(each is None or each != each for each in known):
            return None
        try:
            steps = self.scale.steps([self.scale.number(each) for each in known])
        except (TypeError, ArithmeticError):
            return None
        if not len(steps):
            return np.zeros(len(self.lows), np.bool_)
        return _COMPARED[op](self.lows, self.highs, steps)


def _mask_of_list(lows: Steps, highs: Steps, steps: Steps) -> Mask:
    """Whether one of `steps` is between the bounds: the least that is not below the lower one."""
    steps = np.sort(steps)
    at = np.searchsorted(steps, lows)
    found: Mask = (at < len(steps)) & (steps[np.minimum(at, len(steps) - 1)] <= highs)
    return found


_COMPARED: Mapping[str, Callable[[Steps, Steps, Steps], Mask]] = {
    "=": _mask_of_list,
    "in": _mask_of_list,
    "<": lambda lows, highs, steps: lows <= steps[0],
    "<=": lambda lows, highs, steps: lows <= steps[0],
    ">": lambda lows, highs, steps: highs >= steps[0],
    ">=": lambda lows, highs, steps: highs >= steps[0],
}


class _Buckets(Struct, frozen=True):
    """The keys of a partition field, each part at its place."""

    field: PartitionField
    type: str
    keys: np.ndarray[Any, Any]

    def mask(self, op: str, value: Any) -> Mask | None:
        """Which parts may meet ``op value``; None where that is not told."""
        if op not in ("=", "in") or value is None:
            return None
        keys = PartitionValue(self.field, self.type, 0).keys_of((value,) if op == "=" else tuple(value))
        return None if keys is None else np.isin(self.keys, [key for key in keys if isinstance(key, int)])


class BlockBounds(Struct, frozen=True):
    """What is told of all parts of a block at once."""

    columns: Mapping[str, _Column]
    buckets: tuple[_Buckets, ...]
    links: Steps
    """The hashes of the paths of those that are links, sorted."""

    @classmethod
    def of(cls, parts: Sequence[Part], summary: Mapping[str, ColumnStats]) -> BlockBounds:
        """Of `parts`, whose statistics together are `summary`."""
        found: list[tuple[float, str, _Column]] = []
        for name, stats in summary.items():
            column = _column(parts, name, stats.domain)
            if column is not None:
                filled = column.lows <= column.highs
                spans = column.highs[filled].astype(np.float64) - column.lows[filled]
                width = float(spans.mean()) / _STEPS if len(spans) else 0.0
                if width <= WIDEST:
                    found.append((width, name, column))
        found.sort(key=lambda each: each[0])
        return cls({name: column for _, name, column in found[:MAX_COLUMNS]}, _buckets(parts), _links(parts))

    @property
    def bytes(self) -> int:
        """The memory of the arrays."""
        columns = sum([column.lows.nbytes + column.highs.nbytes for column in self.columns.values()])
        return columns + sum([bucket.keys.nbytes for bucket in self.buckets]) + self.links.nbytes

    def may_link(self, paths: Steps) -> bool:
        """Whether a part may be a link to one of the paths of which these are the `path_hashes`."""
        return len(self.links) > 0 and bool(np.isin(self.links, paths).any())

    def places_left(self, needed: Needed) -> Sequence[int] | None:
        """The places of the parts that may meet one of `needed`; None: all."""
        mask = self._any_of(needed)
        return None if mask is None else np.flatnonzero(mask).tolist()

    def _any_of(self, needed: Needed) -> Mask | None:
        found: Mask | None = None
        for conjunction in needed:
            mask = self._all_of(conjunction)
            if mask is None:
                return None
            found = mask if found is None else found | mask
        return found

    def _all_of(self, conjunction: Sequence[Condition]) -> Mask | None:
        found: Mask | None = None
        for condition in conjunction:
            for mask in self._masks(condition):
                if mask is not None:
                    found = mask if found is None else found & mask
        return found

    def _masks(self, condition: Condition) -> list[Mask | None]:
        if condition.op == ANY_OF:
            return [self._any_of(condition.value)]
        column = self.columns.get(condition.column)
        about = [] if column is None else [column.mask(condition.op, condition.value)]
        if self.buckets:
            same = [bucket for bucket in self.buckets if bucket.field.column == condition.column]
            about += [bucket.mask(condition.op, condition.value) for bucket in same]
        return about


def _column(parts: Sequence[Part], name: str, domain: str) -> _Column | None:
    """The bounds of one column, which all parts have with this domain; None where none is known."""
    bounds: list[tuple[Any, Any] | None] = []
    for part in parts:
        stats = part.stats[name]
        is_empty = stats.null_count == part.rows
        bounds.append(None if is_empty else (comparable_bound(stats, stats.min), comparable_bound(stats, stats.max)))
    known = [bound for each in bounds if each is not None for bound in each if bound is not None]
    scale = _Scale.between(domain, min(known), max(known)) if known else None
    if scale is None:
        return None
    lows: list[float] = []
    highs: list[float] = []
    for each in bounds:
        low, high = (math.inf, -math.inf) if each is None else each
        lows.append(low if each is None else -math.inf if low is None else scale.number(low))
        highs.append(high if each is None else math.inf if high is None else scale.number(high))
    return _Column(scale, scale.steps(lows), scale.steps(highs))


def _buckets(parts: Sequence[Part]) -> tuple[_Buckets, ...]:
    """The buckets that all parts have, of one type."""
    found: list[_Buckets] = []
    for place, first in enumerate(parts[0].partition):
        if first.field.transform != "bucket":
            continue
        values = [part.partition[place] if place < len(part.partition) else None for part in parts]
        keys: list[int] = []
        for value in values:
            if value is None or (value.field, value.type) != (first.field, first.type):
                break
            keys.append(value.key if isinstance(value.key, int) else -1)
        if len(keys) == len(parts):
            kind = np.min_scalar_type(-max(max(keys), 1))
            found.append(_Buckets(first.field, first.type, np.array(keys, kind)))
    return tuple(found)


def _links(parts: Sequence[Part]) -> Steps:
    return np.sort(path_hashes([part.link.path for part in parts if part.link is not None]))
