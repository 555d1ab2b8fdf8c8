"""Reading rows by their keys: `lookup` finds equal keys, `range` those between two bounds, in order.

Both look at every part that they are given: Parquet parts by their key runs, inline parts by keys in memory.
Candidates are read by position, rows that a delete part names are left out, and the key of every row is compared
itself, so the answer is exact whatever hashes collide.

Work that may wait (reading a file, decoding, making a run) is done by the methods that are awaited alone, and in
threads. Those called ``..._now`` answer at once when everything that they need is at hand, and return None when it is
not: so ask them first, and await the others when they decline.
"""

from __future__ import annotations

import mmap
from collections.abc import Awaitable, Callable, Collection, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from storage.errors import MissingBlob
from storage.ids import ShardId
from storage.shards.indexes.definition import IndexDefinition, StoredColumn
from storage.shards.indexes.durable_runs import IndexRunMaker
from storage.shards.indexes.keys import Ints
from storage.shards.indexes.reading import estimates, lookups, ranges
from storage.shards.indexes.reading.estimates import Estimate
from storage.shards.indexes.reading.found import Found, arrays_of
from storage.shards.indexes.reading.ranges import KeyRange
from storage.shards.indexes.reading.sources import PartList, Sources, Steps, at_once, awaited
from storage.shards.part_store import PartStore
from storage.shards.parts import Part

R = TypeVar("R")


