"""Finding rows whose key equals one of some keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from msgspec import Struct

from storage.off_loop import AT_ONCE_ROWS
from storage.shards.indexes.definition import Domain, IndexDefinition, StoredColumn
from storage.shards.indexes.keys import Ints, Keys, Values, any_null, ascending, equal, hashes, prefixes, values_of
from storage.shards.indexes.reading.found import Found, Gathered, Rows, arrays_of, found_at, rows_of_group
from storage.shards.indexes.reading.part_views import PartView, plain_key
from storage.shards.indexes.reading.row_groups import RowGroup
from storage.shards.indexes.reading.small_parts import visible
from storage.shards.indexes.reading.sources import Sources, Steps, over_rows
from storage.shards.indexes.scalar_keys import Plain, hash_of, plain, plain_scalar, prefix_of
from storage.shards.parts import ROW_ID, Part

ONE_BY_ONE = 8
"""So many keys are looked up faster one by one than as columns."""

FEW_VERSIONS = 4
"""A key with more rows than that is that of a row which has been changed again and again: most of them are deleted."""

ONE_BY_ONE_ROWS = 1_000
"""A key with more rows than that is looked up as columns: one by one they take 3 us each."""

ROWS_OF_A_GROUP = 64
"""Reading any of a row group's rows takes as long as that many more."""

Place: TypeAlias = tuple[Part, Ints, Ints]
"""Rows of a part that may be meant: by which keys (by number), and their positions."""


def lookup(
    sources: Sources,
    views: Sequence[PartView],
    index: IndexDefinition,
    keys: Sequence[Sequence[Any]],
    columns: Sequence[StoredColumn],
    nulls_match: bool,
) -> Steps[Found]:
    """See `reader.KeyReader.lookup`."""
    if len(keys) > ONE_BY_ONE or index.in_threads:
        arrays = arrays_of(index.columns, keys)
        return (yield from _many(sources, views, index, arrays, columns, nulls_match))
    plain_keys = [
        tuple([plain(column, value) for column, value in zip(index.columns, key, strict=True)]) for key in keys
    ]
    few = yield from _few(sources, views, index, plain_keys, columns, nulls_match)
    return few or (yield from _many(sources, views, index, arrays_of(index.columns, keys), columns, nulls_match))


def lookup_columns(
    sources: Sources,
    views: Sequence[PartView],
    index: IndexDefinition,
    keys: Sequence[pa.Array],
    columns: Sequence[StoredColumn],
    nulls_match: bool,
) -> Steps[Found]:
    """See `reader.KeyReader.lookup_columns`."""
    few = None
    if len(keys[0]) <= ONE_BY_ONE and not index.in_threads:
        few = yield from _few(sources, views, index, _plain_keys(index, keys), columns, nulls_match)
    return few or (yield from _many(sources, views, index, keys, columns, nulls_match))


def _plain_keys(index: IndexDefinition, keys: Sequence[pa.Array]) -> list[tuple[Plain, ...]]:
    """`keys`, by columns, one by one."""
    return [
        tuple([plain_scalar(column, array[at]) for column, array in zip(index.columns, keys, strict=True)])
        for at in range(len(keys[0]))
    ]


def _few(
    sources: Sources,
    views: Sequence[PartView],
    index: IndexDefinition,
    keys: Sequence[tuple[Plain, ...]],
    columns: Sequence[StoredColumn],
    nulls_match: bool,
) -> Steps[Found | None]:
    """Each key by itself; None when one of them has too many rows for that."""
    numbers: list[int] = []
    row_ids: list[int] = []
    places: list[tuple[RowGroup, int]] = []
    for number, key in enumerate(keys):
        if not nulls_match and None in key:
            continue
        found: dict[int, tuple[RowGroup, int]] = {}
        hashed = hash_of(index.columns, key) if index.hashed else 0
        candidates = yield from _candidates(sources, views, index, key, hashed)
        if candidates is not None and len(candidates) > FEW_VERSIONS:
            candidates = yield from _not_deleted(sources, views, index, candidates, hashed)
        if candidates is None or len(candidates) > ONE_BY_ONE_ROWS:
            return None
        for part, position in candidates:
            group = yield from sources.group_at(part, position)
            at = position - group.first
            if plain_key(index.columns, group, at) != key:
                continue
            row_id = part.first_row_id + position if group.row_ids is None else int(group.row_ids[at])
            if not (yield from sources.is_deleted(views, row_id)):
                found[row_id] = group, at
            elif index.hashed and part.inline is not None:
                sources.retire(views, index, hashed, part, position, row_id)
        for row_id in sorted(found):
            numbers.append(number)
            row_ids.append(row_id)
            places.append(found[row_id])
    return found_at(columns, places, numbers, row_ids)


