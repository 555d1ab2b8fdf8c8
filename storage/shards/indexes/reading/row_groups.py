"""Rows by their position in a part: decoded row groups, kept so that one row is a look at mapped memory.

A row group of a Parquet part that a point read touches is decoded once, whole, and written as uncompressed Arrow to a
file in the process's scratch folder, which is mapped and at once unlinked: it is gone when nobody needs it, however
the process ends. Without a scratch folder it stays in memory. Inline parts are decoded as one row group. The groups
used last are kept, up to a number of bytes. Belongs to the event loop; decoding and writing happen in threads.
"""

from __future__ import annotations

import asyncio
import mmap
import tempfile
from bisect import bisect_right
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from storage.bounded_map import BoundedMap
from storage.cache_memory import aging, share, watched
from storage.shards.indexes.keys import Ints
from storage.shards.part_store import PartStore
from storage.shards.parts import ROW_ID, Part, arrow_bytes, read_table

MAPPED_BYTES = 2 * 1024**3
"""Bytes of row groups kept in scratch files."""

MEMORY_BYTES = share(8)
"""Bytes of row groups kept in memory: all where there is no scratch folder, otherwise those of inline parts."""

GROUP_BYTES = 4096
"""What a kept row group takes beside its rows, about."""

CHECKED_WRITERS = ("parquet-cpp-arrow", "parquet-mr")
"""Writers of Parquet whose pages carry checksums. What others wrote is verified as a whole, once."""

MAX_LAYOUTS = 4096
"""Footers kept."""

GroupName: TypeAlias = tuple[str | bytes, int]
"""A part's file or bytes, and the number of the row group."""


class RowGroup(Struct, frozen=True, kw_only=True):
    """The rows of a part from position `first` on, by column. `row_ids`: where the part carries them in a column.
    `mapped`: the file that they are in, if they are in one."""

    first: int
    rows: int
    columns: dict[str, pa.Array]
    row_ids: Ints | None
    nbytes: int
    mapped: mmap.mmap | None = None


class Layout(Struct, frozen=True, kw_only=True):
    """Where the row groups of a file begin, as positions in the part."""

    metadata: pq.FileMetaData
    starts: tuple[int, ...]

    def group_of(self, position: int) -> int:
        """The number of the row group that has the row at `position`."""
        return bisect_right(self.starts, position) - 1