class KeyReader:
    """See the module. One for a process; belongs to its event loop.

    `parts` are those of a snapshot (or what was written between two). `local` are parts of a transaction that has not
    committed, inserts and deletes, on top of them. `columns` are what is wanted of the rows; with none, the ids alone.

    The awaited methods raise MissingBlob and CorruptPart when a part cannot be read; all raise what computed columns
    raise. `on_missing` is awaited before a MissingBlob is raised: it may know a better error. `validate`: key runs
    that are read are compared with their parts.
    """

    def __init__(
        self,
        parts: PartStore,
        on_missing: Callable[[], Awaitable[object]] | None = None,
        *,
        validate: bool = False,
    ) -> None:
        self.sources = Sources(parts, validate=validate)
        self._parts = parts
        self._on_missing = on_missing
        self.definitions_of: Callable[[ShardId], Sequence[IndexDefinition]] = lambda shard: ()
        """The indexes of a shard, as far as `provide` was told."""
        self.changed: Callable[[], Collection[ShardId]] = lambda: ()
        """The shards for which that may have changed since the last call."""
        self.provided = False

    def provide(
        self,
        definitions_of: Callable[[ShardId], Sequence[IndexDefinition]],
        changed: Callable[[], Collection[ShardId]] = lambda: (),
    ) -> None:
        """From now on `definitions_of` says which indexes the files of a shard get key runs of, when they are written,
        compacted, or looked after in the background. `changed` gives the shards for which it may say something else
        since it was last called. Readings need none of it."""
        self.definitions_of, self.changed, self.provided = definitions_of, changed, True
        self._parts.run_makers = lambda shard: [IndexRunMaker(index) for index in definitions_of(shard)]

    def use_scratch(self, folder: Path) -> None:
        """Keep what is made for reading in files in `folder`, which exists, and not in memory."""
        self.sources.rows.use_scratch(folder)
        self.sources.runs.use_scratch(folder)

    def mapped(self) -> list[mmap.mmap]:
        """The files of that folder that are mapped: a page of one which is not needed now can be read again."""
        return [*self.sources.rows.mapped(), *self.sources.runs.mapped()]

    async def lookup(
        self,
        parts: PartList,
        index: IndexDefinition,
        keys: Sequence[Sequence[Any]],
        columns: Sequence[StoredColumn],
        *,
        local: Sequence[Part] = (),
        nulls_match: bool = False,
    ) -> Found:
        """The rows whose key is one of `keys`, by number of the key and row id.

        A key is a sequence of Python's values (`scalar_keys.plain` says which). `nulls_match`: NULL equals NULL;
        otherwise a key with a NULL finds nothing.
        """
        views = self.sources.views(parts, local)
        return await self._awaited(lookups.lookup(self.sources, views, index, keys, columns, nulls_match))

    def lookup_now(
        self,
        parts: PartList,
        index: IndexDefinition,
        keys: Sequence[Sequence[Any]],
        columns: Sequence[StoredColumn],
        *,
        local: Sequence[Part] = (),
        nulls_match: bool = False,
    ) -> Found | None:
        """As `lookup`; None when it would have to wait."""
        views = self.sources.views(parts, local)
        return at_once(lookups.lookup(self.sources, views, index, keys, columns, nulls_match))

    async def lookup_columns(
        self,
        parts: PartList,
        index: IndexDefinition,
        keys: Sequence[pa.Array],
        columns: Sequence[StoredColumn],
        *,
        local: Sequence[Part] = (),
        nulls_match: bool = False,
    ) -> Found:
        """As `lookup`, with the keys by columns: for many keys."""
        views = self.sources.views(parts, local)
        return await self._awaited(lookups.lookup_columns(self.sources, views, index, keys, columns, nulls_match))

    def lookup_columns_now(
        self,
        parts: PartList,
        index: IndexDefinition,
        keys: Sequence[pa.Array],
        columns: Sequence[StoredColumn],
        *,
        local: Sequence[Part] = (),
        nulls_match: bool = False,
    ) -> Found | None:
        """As `lookup_columns`; None when it would have to wait."""
        views = self.sources.views(parts, local)
        return at_once(lookups.lookup_columns(self.sources, views, index, keys, columns, nulls_match))

    async def first_taken(
        self,
        parts: PartList,
        index: IndexDefinition,
        keys: Sequence[pa.Array],
        *,
        local: Sequence[Part] = (),
        nulls_match: bool = False,
    ) -> int | None:
        """The number of the first of `keys`, by columns, that a row has or a key before it equals; None when all are
        new."""
        views = self.sources.views(parts, local)
        return await self._awaited(lookups.look_up_new(self.sources, views, index, keys, nulls_match))

    async def range(
        self,
        parts: PartList,
        index: IndexDefinition,
        keys: KeyRange,
        columns: Sequence[StoredColumn],
        *,
        descending: bool = False,
        limit: int | None = None,
        local: Sequence[Part] = (),
    ) -> Found:
        """The first `limit` rows with a key in the range `keys`, in the order of the index or, `descending`, in the
        opposite one. Rows with equal keys are by row id, as long as they are few. An index that is not `ordered` raises
        ValueError."""
        views = self.sources.views(parts, local)
        return await self._awaited(ranges.find(self.sources, views, index, keys, columns, descending, limit))

    def range_now(
        self,
        parts: PartList,
        index: IndexDefinition,
        keys: KeyRange,
        columns: Sequence[StoredColumn],
        *,
        descending: bool = False,
        limit: int | None = None,
        local: Sequence[Part] = (),
    ) -> Found | None:
        """As `range`; None when it would have to wait."""
        views = self.sources.views(parts, local)
        return at_once(ranges.find(self.sources, views, index, keys, columns, descending, limit))

    async def count(
        self, parts: PartList, index: IndexDefinition, keys: KeyRange, *, local: Sequence[Part] = ()
    ) -> int:
        """How many rows are in the range at most, without reading one: deleted ones count, and so may those at its
        ends."""
        return await self._awaited(ranges.count(self.sources, self.sources.views(parts, local), index, keys))

    def count_now(
        self, parts: PartList, index: IndexDefinition, keys: KeyRange, *, local: Sequence[Part] = ()
    ) -> int | None:
        """As `count`; None when it would have to wait."""
        return at_once(ranges.count(self.sources, self.sources.views(parts, local), index, keys))

    async def estimate(
        self,
        parts: PartList,
        index: IndexDefinition,
        *,
        keys: Sequence[Sequence[Any]] | Sequence[pa.Array] | None = None,
        ranges: Sequence[KeyRange] = (),
        local: Sequence[Part] = (),
    ) -> Estimate:
        """What a lookup of `keys` (Python's values, or arrays by columns), or where that is None a reading of `ranges`,
        would cost."""
        views = self.sources.views(parts, local)
        if keys is not None:
            if not keys or not isinstance(keys[0], pa.Array):
                keys = arrays_of(index.columns, keys)
            return await self._awaited(estimates.of_keys(self.sources, views, index, keys))
        return await self._awaited(estimates.of_ranges(self.sources, views, index, ranges))

    async def rows_of_ids(self, part: Part, row_ids: Ints, columns: Sequence[StoredColumn]) -> pa.Table:
        """``_row_id`` and `columns` of the rows of the file `part` with these ids, which are ascending and all in it.
        The part has no ids in a column: they follow from where its rows are."""
        return await self._awaited(lookups.rows_of_ids(self.sources, part, row_ids, columns))

    async def _awaited(self, steps: Steps[R]) -> R:
        try:
            return await awaited(steps)
        except MissingBlob:
            if self._on_missing is not None:
                await self._on_missing()
            raise
