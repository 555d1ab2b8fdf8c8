"""Index paths: which index finds the rows that a scan needs, and by which keys or ranges of keys.

What a scan needs is a conjunction (`adapter.plans.predicates`): a row that fails it does not matter to the query. An
index serves when its first columns are fixed by ``=`` and ``in``, and the one after them may be bounded. The rows of a
path are those of the conjunction and more: the query's own conditions are tested on them all the same.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from itertools import product
from typing import Any

from msgspec import Struct

from adapter.plans.first_rows import FirstRows
from adapter.plans.key_indexes import UsableIndex
from adapter.plans.predicates import Comparison, Conjunction
from planner.ir import nodes as ir
from storage.shards.indexes.definition import Domain
from storage.shards.indexes.reading.ranges import Bound, KeyRange
from storage.shards.indexes.scalar_keys import plain

MAX_KEYS = 100_000
"""Keys that are looked up for one scan. More are read with the table."""

MAX_RANGES = 1_000
"""Ranges, each of which is found by itself."""


_AS_THEY_ARE: Mapping[Domain, frozenset[type]] = {Domain.INTEGER: frozenset({int}), Domain.TEXT: frozenset({str})}
"""Values that every column of a domain can be compared with."""

_COMPARING = frozenset({"=", "<>", "<", "<=", ">", ">="})


class IndexPath(Struct, frozen=True, kw_only=True):
    """The rows of `index` with one of the whole `keys`, or, where that is None, in one of `ranges`.

    `conditions`: the columns whose conditions led to it. With `first`, only so many of the only range are needed as
    give those rows, in the order of the index or, `backward`, in the opposite one. With `partners`, the keys are what
    these have in another side's rows: by physical column.
    """

    index: UsableIndex
    keys: tuple[tuple[Any, ...], ...] | None
    ranges: tuple[KeyRange, ...]
    conditions: frozenset[str]
    first: FirstRows | None = None
    backward: bool = False
    covers: bool = False
    """Whether it was led to by all conditions, so that hardly a row fails them."""
    partners: Mapping[str, ir.Scalar] | None = None

    @property
    def most_rows(self) -> int | None:
        """How many rows it finds at most, if that is known beforehand."""
        return len(self.keys) if self.keys is not None and (self.index.record.unique or not self.keys) else None


def index_paths(conjunction: Conjunction, indexes: Sequence[UsableIndex]) -> list[IndexPath]:
    """The ways to the rows of `conjunction`, one for each of `indexes` that has any; if one finds at most one row for
    each key, that one alone."""
    for comparison in conjunction:
        if comparison.value is None and comparison.op in _COMPARING and indexes:
            # Nothing compares with NULL.
            return [IndexPath(index=indexes[0], keys=(), ranges=(), conditions=frozenset([comparison.column]))]
    found = []
    for index in indexes:
        names, by_column = index.compared, _by_column(conjunction, index)
        if names[0] in by_column and index.record.valid and index.has_all(conjunction):
            path = _path(index, names, by_column)
            if path is not None:
                found.append(path)
    certain = [path for path in found if path.most_rows is not None]
    return [min(certain, key=lambda path: path.most_rows or 0)] if certain else found


def _by_column(conjunction: Conjunction, index: UsableIndex) -> dict[str, list[Comparison]]:
    """The comparisons of each column, with the keys of `index` for values."""
    found: dict[str, list[Comparison]] = {}
    for comparison in conjunction:
        found.setdefault(comparison.column, []).append(index.as_keys(comparison))
    return found


def _path(
    index: UsableIndex, names: Sequence[str | None], by_column: Mapping[str, list[Comparison]]
) -> IndexPath | None:
    """The path by `index`; None when it leads nowhere, or a value is none that its column can have."""
    fixed: list[tuple[Any, ...]] = []
    combinations = 1
    for column in names:
        comparisons = by_column.get(column, ()) if column is not None else ()
        values = _fixed(comparisons)
        if values is None or combinations * len(values) > MAX_KEYS:
            break
        combinations *= len(values)
        fixed.append(values)
    width = len(fixed)
    columns = index.definition.columns
    try:
        for key_column, values in zip(columns, fixed, strict=False):
            if not set(map(type, values)) <= _AS_THEY_ARE.get(key_column.domain, frozenset()):
                for value in values:
                    plain(key_column, value)
        low, high = _bounds(index, names, width, by_column)
    except (ValueError, TypeError, ArithmeticError):
        return None
    ranged = low is not None or high is not None
    if not fixed and not ranged:
        return None
    met = frozenset([name for name in names[: width + ranged] if name is not None])
    if width == len(columns) and index.definition.hashed and not any(None in values for values in fixed):
        return IndexPath(index=index, keys=tuple(product(*fixed)), ranges=(), conditions=met)
    if not index.definition.ordered or combinations > MAX_RANGES:
        return None
    ranges = tuple([KeyRange(equal=key, low=low, high=high) for key in product(*fixed)])
    return IndexPath(index=index, keys=None, ranges=ranges, conditions=met)


def _fixed(comparisons: Sequence[Comparison]) -> tuple[Any, ...] | None:
    """The values of which a column must have one (None: NULL); None when they are not known."""
    lists = []
    for comparison in comparisons:
        match comparison.op:
            case "=":
                return () if comparison.value is None else (comparison.value,)
            case "is null":
                return (None,)
            case "in":
                lists.append(tuple(dict.fromkeys(comparison.value)))
    return min(lists, key=len) if lists else None


def _bounds(
    index: UsableIndex, names: Sequence[str | None], place: int, by_column: Mapping[str, list[Comparison]]
) -> tuple[Bound | None, Bound | None]:
    """The tightest bounds of the index's column `place`."""
    low: Bound | None = None
    high: Bound | None = None
    column = names[place] if place < len(names) else None
    for comparison in by_column.get(column, ()) if column is not None else ():
        if comparison.op in (">", ">="):
            bound = _bound(index, names, place, comparison)
            low = bound if low is None else _tighter(index, place, low, bound, 1)
        elif comparison.op in ("<", "<="):
            bound = _bound(index, names, place, comparison)
            high = bound if high is None else _tighter(index, place, high, bound, -1)
    return low, high


