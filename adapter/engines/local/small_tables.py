"""Small tables of the local engine: their live rows as one Arrow table, which plans read through a name that stays.

The engine keeps the plan of a statement that it runs again and again, but binds it anew each time when it reads one of
the engine's own tables; that costs more than the read of a small table. What it reads as an Arrow stream it does not
bind again, and asks for the stream each time the plan runs. So a small table is a `database.RowSource` under a name
that only depends on its shard and columns, and each execution puts the rows of its snapshot there: the text of a
statement, and with it its plan, outlives every change of the table.

A source offers the rows as a stream and nothing else, so that the engine filters them itself and not Arrow, whose
comparisons are not PostgreSQL's.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from adapter.engines.common.scan_sources import (
    DeletedRows,
    PartIdentity,
    PartReader,
    ScanColumn,
    identity,
    inline_rows,
    scan_schema,
    without_deleted,
)
from storage.bounded_map import BoundedMap
from storage.cache_memory import aging, share, watched
from storage.ids import ShardId
from storage.off_loop import MANY_COLUMNS
from storage.shards.parts import Part

MAX_ROWS = 8192
"""Rows of a small table: four of the engine's vectors. Larger ones profit from its own storage."""

MAX_BYTES = share(32)
"""Bytes kept of decoded parts, and as many of tables put together from them; the least recently read go first."""

ENTRY_BYTES = 4096
"""What an entry takes beside that, about: Arrow's objects, and of a part its bytes, which its name has."""

PART_NAME_BYTES = 128
"""What a table's key takes for each part that it is put together from, about: after many small changes of a table that
is more than its rows."""

MAX_NAMES = 1024
"""Tables (by shard and columns) whose names are remembered; one that is forgotten gets another name."""


THREAD_BYTES = 4 * 1024 * 1024
"""Rows of more than this are put together in a thread: few rows may have large values."""


def kept_bytes(table: pa.Table, parts: int) -> int:
    """What keeping `table` takes under a key that names `parts` parts."""
    return ENTRY_BYTES + int(table.nbytes) + PART_NAME_BYTES * parts


class SmallTables:
    """The rows of small tables, decoded and put together once for each state of a table. Belongs to the event loop."""

    def __init__(self, reader: PartReader, deleted: DeletedRows) -> None:
        self._reader = reader
        self._deleted = deleted
        self._parts: BoundedMap[object, pa.Table] = aging(BoundedMap(max_bytes=MAX_BYTES))
        self._tables: BoundedMap[object, pa.Table] = watched("small_tables", aging(BoundedMap(max_bytes=MAX_BYTES)))
        self._names: BoundedMap[tuple[ShardId, tuple[ScanColumn, ...], int], str] = BoundedMap(max_entries=MAX_NAMES)
        self._numbers = itertools.count()

    def name(self, shard: ShardId, columns: tuple[ScanColumn, ...], oid: int) -> str:
        """The name under which statements read the table as that with this oid: a query may read it at several
        moments."""
        key = (shard, columns, oid)
        name = self._names.get(key)
        if name is None:
            name = f"rows{next(self._numbers)}"
            self._names.put(key, name)
        return name

    async def rows(self, columns: tuple[ScanColumn, ...], parts: Sequence[Part], deletes: Sequence[Part]) -> pa.Table:
        """The rows of insert parts less those that delete parts name, in `scan_sources.scan_schema` of `columns`."""
        of = tuple([identity(part) for part in parts])
        key = (columns, of, tuple([identity(part) for part in deletes]))
        table = self._tables.get(key)
        if table is None:
            pieces = [await self._part(columns, part, name) for part, name in zip(parts, of, strict=True)]
            pieces = pieces or [scan_schema(columns).empty_table()]
            ids = await self._deleted.ids(deletes)
            if len(columns) > MANY_COLUMNS or sum([piece.nbytes for piece in pieces]) > THREAD_BYTES:
                table = await asyncio.to_thread(_together, pieces, ids)
            else:
                table = _together(pieces, ids)
            self._tables.misses += 1
            self._tables.put(key, table, kept_bytes(table, len(parts) + len(deletes)))
        else:
            self._tables.hits += 1
            self._tables.touch(key)
        return table

    async def _part(self, columns: tuple[ScanColumn, ...], part: Part, name: PartIdentity) -> pa.Table:
        key = (columns, name)
        rows = self._parts.get(key)
        if rows is None:
            rows = await inline_rows(self._reader, columns, part)
            self._parts.put(key, rows, kept_bytes(rows, 1))
        else:
            self._parts.touch(key)
        return rows


def _together(pieces: Sequence[pa.Table], deleted: Any) -> pa.Table:
    return without_deleted(pa.concat_tables(pieces), deleted).combine_chunks()
