"""Finding the rows whose keys are between two bounds, in the order of the index.

Every part's entries are in order already. So many of each are taken as hold, between them, the first rows that are
asked for; of those the rows are read and sorted by the whole keys. When some were deleted or out of bounds, more are
taken.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from msgspec import Struct

from storage.shards.indexes.definition import IndexDefinition, StoredColumn
from storage.shards.indexes.keys import Ints, Keys, Mask, Positions, Values, compare, equal, order, prefixes, values_of
from storage.shards.indexes.reading.found import Found, Gathered, Rows, arrays_of
from storage.shards.indexes.reading.part_views import PartView
from storage.shards.indexes.reading.small_parts import visible
from storage.shards.indexes.reading.sources import Sources, Steps, over_rows
from storage.shards.indexes.runs import Section
from storage.shards.indexes.scalar_keys import plain, prefix_of
from storage.shards.parts import Part

FIRST_ROWS = 16
"""So many candidates are taken at least at a time."""

_HIGHEST = (1 << 64) - 1


class Bound(Struct, frozen=True):
    """One end of a range: values of the first columns after those that are equal, compared as PostgreSQL compares rows.
    Several columns must have one direction."""

    values: tuple[Any, ...]
    inclusive: bool = True


class KeyRange(Struct, frozen=True, kw_only=True):
    """Keys whose first columns are `equal` (None: IS NULL), and the next ones at or above `low` and at or below `high`,
    in the order of their values whatever the direction of the index. A NULL is within no bound, and in any range
    without bounds, unless the column after the equal ones is said to be `not_null`."""

    equal: tuple[Any, ...] = ()
    low: Bound | None = None
    high: Bound | None = None
    not_null: bool = False


class _Entries(Struct):
    """The entries of a section, from `start` to `stop`, that are left. `part` is None where `parts` has each one's."""

    section: Section
    start: int
    stop: int
    part: Part | None = None
    parts: Ints | None = None
    positions: Ints | None = None
    view: PartView | None = None

    def first(self, count: int, descending: bool) -> Keys:
        """The first keys, at most `count`, in any order."""
        if descending:
            return self.section.keys[max(self.start, self.stop - count) : self.stop]
        return self.section.keys[self.start : min(self.start + count, self.stop)]

    def take(self, threshold: int, descending: bool) -> list[tuple[Part, Ints]]:
        """Take the entries up to the key `threshold` and all at it: parts and positions."""
        if descending:
            cut = bisect_left(self.section.items, threshold, self.start, self.stop)
            at = self.section.positions[cut : self.stop]
            self.stop = cut
        else:
            cut = bisect_right(self.section.items, threshold, self.start, self.stop)
            at = self.section.positions[self.start : cut]
            self.start = cut
        rows = at.astype(np.int64)
        if not len(rows):
            return []
        if self.part is not None:
            return [(self.part, rows)]
        assert self.view is not None and self.parts is not None and self.positions is not None  # noqa: PT018
        ids = self.parts[rows]
        by = np.argsort(ids, kind="stable")
        found, starts = np.unique(ids[by], return_index=True)
        return [
            (self.view.inline[part], self.positions[rows[where]])
            for part, where in zip(found.tolist(), np.split(by, starts[1:]), strict=True)
        ]


def places(
    sources: Sources, views: Sequence[PartView], index: IndexDefinition, keys: KeyRange
) -> Steps[list[tuple[Part | None, Positions]]]:
    """Where rows in the range may be: positions by part, those in inline parts together (None)."""
    entries = yield from _entries(sources, views, index, *_prefixes(index, keys))
    return [(item.part, item.section.positions[item.start : item.stop]) for item in entries]


def count(sources: Sources, views: Sequence[PartView], index: IndexDefinition, keys: KeyRange) -> Steps[int]:
    """See `reader.KeyReader.count_now`."""
    entries = yield from _entries(sources, views, index, *_prefixes(index, keys))
    return sum([item.stop - item.start for item in entries])


