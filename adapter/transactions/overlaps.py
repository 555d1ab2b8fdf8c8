"""Rows whose ranges overlap: what an exclusion constraint with && forbids.

Two rows conflict when the keys that are compared with `=` are equal and all that are compared with && overlap. A NULL
or an empty range conflicts with nothing. The storage has such keys in an ordered index: equal ones first, then the
ranges, whose bytes compare by lower bound.

SUBTLE: of ranges in that order of which some two overlap, some two neighbours do: whatever comes between two that
overlap begins before the first one ends. Rows that are there keep to the constraint, so a new row is held against the
row before it and the row after it, however many there are; and many new rows are sorted together with those that are
there. Where several keys are compared with &&, or multiranges, which have gaps, all rows have to be looked at whose
first keys span common values.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Any, TypeAlias

import pyarrow as pa
from msgspec import Struct

from planner.types.ranges import range_of, range_or_multirange
from planner.values.range_bounds import decode
from planner.values.range_codecs import Codec, codec_of
from planner.values.range_sets import overlaps
from storage.off_loop import computed
from storage.shards.indexes.definition import IndexDefinition
from storage.shards.indexes.keys import key_arrays
from storage.shards.indexes.reading.found import Found
from storage.shards.indexes.reading.ranges import Bound, KeyRange

FEW_ROWS = 64
"""Up to so many new rows look for their neighbours in the index; of more, all rows that may conflict are read once."""

Key: TypeAlias = tuple[Any, ...]
"""A key as Python's values, times as their numbers."""
Search: TypeAlias = Callable[[KeyRange, bool, "int | None"], Awaitable[Found]]
"""Rows in a range of the index with its inputs: the range, whether from its end, how many at most."""


_Member: TypeAlias = tuple[bytes, bytes, Key, int]
"""The ends of a row's first range, its key, and the number that it has as a new row."""
_BEGINNING = itemgetter(0, 1)


class Conflict(Struct, frozen=True):
    """The new row of a number, and the keys of the two rows."""

    row: int
    key: Key
    other: Key


class OverlapIndex(Struct, frozen=True, kw_only=True):
    """The index of an exclusion constraint with &&: its last columns are those, of types with `codecs`."""

    definition: IndexDefinition
    codecs: tuple[Codec, ...]
    neighbours: bool
    """Whether, if any rows conflict, some do that are neighbours in the index."""

    @property
    def equal(self) -> int:
        """How many columns are compared with `=`."""
        return len(self.definition.columns) - len(self.codecs)

    def excludes(self, key: Key) -> bool:
        """Whether any row could conflict with one of this key."""
        return None not in key and all(
            decode(codec, data) for codec, data in zip(self.codecs, key[self.equal :], strict=True)
        )

    def conflict(self, key: Key, other: Key) -> bool:
        """Whether rows with these keys conflict."""
        if key[: self.equal] != other[: self.equal]:
            return False
        pairs = zip(self.codecs, key[self.equal :], other[self.equal :], strict=True)
        return all(overlaps(codec, decode(codec, one), decode(codec, two)) for codec, one, two in pairs)

    def keys_of(self, found: Found) -> list[Key]:
        """The keys of rows that were found with the inputs of the index."""
        return python_keys(key_arrays(self.definition, pa.Table.from_batches([found.rows])))

    # ------------------------------------------------------------ one by one

    async def beside(self, search: Search, key: Key, *, own: bool) -> Key | None:
        """The key of a row that conflicts with one of `key`. `own`: the row itself is among those searched, and if it
        is not there any more nothing conflicts with it."""
        equal, bound = key[:-1], (key[-1],)
        after = self.keys_of(
            await search(KeyRange(equal=equal, low=Bound(bound)), False, 2 if own else 1),
        )
        if own:
            if not after or after[0] != key:
                return None
            after = after[1:]
        before = await search(KeyRange(equal=equal, high=Bound(bound, inclusive=False), not_null=True), True, 1)
        return next((other for other in (*self.keys_of(before), *after) if self.conflict(key, other)), None)

    # ------------------------------------------------------------ all at once

    def among(self, keys: Iterable[tuple[Key, int]]) -> Conflict | None:
        """The first conflict among rows, each a key and the number that it has as a new row, -1 for one that was
        there. Rows that were there do not conflict."""
        groups: dict[Key, list[_Member]] = {}
        codec, equal = self.codecs[0], self.equal
        for key, row in keys:
            if self.excludes(key):
                ranges = decode(codec, key[equal])
                groups.setdefault(key[:equal], []).append((codec.key(ranges[0][0]), codec.key(ranges[-1][1]), key, row))
        found: Conflict | None = None
        for members in groups.values():
            members.sort(key=_BEGINNING)
            for one, other in self._pairs(members):
                first, second = (one, other) if one[3] < other[3] else (other, one)
                if found is None or second[3] < found.row:
                    found = Conflict(second[3], second[2], first[2])
        return found

    def _pairs(self, members: Sequence[_Member]) -> Iterable[tuple[_Member, _Member]]:
        """Pairs of rows of one group, which is in order, that conflict: at least one if there is any with a new row."""
        if self.neighbours:
            for one, other in pairwise(members):
                if one[1] >= other[0] and max(one[3], other[3]) >= 0:
                    yield one, other
            return
        active: list[_Member] = []
        for member in members:
            active = [other for other in active if other[1] >= member[0]]
            for other in active:
                if max(member[3], other[3]) >= 0 and self.conflict(member[2], other[2]):
                    yield other, member
            active.append(member)


