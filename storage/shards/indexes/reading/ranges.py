"""Finding the rows whose keys are between two bounds, in the order of the index.

Every part's entries are in order already. So many of each are taken as hold, between them, the first rows that are
asked for; of those the rows are read and sorted by the whole keys. When some were deleted or out of bounds, more are
taken.

Entries are known by the first 64 bits of their keys. Where many have the same (long texts that begin alike), those of
a file are in the order of the whole keys all the same: the ends of the range are found among them by bisection, which
reads some rows, and only so many are taken of each file as are asked for; what comes after the last one of any file is
put back.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from msgspec import Struct

from storage.shards.indexes.definition import Domain, IndexDefinition, KeyColumn, StoredColumn
from storage.shards.indexes.keys import Ints, Keys, Mask, Positions, Values, compare, equal, order, prefixes, values_of
from storage.shards.indexes.reading.found import Found, Gathered, Rows, arrays_of
from storage.shards.indexes.reading.part_views import PartView, plain_key
from storage.shards.indexes.reading.row_groups import RowGroup
from storage.shards.indexes.reading.small_parts import visible
from storage.shards.indexes.reading.sources import Sources, Steps, over_rows
from storage.shards.indexes.runs import Section
from storage.shards.indexes.scalar_keys import plain, prefix_of
from storage.shards.parts import Part

MORE_ROWS = 16
"""So many candidates are taken at least at a time, when the first ones were not enough."""

MANY_TIES = 64
"""Of so many entries with one prefix not all are taken, nor are all taken to be in the range."""

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

    @property
    def is_sorted(self) -> bool:
        """Whether entries with one prefix are in the order of the whole keys."""
        return self.part is not None

    def ties(self, threshold: int, descending: bool) -> int:
        """How many of the entries that are next have the prefix `threshold`, or come before it."""
        if descending:
            return self.stop - bisect_left(self.section.items, threshold, self.start, self.stop)
        return bisect_right(self.section.items, threshold, self.start, self.stop) - self.start

    def take(self, count: int, descending: bool) -> list[tuple[Part, Ints]]:
        """Take the next `count` entries: parts and positions."""
        if descending:
            at = self.section.positions[self.stop - count : self.stop]
            self.stop -= count
        else:
            at = self.section.positions[self.start : self.start + count]
            self.start += count
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

    def all(self) -> list[tuple[Part, Ints, Keys]]:
        """All entries that are left: parts, positions and prefixes."""
        at, held = self.section.positions[self.start : self.stop].astype(np.int64), self.section.keys
        held = held[self.start : self.stop]
        if self.part is not None:
            return [(self.part, at, held)]
        assert self.view is not None and self.parts is not None and self.positions is not None  # noqa: PT018
        ids = self.parts[at]
        return [
            (self.view.inline[part], self.positions[at[where]], held[where])
            for part in dict.fromkeys(ids.tolist())
            for where in (np.flatnonzero(ids == part),)
        ]

    def put_back(self, count: int, descending: bool) -> None:
        """The last `count` entries that were taken are still to come."""
        if descending:
            self.stop += count
        else:
            self.start -= count


def places(
    sources: Sources, views: Sequence[PartView], index: IndexDefinition, keys: KeyRange
) -> Steps[list[tuple[Part | None, Positions]]]:
    """Where rows in the range may be: positions by part, those in inline parts together (None)."""
    entries = yield from _entries(sources, views, index, keys)
    return [(item.part, item.section.positions[item.start : item.stop]) for item in entries]


def count(sources: Sources, views: Sequence[PartView], index: IndexDefinition, keys: KeyRange) -> Steps[int]:
    """See `reader.KeyReader.count_now`."""
    exact = exact_prefixes(index, keys)
    if exact is None:
        entries = yield from _entries(sources, views, index, keys)
    else:
        entries = yield from _entries_between(sources, views, index, *exact)
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
    if limit is None:
        exact = exact_prefixes(index, keys)
        if exact is not None:
            return (yield from _find_exact(sources, views, index, exact, columns, descending))
    test = _Test(index, keys)
    entries = yield from _entries(sources, views, index, keys)
    gathered = Gathered(index, columns)
    pieces: list[Rows] = []
    left = limit
    size = 0 if limit is None else limit
    while entries and (left is None or left > 0):
        taken, cut = _next(entries, None if left is None else size, descending)
        for number, part, positions in taken:
            for group_number, at in (yield from sources.groups_at(part, positions)):
                group = yield from sources.group(part, group_number)
                gathered.read(part, group, positions[at], np.full(len(at), number))
        rows = gathered.rows()
        rows = rows.take(np.argsort(rows.row_ids, kind="stable"))
        values = yield from over_rows(len(rows.keys), partial(gathered.values, rows), in_threads=index.in_threads)
        by = order(values, prefixes(values))
        if descending:
            by = by[::-1]
        if cut:
            by = _up_to_the_first_end(entries, cut, rows, values, by, descending)
        here: Mask = np.zeros(len(rows.keys), bool)
        here[by] = test.passed(values)[by]
        here &= ~(yield from sources.deleted_among(views, rows.row_ids))
        rows = rows.take(by[here[by]][:left])
        pieces.append(rows)
        if left is not None:
            left -= len(rows.keys)
        entries = [item for item in entries if item.start < item.stop]
        size = max(2 * size, MORE_ROWS)
    joined = Rows.joined(pieces or [gathered.rows()])
    return gathered.found(Rows(table=joined.table, keys=np.zeros(len(joined.keys), np.int64), row_ids=joined.row_ids))


def exact_prefixes(index: IndexDefinition, keys: KeyRange) -> tuple[int, int] | None:
    """The lowest and the highest prefix of a key in the range, where prefixes say all: whole keys of few enough bits.
    None where more has to be compared."""
    columns, width = index.columns, len(keys.equal)
    if any(column.domain is not Domain.INTEGER for column in columns) or index.predicate is not None:
        return None
    if width < len(columns) - 1 or (width < len(columns) and (keys.low is None or keys.high is None)):
        return None
    equal_ = [plain(column, value) for column, value in zip(columns, keys.equal, strict=False)]
    if width == len(columns):
        prefix, bits = prefix_of(columns, equal_)
        return (prefix, prefix) if bits <= 64 else None
    assert keys.low is not None and keys.high is not None  # noqa: PT018
    if keys.low.values[0] is None or keys.high.values[0] is None:
        return None
    ends = (keys.high, keys.low) if columns[width].descending else (keys.low, keys.high)
    found = []
    for end, sign in zip(ends, (1, -1), strict=True):
        # An integer between two others has no more bits than one of them.
        prefix, bits = prefix_of(columns, [*equal_, plain(columns[width], end.values[0])])
        if bits > 64:
            return None
        found.append(prefix if end.inclusive else prefix + sign)
    return found[0], found[1]


def _find_exact(
    sources: Sources,
    views: Sequence[PartView],
    index: IndexDefinition,
    bounds: tuple[int, int],
    columns: Sequence[StoredColumn],
    descending: bool,
) -> Steps[Found]:
    """`find` of all rows whose prefix is within `bounds`, which say all of their keys."""
    entries = yield from _entries_between(sources, views, index, *bounds)
    gathered = Gathered(None if columns else index, columns)
    prefix: list[Keys] = []
    for item in entries:
        for part, positions, held in item.all():
            for group_number, at in (yield from sources.groups_at(part, positions)):
                group = yield from sources.group(part, group_number)
                gathered.read(part, group, positions[at], np.zeros(len(at), np.int64))
                prefix.append(held[at])
    rows = gathered.rows()
    joined = np.concatenate(prefix) if prefix else np.empty(0, np.uint64)
    by = np.lexsort((rows.row_ids, joined))
    if descending:
        by = by[::-1]
    gone = yield from sources.deleted_among(views, rows.row_ids)
    if gone.any():
        by = by[~gone[by]]
    return gathered.found(rows.take(by))


def _next(
    entries: Sequence[_Entries], size: int | None, descending: bool
) -> tuple[list[tuple[int, Part, Ints]], list[int]]:
    """The next entries in order, at least `size` of them if there are so many: numbers of what they are of, parts and
    positions. All with one prefix are taken together, unless there are many; then also the numbers of what has more."""
    threshold = 0 if descending else _HIGHEST
    if size is not None:
        heads = np.concatenate([item.first(size, descending) for item in entries])
        if len(heads) >= size:
            nth = len(heads) - size if descending else size - 1
            threshold = int(np.partition(heads, nth)[nth])
    counts = [item.ties(threshold, descending) for item in entries]
    cut: list[int] = []
    if size is not None and sum(counts) > size + MANY_TIES:
        cut = [number for number, item in enumerate(entries) if item.is_sorted and counts[number] > size]
        for number in cut:
            counts[number] = size
    return [
        (number, *place)
        for number, (item, count) in enumerate(zip(entries, counts, strict=True))
        for place in item.take(count, descending)
    ], cut


def _up_to_the_first_end(
    entries: Sequence[_Entries], cut: Sequence[int], rows: Rows, values: Sequence[Values], by: Ints, descending: bool
) -> Ints:
    """Those of the rows `by`, in order, that none of what has been left out can come before: up to the first last row
    of the entries that were `cut`, and what equals it. The others are put back."""
    rank = np.empty(len(by), np.int64)
    rank[by] = np.arange(len(by))
    end = min([int(rank[rows.keys == number].max()) for number in cut])
    after = by[end + 1 :]
    same = equal(values, after, values, np.full(len(after), by[end]))
    kept = end + 1 + (len(after) if same.all() else int(np.argmin(same)))
    for number, count in zip(*np.unique(rows.keys[by[kept:]], return_counts=True), strict=True):
        entries[number].put_back(int(count), descending)
    return by[:kept]


def _entries(
    sources: Sources, views: Sequence[PartView], index: IndexDefinition, keys: KeyRange
) -> Steps[list[_Entries]]:
    """The entries of keys in the range; those of inline parts, and few others, may be next to it."""
    low, high = _prefixes(index, keys)
    return (yield from _entries_between(sources, views, index, low, high, keys))


def _entries_between(
    sources: Sources,
    views: Sequence[PartView],
    index: IndexDefinition,
    low: int,
    high: int,
    keys: KeyRange | None = None,
) -> Steps[list[_Entries]]:
    """The entries with prefixes from `low` to `high`. `keys`: the range, where these do not say all of it."""
    found: list[_Entries] = []
    if low > high:
        return found
    side = None if keys is None else _Side(index, keys)
    for view in views:
        if view.inline:
            held = yield from sources.table_keys(view, index)
            prefix, ids, positions = held.by_order.between(low, high)
            seen = np.flatnonzero(visible(ids, view.inline))
            seen = seen[np.argsort(prefix[seen], kind="stable")]
            section = Section(prefix[seen], np.arange(len(seen), dtype=np.uint32))
            found.append(_Entries(section, 0, len(seen), parts=ids[seen], positions=positions[seen], view=view))
        for part in view.files_between(index, low, high):
            run = yield from sources.run_within(part, index, low, high)
            assert run.by_order is not None
            item = _Entries(run.by_order, *run.by_order.between(low, high), part=part)
            if side is not None and not run.head.exact and item.start < item.stop:
                yield from _narrow(sources, item, side, low, high)
            found.append(item)
    return [item for item in found if item.start < item.stop]


def _narrow(sources: Sources, item: _Entries, side: _Side, low: int, high: int) -> Steps[None]:
    """Leave out what is beyond the range though its prefix is not, where that may be much."""
    items, part = item.section.items, item.part
    assert part is not None

    def first(start: int, stop: int, wanted: int) -> Steps[int]:
        """The first entry from `start` on that is at the side `wanted`, or beyond it; or `stop`."""
        while start < stop:
            middle = (start + stop) // 2
            position = int(item.section.positions[middle])
            group = yield from sources.group_at(part, position)
            if side.of(group, position - group.first) < wanted:
                start = middle + 1
            else:
                stop = middle
        return start

    end = bisect_right(items, low, item.start, item.stop)
    if end - item.start > MANY_TIES:
        item.start = yield from first(item.start, end, 0)
    begin = bisect_left(items, high, item.start, item.stop)
    if item.stop - begin > MANY_TIES:
        item.stop = yield from first(begin, item.stop, 1)


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


class _Side:
    """On which side of a range a key is, in the order of the index."""

    def __init__(self, index: IndexDefinition, keys: KeyRange) -> None:
        self._columns = index.columns
        self._equal = [plain(column, value) for column, value in zip(index.columns, keys.equal, strict=False)]
        self._not_null = keys.not_null
        width = len(self._equal)
        turned = width < len(index.columns) and index.columns[width].descending
        ends = (keys.high, keys.low) if turned else (keys.low, keys.high)
        self._ends = [
            (_plain(index, width, end), end.inclusive or len(_plain(index, width, end)) < len(end.values), sign)
            for end, sign in zip(ends, (1, -1), strict=True)
            if end is not None
        ]

    def of(self, group: RowGroup, at: int) -> int:
        """-1 when the row `at` of `group` comes before the range, 0 in it, 1 after it."""
        key = plain_key(self._columns, group, at)
        width = len(self._equal)
        for column, have, want in zip(self._columns, key, self._equal, strict=False):
            told = _compared(column, have, want)
            if told:
                return told
        rest = self._columns[width:]
        if (self._not_null or self._ends) and key[width] is None:
            return -1 if rest[0].nulls_first else 1
        for values, inclusive, sign in self._ends:
            told = next((t for c, have, want in zip(rest, key[width:], values, strict=False)
                         if (t := _compared(c, have, want))), 0)  # fmt: skip
            if told * sign < 0 or (told == 0 and not inclusive):
                return -sign
        return 0


def _compared(column: KeyColumn, one: Any, other: Any) -> int:
    """-1, 0 or 1: the plain value `one` comes before the `other` in an index by `column`, is equal, or comes after."""
    if one is None or other is None:
        return 0 if one is other else -1 if (one is None) == column.nulls_first else 1
    told = int(one > other) - int(one < other)
    return -told if column.descending else told


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