def _not_deleted(
    sources: Sources,
    views: Sequence[PartView],
    index: IndexDefinition,
    candidates: Sequence[tuple[Part, int]],
    hashed: int,
) -> Steps[list[tuple[Part, int]]]:
    """`candidates` without those that are known to be deleted before their rows are read."""
    ids = np.array(
        [-1 if part.has_row_id_column else part.first_row_id + position for part, position in candidates], np.int64
    )
    gone = yield from sources.deleted_among(views, ids)
    left: list[tuple[Part, int]] = []
    for (part, position), row_id, is_gone in zip(candidates, ids.tolist(), gone.tolist(), strict=True):
        if not is_gone or row_id < 0:
            left.append((part, position))
        elif index.hashed and part.inline is not None:
            sources.retire(views, index, hashed, part, position, row_id)
    return left


def _candidates(
    sources: Sources, views: Sequence[PartView], index: IndexDefinition, key: tuple[Plain, ...], hashed: int
) -> Steps[list[tuple[Part, int]] | None]:
    """Where rows with `key`, whose hash is `hashed`, may be: part and position; None when those are too many in one
    file."""
    found: list[tuple[Part, int]] = []
    low, bits = prefix_of(index.columns, key)
    high = low | (1 << max(0, 64 - bits)) - 1
    for view in views:
        if view.inline:
            keys = yield from sources.table_keys(view, index)
            if index.hashed:
                rows = keys.by_hash.find(hashed)
                if view.as_of < keys.retired_at:
                    rows = [*rows, *keys.retired.find(hashed)]
            else:
                _, ids, at = keys.by_order.between(low, high)
                rows = list(zip(ids.tolist(), at.tolist(), strict=True))
            found += [(view.inline[part], position) for part, position in rows if part in view.inline]
        for part in view.files_between(index, low, high):
            if not index.hashed:
                run = yield from sources.run_within(part, index, low, high)
                positions = run.between(low, high)
            else:
                holding = sources.runs.get(part, index)
                if holding is None:
                    holding = yield from sources.run_with(part, index, np.array([hashed], np.uint64))
                positions = [] if holding is None else holding.find(hashed)
            if len(positions) > ONE_BY_ONE_ROWS:
                return None
            found += [(part, position) for position in positions]
    return found


def _many(
    sources: Sources,
    views: Sequence[PartView],
    index: IndexDefinition,
    keys: Sequence[pa.Array],
    columns: Sequence[StoredColumn],
    nulls_match: bool,
) -> Steps[Found]:
    """All keys together, by columns."""
    wanted = yield from over_rows(len(keys[0]), lambda: _Wanted.of(index, keys, nulls_match))
    return (yield from _matching(sources, views, index, wanted, columns))


def _matching(
    sources: Sources,
    views: Sequence[PartView],
    index: IndexDefinition,
    wanted: _Wanted,
    columns: Sequence[StoredColumn],
) -> Steps[Found]:
    places = yield from (_places_by_hash if index.hashed else _places_by_order)(sources, views, index, wanted)
    gathered = Gathered(index, columns)
    due: list[tuple[Part, RowGroup, Ints, Ints]] = []
    work = 0

    def read(due: list[tuple[Part, RowGroup, Ints, Ints]]) -> None:
        for part, group, positions, keys in due:
            gathered.read(part, group, positions, keys)

    for part, numbers, positions in places:
        for number, at in (yield from sources.groups_at(part, positions)):
            group = yield from sources.group(part, number)
            due.append((part, group, positions[at], wanted.numbers[numbers[at]]))
            work += len(at) + ROWS_OF_A_GROUP
            if work > AT_ONCE_ROWS:
                yield from over_rows(work, partial(read, due))
                due, work = [], 0
    read(due)

    def matching() -> Rows:
        rows = gathered.rows()
        same = equal(gathered.values(rows), np.arange(len(rows.keys)), wanted.values, rows.keys)
        return rows.take(np.flatnonzero(same))

    rows = yield from over_rows(gathered.count, matching, in_threads=index.in_threads)
    gone = yield from sources.deleted_among(views, rows.row_ids)

    def in_order() -> Found:
        left = rows.take(np.flatnonzero(~gone))
        return gathered.found(left.take(np.lexsort((left.row_ids, left.keys))))

    return (yield from over_rows(len(gone), in_order))


