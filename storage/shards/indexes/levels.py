"""Levels: a multimap from 64-bit keys to rows of many small parts, in memory, growing by a part at a time.

New entries gather in one sorted list; when it is full it becomes an array, and arrays of like size are merged, so that
there are few (about log2 of the entries) and each entry is moved about as often. Arrays that are large already stay as
they are: a merge happens on the event loop, to which all of this belongs. A `prober` alone may be called on a thread.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from msgspec import Struct

from storage.shards.indexes.keys import Ints, Keys
from storage.shards.indexes.runs import Section

MAX_MERGED = 32_768
"""Entries of an array that is merged with others: moving them takes less than a millisecond."""

MAX_RECENT = 1024
"""Entries in the sorted list: inserting one moves half of them, which is a microsecond."""

ENTRY_BYTES = 24
RECENT_BYTES = 160
"""What an entry takes in an array, and about in the list."""

Rows: TypeAlias = tuple[Ints, Ints]
"""Ids of parts, and positions in them."""


class _Level(Struct):
    """A section whose positions number `parts` and `positions`."""

    section: Section
    parts: Ints
    positions: Ints


class Levels:
    """See the module."""

    def __init__(self) -> None:
        self._recent: list[tuple[int, int, int]] = []
        self._recent_level: list[_Level] | None = []
        """The list as a level, once somebody has asked for it as it is now."""
        self._entries = 0
        """Those in the levels."""
        self._levels: list[_Level] = []
        """Those that may be merged are last, the largest of them first."""

    @property
    def nbytes(self) -> int:
        """What it takes in memory, about."""
        return RECENT_BYTES * len(self._recent) + ENTRY_BYTES * self._entries

    def add_one(self, key: int, part: int, position: int) -> None:
        """Add one row."""
        insort(self._recent, (key, part, position))
        self._recent_level = None
        if len(self._recent) >= MAX_RECENT:
            recent, self._recent = self._recent, []
            keys, parts, positions = zip(*recent, strict=True)
            self._push(np.array(keys, np.uint64), np.array(parts, np.int64), np.array(positions, np.int64))

    def take_out(self, key: int, part: int, position: int) -> bool:
        """Take one row out again, if it is still among the latest entries; whether it was."""
        entry = key, part, position
        at = bisect_left(self._recent, entry)
        if at == len(self._recent) or self._recent[at] != entry:
            return False
        del self._recent[at]
        self._recent_level = None
        return True

    def add_part(self, keys: Keys, part: int, positions: Ints) -> None:
        """Add many rows of one part, with `keys` ascending."""
        self._push(keys, np.full(len(keys), part, np.int64), positions)

    def find(self, key: int) -> list[tuple[int, int]]:
        """The rows at `key`: part and position."""
        found: list[tuple[int, int]] = []
        recent = self._recent
        at = bisect_left(recent, (key,))
        while at < len(recent) and recent[at][0] == key:
            found.append(recent[at][1:])
            at += 1
        for level in self._levels:
            found += [(int(level.parts[at]), int(level.positions[at])) for at in level.section.find(key)]
        return found

    def _all_levels(self) -> list[_Level]:
        recent = self._recent_level
        if recent is None:
            recent = self._recent_level = _level_of(self._recent)
        return [*self._levels, *recent]

    def probe(self, wanted: Keys) -> tuple[Ints, Ints, Ints]:
        """The rows at all keys `wanted`: number of the key, part, position."""
        return self.prober()(wanted)

    def prober(self) -> Callable[[Keys], tuple[Ints, Ints, Ints]]:
        """`probe` of what is there now, which may be called on any thread."""
        levels = self._all_levels()

        def probe(wanted: Keys) -> tuple[Ints, Ints, Ints]:
            numbers: list[Ints] = []
            parts: list[Ints] = []
            positions: list[Ints] = []
            for level in levels:
                number, at = level.section.probe(wanted)
                numbers.append(number)
                parts.append(level.parts[at])
                positions.append(level.positions[at])
            return _joined(numbers), _joined(parts), _joined(positions)

        return probe

    def prober_between(self) -> Callable[[Keys, Keys], tuple[Ints, Ints, Ints]]:
        """What tells, on any thread, of what is there now: the rows with low[i] <= key <= high[i], for every i, by i,
        part and position."""
        levels = self._all_levels()

        def probe(low: Keys, high: Keys) -> tuple[Ints, Ints, Ints]:
            numbers: list[Ints] = []
            parts: list[Ints] = []
            positions: list[Ints] = []
            for level in levels:
                number, at = level.section.probe_between(low, high)
                numbers.append(number)
                parts.append(level.parts[at])
                positions.append(level.positions[at])
            return _joined(numbers), _joined(parts), _joined(positions)

        return probe

    def between(self, low: int, high: int) -> tuple[Keys, Ints, Ints]:
        """The rows with low <= key <= high, in no order: key, part, position."""
        keys: list[Keys] = []
        parts: list[Ints] = []
        positions: list[Ints] = []
        for level in self._levels:
            start, stop = level.section.between(low, high)
            at = level.section.positions[start:stop].astype(np.int64)
            keys.append(level.section.keys[start:stop])
            parts.append(level.parts[at])
            positions.append(level.positions[at])
        recent = self._recent
        for level in _level_of(recent[bisect_left(recent, (low,)) : bisect_right(recent, (high, 1 << 62))]):
            keys.append(level.section.keys)
            parts.append(level.parts)
            positions.append(level.positions)
        return np.concatenate([np.empty(0, np.uint64), *keys]), _joined(parts), _joined(positions)

    def _push(self, keys: Keys, parts: Ints, positions: Ints) -> None:
        self._entries += len(keys)
        while self._levels and len(self._levels[-1].parts) <= 2 * len(keys) <= 2 * MAX_MERGED:
            # Linear, where sorting both anew would not be.
            last = self._levels.pop()
            at = np.searchsorted(last.section.keys, keys, "right")
            keys = np.insert(last.section.keys, at, keys)
            parts = np.insert(last.parts[last.section.positions], at, parts)
            positions = np.insert(last.positions[last.section.positions], at, positions)
        self._levels.append(_level(keys, parts, positions))


def _level(keys: Keys, parts: Ints, positions: Ints) -> _Level:
    return _Level(Section(keys, np.arange(len(keys), dtype=np.uint32)), parts, positions)


def _level_of(entries: list[tuple[int, int, int]]) -> list[_Level]:
    if not entries:
        return []
    keys, parts, positions = zip(*entries, strict=True)
    return [_level(np.array(keys, np.uint64), np.array(parts, np.int64), np.array(positions, np.int64))]


def _joined(arrays: list[Ints]) -> Ints:
    return np.concatenate([np.empty(0, np.int64), *arrays])