def _bound(index: UsableIndex, names: Sequence[str | None], place: int, comparison: Comparison) -> Bound:
    """The bound that `comparison` sets, of as many columns as the index has next to each other in one direction."""
    columns, first = index.definition.columns, place
    values: list[Any] = []
    at: Comparison | None = comparison
    op = comparison.op
    while (
        at is not None
        and place < len(columns)
        and names[place] == at.column
        and columns[place].descending == columns[first].descending
    ):
        plain(columns[place], at.value)
        values.append(at.value)
        op, at = at.op, at.then
        place += 1
    return Bound(tuple(values), inclusive=op in (">=", "<="))


def _tighter(index: UsableIndex, place: int, one: Bound, other: Bound, sign: int) -> Bound:
    column = index.definition.columns[place]
    first, second = plain(column, one.values[0]), plain(column, other.values[0])
    if first == second:
        return one if not one.inclusive or len(one.values) > 1 else other
    return one if (first > second) == (sign > 0) else other  # type: ignore[operator]


def ordered_paths(
    first: FirstRows, conjunction: Conjunction, indexes: Sequence[UsableIndex], not_null: Container[str]
) -> list[IndexPath]:
    """The ways to the rows of `conjunction` in the order of `first`. `not_null`: columns that are never NULL."""
    found = []
    for index in indexes:
        by_column = _by_column(conjunction, index)
        if index.definition.ordered and index.record.valid and index.has_all(conjunction):
            path = _ordered_path(index, first, by_column, not_null)
            if path is not None:
                found.append(path)
    return found


def _ordered_path(
    index: UsableIndex, first: FirstRows, by_column: Mapping[str, list[Comparison]], not_null: Container[str]
) -> IndexPath | None:
    names, columns = index.compared, index.definition.columns
    equal: dict[str, Any] = {}
    for known, comparisons in by_column.items():
        values = _fixed(comparisons)
        if values is not None and len(values) == 1:
            equal[known] = values[0]
    keys = [key for key in first.keys if key.column not in equal]
    place = 0
    while place < len(names) and names[place] in equal and not (keys and names[place] == keys[0].column):
        place += 1
    width = place
    try:
        for fixed, name in zip(columns[:width], names, strict=False):
            plain(fixed, equal[name or ""])
        low, high = _bounds(index, names, width, by_column)
    except (ValueError, TypeError, ArithmeticError):
        return None
    backward: bool | None = None
    for key in keys:
        if place == len(names):
            if index.record.unique and all(name in not_null or name in equal for name in names if name is not None):
                break
            return None
        name, column = names[place], columns[place]
        while name != key.column and name in equal and place + 1 < len(names):
            place += 1
            name, column = names[place], columns[place]
        if name != key.column:
            return None
        turned = key.descending != column.descending
        has_nulls = name not in not_null and not (place == width and (low or high or key.nulls_first is None))
        if has_nulls and (key.nulls_first != column.nulls_first) != turned:
            return None
        if backward is not None and backward != turned:
            return None
        backward = turned
        place += 1
    if backward is None:
        return None
    met = [name for name in names[: width + (low is not None or high is not None)] if name is not None]
    return IndexPath(
        index=index,
        keys=None,
        ranges=(
            KeyRange(
                equal=tuple([equal[name or ""] for name in names[:width]]),
                low=low,
                high=high,
                not_null=first.keys[0].nulls_first is None,
            ),
        ),
        conditions=frozenset(met),
        first=first,
        backward=backward,
        covers=len(by_column) >= len(first.conditions) and by_column.keys() <= set(met),
    )
