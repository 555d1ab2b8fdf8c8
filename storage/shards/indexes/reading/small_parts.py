"""What is known of the small parts of a shard: the keys of inline parts, and the row ids that delete parts name.

Both are `Levels`, filled a part at a time as snapshots bring new ones, and serve every snapshot of the shard: an entry
counts where its part is among those of the snapshot. When most entries are of parts that compaction has replaced, all
starts anew with those that are left.

SUBTLE: parts are numbered here, by what they hold. The id of a part is no name for it: a reader works out the parts
that committed writes will have before anybody has copied them into the shard, and a compaction that comes first takes
the ids that it gave them. Row ids do not move.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
from msgspec import Struct

from storage.shards.indexes.keys import Ints, Keys, Mask
from storage.shards.indexes.levels import Levels
from storage.shards.parts import Part, RowIdRange
from storage.timestamps.csn import Csn

ONE_BY_ONE = 8
"""So many keys are worked out faster one by one than as an array."""

ENTERED_ONE_BY_ONE = 64
"""So many rows of one part are entered one by one: from there they can be taken out again."""

MIN_DEAD_ROWS = 4096
"""Entries of parts that are gone, before it is worth starting anew."""

KNOWN_BYTES = 500
"""What a part that is known takes beside its rows and its bytes, about."""

Holding: TypeAlias = tuple[str | bytes, int, tuple[RowIdRange, ...]]
"""What a part's rows and row ids follow from: its file or bytes, and the ids it got."""


class PartKeys(Struct, frozen=True):
    """The keys of one part's rows, as far as they are in the index: hashes and prefixes in ascending order, each with
    the positions of the rows; None where the index has none."""

    by_hash: tuple[Keys, Ints] | None
    by_order: tuple[Keys, Ints] | None

    @staticmethod
    def ascending(keys: Keys | None, positions: Ints) -> tuple[Keys, Ints] | None:
        """`keys` in any order, with their rows' `positions`, for a `PartKeys`."""
        if keys is None or len(keys) < 2:
            return None if keys is None else (keys, positions)
        order = np.argsort(keys, kind="stable")
        return keys[order], positions[order]


class TableKeys:
    """The keys that one index has in the inline parts of a shard.

    A row that is changed again and again leaves an entry with its hash each time. Whoever comes across the entry of a
    deleted row puts it aside (`retire`), and only readers of older snapshots look there. So a key's entries are few,
    however often its row has changed.
    """

    def __init__(self) -> None:
        self.known: set[int] = set()
        """The numbers of the parts that are in."""
        self.by_hash = Levels()
        self.by_order = Levels()
        self.retired = Levels()
        self.retired_at = Csn(0)
        """In snapshots from here on, every row that was put aside is deleted."""

    @property
    def nbytes(self) -> int:
        """What it takes in memory, about."""
        return self.by_hash.nbytes + self.by_order.nbytes + self.retired.nbytes

    def hash_levels(self, as_of: Csn) -> tuple[Levels, ...]:
        """Where the rows by hash are that a snapshot at `as_of` may see."""
        return (self.by_hash,) if as_of >= self.retired_at else (self.by_hash, self.retired)

    def retire(self, hashed: int, part: int, position: int, as_of: Csn) -> None:
        """Put aside the row at `position` of the part with this number, which a snapshot at `as_of` does not see, since
        it is deleted there."""
        if self.by_hash.take_out(hashed, part, position):
            self.retired.add_one(hashed, part, position)
            self.retired_at = max(self.retired_at, as_of)

    def add(self, part: int, keys: PartKeys) -> None:
        """Take in a part by its number, unless it is in."""
        if part in self.known:
            return
        self.known.add(part)
        for levels, entries in ((self.by_hash, keys.by_hash), (self.by_order, keys.by_order)):
            if entries is None:
                continue
            found, positions = entries
            if len(found) <= ENTERED_ONE_BY_ONE:
                for key, position in zip(found.tolist(), positions.tolist(), strict=True):
                    levels.add_one(key, part, position)
            else:
                levels.add_part(found, part, positions)


class DeletedRows:
    """The rows that the delete parts of a shard name."""

    def __init__(self) -> None:
        self.known: set[int] = set()
        """The numbers of the parts that are in."""
        self._levels = Levels()

    @property
    def nbytes(self) -> int:
        """What it takes in memory, about."""
        return self._levels.nbytes

    def add(self, part: int, row_ids: Ints) -> None:
        """Take in a delete part by its number, unless it is in. `row_ids` ascend."""
        if part in self.known:
            return
        self.known.add(part)
        if len(row_ids) <= ENTERED_ONE_BY_ONE:
            for row_id in row_ids.tolist():
                self._levels.add_one(row_id, part, 0)
        else:
            self._levels.add_part(row_ids.astype(np.uint64), part, np.zeros(len(row_ids), np.int64))

    def has(self, row_id: int, live: Mapping[int, Part]) -> bool:
        """Whether one of the parts `live` deletes `row_id`."""
        return any(part in live for part, _ in self._levels.find(row_id))

    def among(self, live: Mapping[int, Part]) -> Callable[[Ints], Mask]:
        """What tells, on any thread, which row ids are deleted by one of the parts `live`."""
        probe = self._levels.prober()

        def among(row_ids: Ints) -> Mask:
            numbers, parts, _ = probe(row_ids.astype(np.uint64))
            gone: Mask = np.zeros(len(row_ids), bool)
            gone[numbers[visible(parts, live)]] = True
            return gone

        return among


class SmallParts:
    """What is known of the small parts of one shard, or of one transaction."""

    def __init__(self) -> None:
        self.deleted = DeletedRows()
        self.keys: dict[str, TableKeys] = {}
        """By fingerprint of the index's definition."""
        self._numbers: dict[Holding, int] = {}
        self._rows = 0
        self._bytes = 0
        self._next_look = MIN_DEAD_ROWS

    @property
    def nbytes(self) -> int:
        """What it takes in memory, about."""
        return self._bytes + self.deleted.nbytes + sum([keys.nbytes for keys in self.keys.values()])

    def number(self, part: Part) -> int:
        """The number of an inline or delete part."""
        source = part.key if part.inline is None else part.inline
        assert source is not None
        holding = source, part.first_row_id, part.row_ids
        number = self._numbers.get(holding)
        if number is None:
            number = self._numbers[holding] = len(self._numbers)
            self._rows += part.rows
            self._bytes += KNOWN_BYTES + (0 if part.inline is None else len(part.inline))
        return number

    def outgrown(self, live_rows: int) -> bool:
        """Whether most rows are of parts that have gone: all inline and delete parts that are left have `live_rows`."""
        if self._rows < self._next_look:
            return False
        self._next_look = self._rows * 5 // 4
        return self._rows > 2 * live_rows


def visible(parts: Ints, live: Mapping[int, Part]) -> Mask:
    """Which of the part ids `parts` are in `live`."""
    if len(parts) <= 64:
        return np.fromiter((part in live for part in parts.tolist()), bool, len(parts))
    return np.isin(parts, np.fromiter(live, np.int64, len(live)))