def places(
    sources: Sources, views: Sequence[PartView], index: IndexDefinition, keys: Sequence[pa.Array]
) -> Steps[list[tuple[Part, Ints]]]:
    """Where rows with one of `keys`, by columns, may be: positions by part."""
    wanted = yield from over_rows(len(keys[0]), lambda: _Wanted.of(index, keys, False))
    found = yield from (_places_by_hash if index.hashed else _places_by_order)(sources, views, index, wanted)
    return [(part, positions) for part, _, positions in found]


def look_up_new(
    sources: Sources,
    views: Sequence[PartView],
    index: IndexDefinition,
    keys: Sequence[pa.Array],
    nulls_match: bool,
) -> Steps[int | None]:
    """See `reader.KeyReader.first_taken`."""
    if len(keys[0]) <= ONE_BY_ONE and not index.in_threads:
        plain_keys = _plain_keys(index, keys)
        few = yield from _few(sources, views, index, plain_keys, (), nulls_match)
        if few is not None:
            return _first_taken(plain_keys, few, nulls_match)
    low, high = yield from over_rows(len(keys[0]), partial(rising_bounds, index, keys))
    if low <= high and not any(view.inline or view.files_between(index, low, high) for view in views):
        # Numbers that rise, all outside of what there is: as loads have them whose keys are counted.
        return None
    wanted = yield from over_rows(len(keys[0]), lambda: _Wanted.of(index, keys, nulls_match))
    taken = yield from over_rows(len(keys[0]), wanted.repeats)
    if taken:
        # What is looked for once is found once, however often a key is there.
        wanted = wanted.without(taken)
    found = yield from _matching(sources, views, index, wanted, ())
    if len(found.keys):
        taken.append(int(found.keys.min()))
    return min(taken, default=None)


def first_of_each(index: IndexDefinition, keys: Sequence[pa.Array], nulls_match: bool) -> Ints:
    """The numbers of `keys`, by columns, without those that are equal to one before them; ascending. A key with a NULL
    equals none unless `nulls_match`."""
    wanted = _Wanted.of(index, keys, nulls_match)
    return np.setdiff1d(np.arange(len(keys[0])), wanted.repeats(), assume_unique=True)


def rising_bounds(index: IndexDefinition, keys: Sequence[pa.Array]) -> tuple[int, int]:
    """The lowest and the highest prefix of `keys` that are integers, each greater than the one before; of others the
    lowest is above the highest."""
    column, array = index.columns[0], keys[0]
    if len(keys) == 1 and column.domain is Domain.INTEGER and not array.null_count and not index.in_threads:
        (values,) = values_of(index.columns, keys)
        (numbers,) = values.numbers
        if (numbers[1:] > numbers[:-1]).all():
            ends = prefixes(values_of(index.columns, [array.take(pa.array([0, len(array) - 1]))]))
            low, high = sorted(ends.keys.tolist())
            return low, high
    return 1, 0


def _first_taken(keys: Sequence[tuple[Plain, ...]], found: Found, nulls_match: bool) -> int | None:
    taken = found.keys.tolist()
    before: set[tuple[Plain, ...]] = set()
    for number, key in enumerate(keys):
        if key in before and (nulls_match or None not in key):
            taken.append(number)
        before.add(key)
    return min(taken, default=None)


def rows_of_ids(sources: Sources, part: Part, row_ids: Ints, columns: Sequence[StoredColumn]) -> Steps[pa.Table]:
    """See `reader.KeyReader.rows_of_ids`."""
    positions = row_ids - part.first_row_id
    pieces: list[list[pa.Array]] = []
    for number, at in (yield from sources.groups_at(part, positions)):
        group = yield from sources.group(part, number)
        pieces.append(rows_of_group(columns, group, positions[at] - group.first))
    arrays = [pa.concat_arrays(piece) for piece in zip(*pieces, strict=True)]
    return pa.Table.from_arrays([pa.array(row_ids), *arrays], names=[ROW_ID, *(column.name for column in columns)])