def find(
    sources: Sources,
    views: Sequence[PartView],
    index: IndexDefinition,
    keys: KeyRange,
    columns: Sequence[StoredColumn],
    descending: bool,
    limit: int | None,
) -> Steps[Found]:
    """See `reader.KeyReader.range`."""
    test = _Test(index, keys)
    entries = yield from _entries(sources, views, index, *_prefixes(index, keys))
    gathered = Gathered(index, columns)
    pieces: list[Rows] = []
    left = limit
    size = FIRST_ROWS if limit is None else max(FIRST_ROWS, limit + limit // 4)
    while entries and (left is None or left > 0):
        for part, positions in _next(entries, None if left is None else size, descending):
            for number, at in (yield from sources.groups_at(part, positions)):
                group = yield from sources.group(part, number)
                gathered.read(part, group, positions[at], np.zeros(len(at), np.int64))
        rows = gathered.rows()
        keyed = yield from over_rows(len(rows.keys), partial(gathered.values, rows), in_threads=index.in_threads)
        rows = rows.take(np.flatnonzero(test.passed(keyed)))
        rows = rows.take(np.flatnonzero(~(yield from sources.deleted_among(views, rows.row_ids))))
        rows = rows.take(np.argsort(rows.row_ids, kind="stable"))
        values = yield from over_rows(len(rows.keys), partial(gathered.values, rows), in_threads=index.in_threads)
        by = order(values, prefixes(values))
        rows = rows.take((by[::-1] if descending else by)[:left])
        pieces.append(rows)
        if left is not None:
            left -= len(rows.keys)
        entries = [item for item in entries if item.start < item.stop]
        size *= 2
    return gathered.found(Rows.joined(pieces or [gathered.rows()]))


def _next(entries: Sequence[_Entries], size: int | None, descending: bool) -> list[tuple[Part, Ints]]:
    """The next entries in order, at least `size` of them if there are so many, all with one prefix together."""
    threshold = 0 if descending else _HIGHEST
    if size is not None:
        heads = np.concatenate([item.first(size, descending) for item in entries])
        if len(heads) > size:
            nth = len(heads) - size if descending else size - 1
            threshold = int(np.partition(heads, nth)[nth])
    return [place for item in entries for place in item.take(threshold, descending)]


def _entries(
    sources: Sources, views: Sequence[PartView], index: IndexDefinition, low: int, high: int
) -> Steps[list[_Entries]]:
    """All entries with low <= prefix <= high."""
    found: list[_Entries] = []
    if low > high:
        return found
    for view in views:
        if view.inline:
            keys = yield from sources.table_keys(view, index)
            prefix, ids, positions = keys.by_order.between(low, high)
            seen = np.flatnonzero(visible(ids, view.inline))
            seen = seen[np.argsort(prefix[seen], kind="stable")]
            section = Section(prefix[seen], np.arange(len(seen), dtype=np.uint32))
            found.append(_Entries(section, 0, len(seen), parts=ids[seen], positions=positions[seen], view=view))
        for lowest, highest, part in view.bounds(index):
            if lowest <= high and low <= highest:
                run = yield from sources.run(part, index)
                assert run.by_order is not None
                found.append(_Entries(run.by_order, *run.by_order.between(low, high), part=part))
    return [item for item in found if item.start < item.stop]


def _prefixes(index: IndexDefinition, keys: KeyRange) -> tuple[int, int]:
    """The lowest and the highest prefix that a key in the range can have."""
    if not index.ordered:
        raise ValueError(f"index {index.id} has no order")
    first = len(keys.equal)
    equal_ = [plain(column, value) for column, value in zip(index.columns, keys.equal, strict=False)]
    start, bits = prefix_of(index.columns, equal_)
    low, high = start, start | (1 << max(0, 64 - bits)) - 1
    bounds = [bound for bound in (keys.low, keys.high) if bound is not None]
    if not bounds and not keys.not_null:
        return low, high
    column = index.columns[first]
    directions = {c.descending for bound in bounds for c in index.columns[first : first + len(bound.values)]}
    if len(directions) > 1:
        raise ValueError("columns of different directions have no common bound")
    null, null_bits = prefix_of(index.columns, [*equal_, None])
    if null_bits <= 64:
        # Next to all that is not NULL.
        if column.nulls_first:
            low = (null | (1 << 64 - null_bits) - 1) + 1
        else:
            high = null - 1
    lower, upper = (keys.high, keys.low) if column.descending else (keys.low, keys.high)
    if lower is not None:
        low = max(low, prefix_of(index.columns, [*equal_, *_plain(index, first, lower)])[0])
    if upper is not None:
        prefix, bits = prefix_of(index.columns, [*equal_, *_plain(index, first, upper)])
        high = min(high, prefix | (1 << max(0, 64 - bits)) - 1)
    return low, high


def _plain(index: IndexDefinition, first: int, bound: Bound) -> list[Any]:
    """The bound's values, up to the first NULL: what follows it decides nothing."""
    found = []
    for column, value in zip(index.columns[first:], bound.values, strict=False):
        if value is None:
            break
        found.append(plain(column, value))
    return found


class _Test:
    """Whether whole keys are in a range."""

    def __init__(self, index: IndexDefinition, keys: KeyRange) -> None:
        width = len(keys.equal)
        self._equal = values_of(index.columns[:width], arrays_of(index.columns[:width], [keys.equal]))
        self._not_null = keys.not_null
        self._bounds = []
        for bound, sign in ((keys.low, 1), (keys.high, -1)):
            if bound is not None:
                columns = index.columns[width : width + len(bound.values)]
                self._bounds.append((values_of(columns, arrays_of(columns, [bound.values])), sign, bound.inclusive))

    def passed(self, held: Sequence[Values]) -> Mask:
        """Which of the keys `held` are in the range."""
        width = len(self._equal)
        rows = held[0].rows
        passed: Mask = np.ones(rows, bool)
        if width:
            passed = equal(held[:width], np.arange(rows), self._equal, np.zeros(rows, np.int64))
        if self._not_null and (nulls := held[width].nulls) is not None:
            passed &= ~nulls
        for bound, sign, inclusive in self._bounds:
            beyond: Mask = np.zeros(rows, bool)
            undecided: Mask = np.ones(rows, bool)
            for values, limit in zip(held[width:], bound, strict=False):
                if values.nulls is not None:
                    undecided &= ~values.nulls
                if limit.nulls is not None:
                    undecided[:] = False
                compared = compare(values, limit) * sign
                beyond |= undecided & (compared > 0)
                undecided &= compared == 0
            passed &= beyond | undecided if inclusive else beyond
        return passed