class RowGroups:
    """See the module."""

    def __init__(self, parts: PartStore) -> None:
        self._parts = parts
        self._scratch: Path | None = None
        self._layouts: BoundedMap[str, Layout] = BoundedMap(max_entries=MAX_LAYOUTS)
        self._mapped: BoundedMap[GroupName, RowGroup] = watched("mapped_row_groups", BoundedMap(max_bytes=MAPPED_BYTES))
        self._held: BoundedMap[GroupName, RowGroup] = watched("row_groups", aging(BoundedMap(max_bytes=MEMORY_BYTES)))
        self._loading: dict[GroupName, asyncio.Task[RowGroup]] = {}
        self.loaded = 0
        """Row groups of files that were read and decoded so far."""

    def use_scratch(self, folder: Path) -> None:
        """Keep row groups in files in `folder`, which exists, from now on."""
        self._scratch = folder

    def mapped(self) -> list[mmap.mmap]:
        """The files that are mapped."""
        return [group.mapped for _, group in self._mapped.items() if group.mapped is not None]

    def layout(self, part: Part) -> Layout | None:
        """The row groups of a file, when its footer has been read."""
        assert part.key is not None
        return self._layouts.get(part.key)

    async def load_layout(self, part: Part) -> Layout:
        """The row groups of a file. Raises MissingBlob and CorruptPart."""
        assert part.key is not None
        found = self._layouts.get(part.key)
        if found is None:
            metadata = await self._parts.footer(part.key, part.bytes)
            if not metadata.created_by.startswith(CHECKED_WRITERS):
                await self._parts.verify([part])
            counts = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
            starts = np.concatenate(([0], np.cumsum(counts)[:-1])).astype(int) if counts else np.zeros(1, int)
            found = Layout(metadata=metadata, starts=tuple(starts.tolist()))
            self._layouts.put(part.key, found)
        return found

    def get(self, part: Part, number: int) -> RowGroup | None:
        """The row group `number` of `part`, when it is at hand; those of inline parts always are."""
        if part.inline is not None:
            return self.inline(part)
        assert part.key is not None
        name = (part.key, number)
        for kept in (self._mapped, self._held):
            found = kept.get(name)
            if found is not None:
                kept.touch(name)
                kept.hits += 1
                return found
        return None

    async def load(self, part: Part, number: int) -> RowGroup:
        """The row group `number` of `part`. Raises MissingBlob and CorruptPart."""
        found = self.get(part, number)
        if found is not None:
            return found
        assert part.key is not None
        name = (part.key, number)
        task = self._loading.get(name)
        if task is None:
            task = self._loading[name] = asyncio.ensure_future(self._load(part, number))
            task.add_done_callback(lambda _: self._loading.pop(name, None))
        # NOTE: several may wait for one; none of them takes it along when it is cancelled.
        return await asyncio.shield(task)

    def inline(self, part: Part) -> RowGroup:
        """The rows of an inline part. Raises CorruptPart."""
        assert part.inline is not None
        name = (part.inline, 0)
        found = self._held.get(name)
        if found is None:
            self._held.misses += 1
            found = decode_inline(part)
            self.keep_inline(part, found)
        else:
            self._held.hits += 1
            self._held.touch(name)
        return found

    def keep_inline(self, part: Part, group: RowGroup) -> None:
        """Keep what `decode_inline` has made of `part` in a thread."""
        assert part.inline is not None
        self._held.put((part.inline, 0), group, group.nbytes)

    async def _load(self, part: Part, number: int) -> RowGroup:
        layout = await self.load_layout(part)
        columns = [*part.columns, ROW_ID] if part.has_row_id_column else list(part.columns)
        table = await self._parts.row_group(part, layout.metadata, number, columns)
        self.loaded += 1
        first = layout.starts[number]
        assert part.key is not None
        if self._scratch is None:
            group = _row_group(first, table)
            self._held.put((part.key, number), group, group.nbytes)
            self._held.misses += 1
        else:
            group = await asyncio.to_thread(_mapped_row_group, self._scratch, first, table)
            self._mapped.put((part.key, number), group, group.nbytes)
            self._mapped.misses += 1
        return group


def decode_inline(part: Part) -> RowGroup:
    """The rows of an inline part. Raises CorruptPart."""
    assert part.inline is not None
    columns = [*part.columns, ROW_ID] if part.has_row_id_column else list(part.columns)
    return _row_group(0, read_table(part, part.inline, columns))


def _row_group(first: int, table: pa.Table) -> RowGroup:
    batches = table.combine_chunks().to_batches()
    (batch,) = batches or [pa.RecordBatch.from_pylist([], table.schema)]
    return _group_of(first, batch)


def _mapped_row_group(folder: Path, first: int, table: pa.Table) -> RowGroup:
    """Runs in a thread."""
    batches = table.combine_chunks().to_batches()
    with tempfile.TemporaryFile(dir=folder, prefix="rows-", suffix=".arrow") as file:
        with pa.ipc.new_file(file, table.schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        file.flush()
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        (batch,) = pa.ipc.open_file(pa.BufferReader(mapped)).read_all().to_batches()
        return _group_of(first, batch, mapped)


def _group_of(first: int, batch: pa.RecordBatch, mapped: mmap.mmap | None = None) -> RowGroup:
    row_ids = None
    if ROW_ID in batch.schema.names:
        row_ids = batch.column(ROW_ID).to_numpy()
        batch = batch.drop_columns([ROW_ID])
    size = arrow_bytes(batch) + (0 if row_ids is None else row_ids.nbytes) + GROUP_BYTES
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    return RowGroup(first=first, rows=batch.num_rows, columns=columns, row_ids=row_ids, nbytes=size, mapped=mapped)