class _Wanted(Struct, frozen=True):
    """Keys to look for. `low` and `high`: of each that can be found, and in ascending order of `low`, the bounds of its
    prefixes, or its hash twice; `numbers`: which key that is."""

    values: Sequence[Values]
    numbers: Ints
    low: Keys
    high: Keys
    hashed: bool

    @staticmethod
    def of(index: IndexDefinition, keys: Sequence[pa.Array], nulls_match: bool) -> _Wanted:
        """`keys`, by columns."""
        values = values_of(index.columns, keys)
        numbers = np.arange(values[0].rows)
        null = None if nulls_match else any_null(values)
        if null is not None:
            numbers = numbers[~null]
        if index.hashed:
            low = high = hashes(values)[numbers]
        else:
            encoded = prefixes(values)
            room = np.clip(64 - encoded.bits[numbers], 0, 63).astype(np.uint64)
            low = encoded.keys[numbers]
            high = low | (np.uint64(1) << room) - np.uint64(1)
        # Ascending, so that a search finds the same memory as the one before.
        order = ascending(low)
        return _Wanted(values, numbers[order], low[order], high[order], index.hashed)

    def without(self, repeats: Sequence[int]) -> _Wanted:
        """The others."""
        kept = np.flatnonzero(~np.isin(self.numbers, repeats))
        return _Wanted(self.values, self.numbers[kept], self.low[kept], self.high[kept], self.hashed)

    def repeats(self) -> list[int]:
        """The keys that are equal to one before them."""
        numbers, hashed = self.numbers, self.low
        if not self.hashed:
            hashed = hashes(self.values)[numbers]
            order = ascending(hashed)
            numbers, hashed = numbers[order], hashed[order]
        found: list[int] = []
        # Keys with one hash are neighbours, the first of them first. Those that are not equal to the next may be equal
        # to one after it: hardly any have the same hash.
        step = 1
        near = np.flatnonzero(hashed[1:] == hashed[:-1])
        while len(near):
            same = equal(self.values, numbers[near], self.values, numbers[near + step])
            found += numbers[near + step][same].tolist()
            step += 1
            near = near[~same]
            near = near[near + step < len(hashed)]
            near = near[hashed[near] == hashed[near + step]]
        return found


def _places_by_hash(
    sources: Sources, views: Sequence[PartView], index: IndexDefinition, wanted: _Wanted
) -> Steps[list[Place]]:
    found: list[Place] = []
    hashed = wanted.low
    for view in views:
        if view.inline:
            keys = yield from sources.table_keys(view, index)
            for levels in keys.hash_levels(view.as_of):
                found += yield from over_rows(len(hashed), partial(_inline_places, view, levels.prober(), hashed))
        for part in view.files:
            run = yield from sources.run_with(part, index, hashed)
            if run is not None:
                numbers, positions = yield from over_rows(len(hashed), partial(run.probe, hashed))
                if len(numbers):
                    found.append((part, numbers, positions))
    return found


def _places_by_order(
    sources: Sources, views: Sequence[PartView], index: IndexDefinition, wanted: _Wanted
) -> Steps[list[Place]]:
    found: list[Place] = []
    low, high = wanted.low, wanted.high
    for view in views:
        if view.inline:
            keys = yield from sources.table_keys(view, index)
            probe = keys.by_order.prober_between()
            found += yield from over_rows(len(low), partial(_inline_places_between, view, probe, low, high))
        for part in view.files:
            run = yield from sources.run_between(part, index, low, high)
            numbers, positions = yield from over_rows(len(low), partial(run.probe_between, low, high))
            if len(numbers):
                found.append((part, numbers, positions))
    return found


def _inline_places(view: PartView, probe: Callable[[Keys], tuple[Ints, Ints, Ints]], hashed: Keys) -> list[Place]:
    return _by_part(view, *probe(hashed))


def _inline_places_between(
    view: PartView, probe: Callable[[Keys, Keys], tuple[Ints, Ints, Ints]], low: Keys, high: Keys
) -> list[Place]:
    return _by_part(view, *probe(low, high))


def _by_part(view: PartView, numbers: Ints, ids: Ints, positions: Ints) -> list[Place]:
    """Rows of inline parts, those that are in `view`, by part."""
    seen = np.flatnonzero(visible(ids, view.inline))
    if not len(seen):
        return []
    seen = seen[np.argsort(ids[seen], kind="stable")]
    parts, starts = np.unique(ids[seen], return_index=True)
    return [
        (view.inline[part], numbers[at], positions[at])
        for part, at in zip(parts.tolist(), np.split(seen, starts[1:]), strict=True)
    ]
