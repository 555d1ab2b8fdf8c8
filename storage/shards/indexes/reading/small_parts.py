"""What is known of the small parts of a shard: the keys of inline parts, and the row ids that delete parts name.

Both are `Levels`, filled a part at a time as snapshots bring new ones, and serve every snapshot of the shard: a part's
id names it for ever, so an entry counts where its part is among those of the snapshot. When most entries are of parts
that compaction has replaced, it starts anew with those that are left.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec import Struct, field

from storage.shards.indexes.keys import Ints, Keys, Mask
from storage.shards.indexes.levels import Levels
from storage.shards.parts import Part

ONE_BY_ONE = 8
"""So many rows are entered faster one by one than as an array."""

MIN_DEAD_ROWS = 4096
"""Entries of parts that are gone, before it is worth starting anew."""

KNOWN_BYTES = 100
"""What a part that is known takes beside its rows, about."""


class PartKeys(Struct, frozen=True):
    """The keys of one part's rows, as far as they are in the index."""

    positions: Ints
    hashes: Keys | None
    prefixes: Keys | None


class _Known:
    """The parts that something holds rows of, and how many of each."""

    def __init__(self) -> None:
        self.known: dict[int, int] = {}
        self._rows = 0
        self._next_look = MIN_DEAD_ROWS

    def _note(self, part: int, rows: int) -> None:
        self.known[part] = rows
        self._rows += rows

    def outgrown(self, live: Mapping[int, Part]) -> bool:
        """Whether most rows are of parts that are not among `live`."""
        if self._rows < self._next_look:
            return False
        # The look costs as much as there are parts, so it is worth it when there are a quarter more.
        self._next_look = self._rows * 5 // 4
        return self._rows > 2 * sum([rows for part, rows in self.known.items() if part in live])


class TableKeys(_Known):
    """The keys that one index has in the inline parts of a shard."""

    def __init__(self) -> None:
        super().__init__()
        self.by_hash = Levels()
        self.by_order = Levels()

    @property
    def nbytes(self) -> int:
        """What it takes in memory, about."""
        return self.by_hash.nbytes + self.by_order.nbytes + KNOWN_BYTES * len(self.known)

    def add(self, part: int, keys: PartKeys) -> None:
        """Take in a part by its id."""
        self._note(part, len(keys.positions))
        for levels, found in ((self.by_hash, keys.hashes), (self.by_order, keys.prefixes)):
            if found is None:
                continue
            if len(found) <= ONE_BY_ONE:
                for key, position in zip(found.tolist(), keys.positions.tolist(), strict=True):
                    levels.add_one(key, part, position)
            else:
                levels.add_part(found, part, keys.positions)


class DeletedRows(_Known):
    """The rows that the delete parts of a shard name."""

    def __init__(self) -> None:
        super().__init__()
        self._levels = Levels()

    @property
    def nbytes(self) -> int:
        """What it takes in memory, about."""
        return self._levels.nbytes + KNOWN_BYTES * len(self.known)

    def add(self, part: int, row_ids: Ints) -> None:
        """Take in a delete part by its id."""
        self._note(part, len(row_ids))
        if len(row_ids) <= ONE_BY_ONE:
            for row_id in row_ids.tolist():
                self._levels.add_one(row_id, part, 0)
        else:
            self._levels.add_part(row_ids.astype(np.uint64), part, np.zeros(len(row_ids), np.int64))

    def has(self, row_id: int, live: Mapping[int, Part]) -> bool:
        """Whether one of the parts `live` deletes `row_id`."""
        return any(part in live for part, _ in self._levels.find(row_id))

    def among(self, row_ids: Ints, live: Mapping[int, Part]) -> Mask:
        """Which of `row_ids` are deleted by one of the parts `live`."""
        numbers, parts, _ = self._levels.probe(row_ids.astype(np.uint64))
        gone: Mask = np.zeros(len(row_ids), bool)
        gone[numbers[visible(parts, live)]] = True
        return gone


class SmallParts(Struct):
    """What is known of the small parts of one shard. `keys` is by the definition's fingerprint."""

    deleted: DeletedRows = field(default_factory=DeletedRows)
    keys: dict[str, TableKeys] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """What it takes in memory, about."""
        return self.deleted.nbytes + sum([keys.nbytes for keys in self.keys.values()])


def visible(parts: Ints, live: Mapping[int, Part]) -> Mask:
    """Which of the part ids `parts` are in `live`."""
    if len(parts) <= 64:
        return np.fromiter((part in live for part in parts.tolist()), bool, len(parts))
    return np.isin(parts, np.fromiter(live, np.int64, len(live)))
