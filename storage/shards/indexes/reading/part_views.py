"""Lists of parts as indexes see them: which are files, which inline, what prefixes a file can hold, its rows' keys."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

import numpy as np
import pyarrow as pa
from msgspec import Struct

from storage.ids import ShardId
from storage.shards.indexes.definition import Computed, Domain, IndexDefinition, KeyColumn, StoredColumn
from storage.shards.indexes.durable_runs import durable_run
from storage.shards.indexes.keys import Ints, Keys, hashes, indexed, prefixes, values_of
from storage.shards.indexes.reading.row_groups import RowGroup
from storage.shards.indexes.reading.small_parts import ONE_BY_ONE, DeletedRows, PartKeys, SmallParts, TableKeys
from storage.shards.indexes.scalar_keys import Plain, hash_of, plain_scalar, prefix_of
from storage.shards.packed_parts import Block, PackedParts
from storage.shards.parts import Part
from storage.timestamps.csn import Csn

UNCOMMITTED = Csn(0)
"""The CSN of a list of parts that nobody has committed: below every other."""


class PartView:
    """A list of parts, sorted out for those who read it again and again. `inline` and `deletes` are by their numbers in
    `small`."""

    def __init__(
        self,
        shard: ShardId,
        small: SmallParts,
        sources: tuple[Sequence[Part], Sequence[Part]],
        base: PartView | None = None,
        as_of: Csn = UNCOMMITTED,
    ) -> None:
        """A view of `sources`, with the parts of `base` in it, or none; the caller adds the others."""
        self.shard = shard
        self.small = small
        self.as_of = as_of
        """What was committed up to here is in it, or `UNCOMMITTED`."""
        self.sources = sources
        """Views are found by the identity of these, so they keep them alive."""
        self.loose: list[Part] = [] if base is None else list(base.loose)
        """The files that are not in `blocks`."""
        self.blocks: tuple[Block, ...] = sources[0].blocks if isinstance(sources[0], PackedParts) else ()
        self.inline: dict[int, Part] = {} if base is None else dict(base.inline)
        self.deletes: dict[int, Part] = {} if base is None else dict(base.deletes)
        self.small_rows: int = 0 if base is None else base.small_rows
        """Rows of the inline and delete parts."""
        self.keys: dict[str, TableKeys] = {}
        """By fingerprint of the definition: keys that every inline part of the view is in."""
        self.deleted: DeletedRows | None = None
        """Rows that every delete part of the view is in."""
        self._keyed = frozenset[str]() if base is None else frozenset(base.keys)
        self._deletes_known = base is not None and base.deleted is not None
        self._new_inline: list[tuple[int, Part]] = []
        self._new_deletes: list[tuple[int, Part]] = []
        self._bounds: dict[str, list[tuple[int, int, Part]]] = {} if base is None else dict(base._bounds)
        self._packed: dict[str, PackedBounds] = {} if base is None else base._packed

    def add(self, inserts: Sequence[Part], deletes: Sequence[Part]) -> None:
        """Take in more parts."""
        for part in inserts:
            if part.inline is None:
                self.loose.append(part)
            else:
                number = self.small.number(part)
                self.inline[number] = part
                self._new_inline.append((number, part))
                self.small_rows += part.rows
        for part in deletes:
            number = self.small.number(part)
            self.deletes[number] = part
            self._new_deletes.append((number, part))
            self.small_rows += part.rows

    def continue_bounds(self, other: PartView) -> None:
        """Take over what `other`, a view of the same shard with other parts, knows of the blocks."""
        self._packed = other._packed

    @property
    def files(self) -> Iterator[Part]:
        """All files."""
        for block in self.blocks:
            yield from block.parts()
        yield from self.loose

    def is_extended_by(self, inserts: Sequence[Part], deletes: Sequence[Part]) -> bool:
        """Whether the view's parts are the first of these."""
        before, gone = self.sources
        if isinstance(before, PackedParts) or isinstance(inserts, PackedParts):
            alike = isinstance(before, PackedParts) and isinstance(inserts, PackedParts) and before.begins(inserts)
            return alike and deletes[: len(gone)] == gone
        # Most are the same objects, so that this is quick.
        return inserts[: len(before)] == before and deletes[: len(gone)] == gone

    def missing_keys(self, definition: IndexDefinition, known: Container[int]) -> list[tuple[int, Part]]:
        """The inline parts, with their numbers, that may not be among those `known` to an index."""
        candidates = self._new_inline if definition.fingerprint in self._keyed else self.inline.items()
        return [(number, part) for number, part in candidates if number not in known]

    def missing_deletes(self, known: Container[int]) -> list[tuple[int, Part]]:
        """The delete parts, with their numbers, that may not be among those `known`."""
        candidates = self._new_deletes if self._deletes_known else self.deletes.items()
        return [(number, part) for number, part in candidates if number not in known]

    def files_between(self, definition: IndexDefinition, low: int, high: int) -> list[Part]:
        """The files that can have a row whose prefix is from `low` to `high`."""
        found = self._bounds.get(definition.fingerprint, [])
        if len(found) < len(self.loose):
            found = [*found, *((*prefix_bounds(definition, part), part) for part in self.loose[len(found) :])]
            self._bounds[definition.fingerprint] = found
        near = list(self._packed_between(definition, low, high)) if self.blocks else []
        # NOTE: a comprehension would be a call, of which each read by key counts.
        for lowest, highest, part in found:
            if lowest <= high and low <= highest:
                near.append(part)
        return near

    def _packed_between(self, definition: IndexDefinition, low: int, high: int) -> Iterator[Part]:
        known = self._packed.get(definition.fingerprint)
        if known is None or known.blocks != self.blocks:
            known = PackedBounds.of(definition, self.blocks, known)
            # NOTE: replaced and not changed: a view before this one may have other blocks.
            self._packed = {**self._packed, definition.fingerprint: known}
        return known.between(low, high)