def overlap_index(definition: IndexDefinition, range_types: Sequence[int]) -> OverlapIndex:
    """The index with the types of the columns that are compared with &&, its last ones."""
    found = [range_or_multirange(oid) for oid in range_types]
    return OverlapIndex(
        definition=definition,
        codecs=tuple(codec_of(of) for of in found if of is not None),
        neighbours=len(range_types) == 1 and range_of(range_types[0]) is not None,
    )


def python_keys(columns: Sequence[pa.Array]) -> list[Key]:
    """Keys by columns as Python's values."""
    return list(zip(*(_plain(column) for column in columns), strict=True))


def _plain(column: pa.Array) -> list[Any]:
    if pa.types.is_timestamp(column.type) or pa.types.is_time64(column.type):
        column = column.view(pa.int64())
    elif pa.types.is_date32(column.type):
        column = column.view(pa.int32())
    plain: list[Any] = column.to_pylist()
    return [tuple(value.values()) if isinstance(value, dict) else value for value in plain]


class Taken:
    """Keys of rows as they come: `key in taken` says whether one of them conflicts."""

    def __init__(self, index: OverlapIndex) -> None:
        self._index = index
        self._groups: dict[Key, list[Key]] = {}

    def __contains__(self, key: Key) -> bool:
        group = self._groups.get(key[: self._index.equal], [])
        if not self._index.excludes(key):
            return False
        if not self._index.neighbours:
            return any(self._index.conflict(key, other) for other in group)
        place = bisect_left(group, key)
        return any(self._index.conflict(key, other) for other in group[max(place - 1, 0) : place + 1])

    def add(self, key: Key) -> None:
        """A row has this key."""
        if self._index.excludes(key):
            group = self._groups.setdefault(key[: self._index.equal], [])
            group.insert(bisect_left(group, key), key)


async def taken_keys(
    index: OverlapIndex, keys: Sequence[Key], search: Search, everything: Callable[[], Awaitable[Found]]
) -> list[int]:
    """The numbers of those of `keys` that a row conflicts with which is there."""
    wanted = [(number, key) for number, key in enumerate(keys) if index.excludes(key)]
    if len(wanted) <= FEW_ROWS and index.neighbours:
        return [number for number, key in wanted if await index.beside(search, key, own=False) is not None]
    there = await everything() if wanted else None
    if there is None or not len(there.keys):
        return []

    def compare() -> list[int]:
        taken = Taken(index)
        for key in index.keys_of(there):
            taken.add(key)
        return [number for number, key in wanted if key in taken]

    return await computed(len(wanted) + len(there.keys), compare)


async def first_conflict(
    index: OverlapIndex,
    keys: Sequence[Key],
    search: Search,
    everything: Callable[[], Awaitable[Found]],
    *,
    own: bool,
) -> Conflict | None:
    """The first of the new rows with `keys` that conflicts with another one. `own`: rows that are searched have the new
    ones among them, where these are still there; else they are others', and only conflicts with these count.
    `everything` gives the rows that any of the keys may conflict with."""
    wanted = [(number, key) for number, key in enumerate(keys) if index.excludes(key)]
    if len(wanted) <= FEW_ROWS and index.neighbours:
        found: list[Conflict] = []
        numbers: dict[Key, list[int]] = {}
        for number, key in wanted:
            numbers.setdefault(key, []).append(number)
        for number, key in wanted:
            other = await index.beside(search, key, own=own)
            if other is not None:
                found.append(_in_order(number, key, other, numbers if own else {}))
        return min(found, key=lambda conflict: conflict.row, default=None)
    if not wanted:
        return None
    there = await everything()
    count = len(wanted) + len(there.keys)
    if not own:
        return await computed(
            count, lambda: index.among([*_numbered(wanted), *((k, -1) for k in index.keys_of(there))])
        )
    return await computed(count, lambda: index.among(_as_new(index.keys_of(there), wanted)))


def _numbered(wanted: Iterable[tuple[int, Key]]) -> Iterable[tuple[Key, int]]:
    return ((key, number) for number, key in wanted)


def _as_new(there: Iterable[Key], wanted: Iterable[tuple[int, Key]]) -> Iterable[tuple[Key, int]]:
    """The rows that are there, new ones with their numbers."""
    numbers: dict[Key, list[int]] = {}
    for number, key in wanted:
        numbers.setdefault(key, []).append(number)
    for key in there:
        own = numbers.get(key)
        yield key, (own.pop() if len(own) > 1 else own[0]) if own else -1


def _in_order(number: int, key: Key, other: Key, numbers: dict[Key, list[int]]) -> Conflict:
    """The conflict of a new row as the later one of the two has it."""
    last = max((each for each in numbers.get(other, ()) if each != number), default=-1)
    return Conflict(last, other, key) if last > number else Conflict(number, key, other)