class PackedBounds(Struct, frozen=True):
    """The lowest and the highest prefix of each file in `blocks`, by index as numbers, for 16 bytes a file."""

    blocks: tuple[Block, ...]
    bounds: tuple[Keys, ...]
    """Of each block: the lowest of its files, then the highest."""
    lowest: Keys
    highest: Keys
    ends: Ints
    """How many files there are up to the end of each block."""

    @classmethod
    def of(cls, definition: IndexDefinition, blocks: tuple[Block, ...], before: PackedBounds | None) -> PackedBounds:
        """Those of `blocks`; of the blocks that were there `before`, as they were found then."""
        known = {} if before is None else dict(zip(before.blocks, before.bounds, strict=True))
        bounds = tuple([known[block] if block in known else _bounds_of(definition, block) for block in blocks])
        both, ends = np.concatenate(bounds, axis=1), np.cumsum([block.count for block in blocks])
        return cls(blocks, tuple(np.split(both, ends[:-1], axis=1)), both[0], both[1], ends)

    def between(self, low: int, high: int) -> Iterator[Part]:
        """The files that can have a row whose prefix is from `low` to `high`."""
        near = np.flatnonzero((self.lowest <= np.uint64(high)) & (self.highest >= np.uint64(low)))
        for at, number in zip(np.searchsorted(self.ends, near, "right").tolist(), near.tolist(), strict=True):
            block = self.blocks[at]
            yield block.parts(keep=True)[number - int(self.ends[at])]


def _bounds_of(definition: IndexDefinition, block: Block) -> Keys:
    return np.array([prefix_bounds(definition, part) for part in block.parts()], np.uint64).T


def keys_of(definition: IndexDefinition, group: RowGroup) -> PartKeys:
    """The keys of an inline part, whose rows are `group`. Raises what computed columns raise."""
    simple = definition.predicate is None and all(isinstance(c.source, StoredColumn) for c in definition.columns)
    if simple and group.rows <= ONE_BY_ONE:
        rows = [plain_key(definition.columns, group, at) for at in range(group.rows)]
        columns = definition.columns
        hashed = [hash_of(columns, key) for key in rows] if definition.hashed else None
        ordered = [prefix_of(columns, key)[0] for key in rows] if definition.ordered else None
        positions = np.arange(group.rows)
        return PartKeys(
            None if hashed is None else (np.array(hashed, np.uint64), positions),
            None if ordered is None else (np.array(ordered, np.uint64), positions),
        )
    table = inputs_of(definition, group)
    positions, arrays = indexed(definition, table)
    values = values_of(definition.columns, arrays)
    return PartKeys(
        PartKeys.ascending(hashes(values) if definition.hashed else None, positions),
        PartKeys.ascending(prefixes(values).keys if definition.ordered else None, positions),
    )


def inputs_of(definition: IndexDefinition, group: RowGroup) -> pa.Table:
    """The stored columns that the keys of `definition` follow from."""
    return pa.table(
        {column.name: column.conform(group.columns.get(column.name), group.rows) for column in definition.inputs}
    )


def plain_key(columns: Sequence[KeyColumn], group: RowGroup, at: int) -> tuple[Plain, ...]:
    """The key of the row `at` in `group`."""
    key = []
    for column in columns:
        source = column.source
        if isinstance(source, Computed):
            array = source.evaluate(pa.table({c.name: _one(c, group, at) for c in source.inputs}))
            key.append(plain_scalar(column, array[0]))
        else:
            stored = group.columns.get(source.name)
            if stored is not None:
                key.append(plain_scalar(column, stored[at]))
            else:
                key.append(None if source.missing is None else plain_scalar(column, source.missing))
    return tuple(key)


def _one(column: StoredColumn, group: RowGroup, at: int) -> pa.Array:
    stored = group.columns.get(column.name)
    return column.conform(None if stored is None else stored.slice(at, 1), 1)


def prefix_bounds(definition: IndexDefinition, part: Part) -> tuple[int, int]:
    """The lowest and highest prefix that a row of `part` can have, from its record."""
    ref = durable_run(part, definition)
    if ref is not None and definition.ordered:
        return ref.low, ref.high
    column = definition.columns[0]
    everything = 0, (1 << 64) - 1
    if isinstance(column.source, Computed) or column.padded:
        return everything
    stats = part.stats.get(column.source.name)
    if stats is None or stats.null_count != 0 or stats.min is None or stats.max is None:
        return everything
    low, high = (_stat(column, value) for value in (stats.min, stats.max))
    if low is None or high is None:
        return everything
    ends = []
    for value in (high, low) if column.descending else (low, high):
        prefix, bits = prefix_of([column], [value])
        ends.append((prefix, prefix | (1 << max(0, 64 - bits)) - 1))
    return ends[0][0], ends[1][1]


def _stat(column: KeyColumn, value: int | float | str) -> Plain:
    if column.domain is Domain.INTEGER and isinstance(value, int):
        return value
    if column.domain is Domain.TEXT and isinstance(value, str):
        return value.encode()
    return None
