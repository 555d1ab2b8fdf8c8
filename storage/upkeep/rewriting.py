"""Rewriting the files of a shard as its layout wants them, however many they are: what VACUUM (FULL) does.

Compaction keeps to files that fit into memory together. Here an engine, which sorts any number of rows, reads a group
of insert parts without their deleted rows and writes them, with their ids, as new parts; `storage.upkeep.compactor`
puts these in the place of the old ones. Each group is swapped by itself and its parts say so (`Part.laid_out`): work
that ends in the middle leaves its groups done, and the next time only the others, and what has come since, are
rewritten.

Only parts at or below the shard's since take part, as in compaction, so that nobody reads an earlier moment of them.
The new parts have the columns that the table has then; the caller sees to it that the since is past the last change of
its columns.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from storage.errors import StorageError
from storage.ids import ShardId
from storage.layouts.layout import TableLayout
from storage.layouts.ordering import laid_out
from storage.shards.part_store import PartStore
from storage.shards.parts import ROW_ID, Part, UploadedPart
from storage.shards.shard_state import ShardState
from storage.upkeep import compaction
from storage.upkeep.compaction import RowIds


class Group(Struct, frozen=True, kw_only=True):
    """Insert parts to rewrite together, and the delete parts that may have some of their rows."""

    inserts: tuple[Part, ...]
    deletes: tuple[Part, ...]

    @property
    def rows(self) -> int:
        """With those that are deleted."""
        return sum(part.rows for part in self.inserts)

    @property
    def bytes(self) -> int:
        """Of the files to rewrite."""
        return sum(part.bytes for part in self.inserts)


class Rewritten(Struct, frozen=True, kw_only=True):
    """What rewriting a group has done: the parts that went, and their bytes."""

    parts: int
    bytes: int


class StillRead(StorageError):
    """Somebody may still read the shard as it was before."""


class BeatenToIt(StorageError):
    """Another process has changed the parts of a group while it was rewritten."""


Write: TypeAlias = Callable[[Group, list[Part]], Awaitable[None]]
"""Writes the rows of a group, in the order of the layout, as parts by `encoded` or `described`, and adds each part to
the list as soon as it is there."""


def mark_of(layout: TableLayout | None) -> str:
    """What the parts of a rewritten group say (`Part.laid_out`)."""
    layout = layout or TableLayout()
    text = repr((layout.partition, layout.sort, layout.zorder, layout.target_bytes))
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


def not_laid_out(state: ShardState, parts: Iterable[Part], layout: TableLayout | None) -> list[Part]:
    """The insert parts among `parts`, of `state`, that no rewriting has laid out so."""
    mark = mark_of(layout)
    # NOTE: those that are deleted as a whole go without being rewritten, sooner or later.
    return [p for p in parts if p.kind == "insert" and p.laid_out != mark and p.key not in state.whole]


def next_group(state: ShardState, layout: TableLayout | None, most_bytes: int) -> Group | None:
    """The parts to rewrite next, of some `most_bytes` together; None when all are laid out. Those of a partition stay
    together as far as they can."""
    due = not_laid_out(state, compaction.eligible(state, "insert"), layout)
    if not due:
        return None
    due.sort(key=lambda part: (repr(compaction.partition_of(part, layout)), part.id))
    chosen: list[Part] = []
    size = 0
    for part in due:
        if chosen and size + part.bytes > most_bytes:
            break
        chosen.append(part)
        size += part.bytes
    low = min(part.row_id_bounds[0] for part in chosen)
    high = max(part.row_id_bounds[1] for part in chosen)
    deletes = [
        part
        for part in compaction.eligible(state, "delete")
        if not part.whole and part.row_id_bounds[0] <= high and low <= part.row_id_bounds[1]
    ]
    return Group(inserts=tuple(chosen), deletes=tuple(deletes))


async def folded_rows(parts: PartStore, group: Group) -> RowIds:
    """The ids, ascending, of the rows of `group` that its delete parts have."""
    found = [compaction.ids_of(piece) for part in group.deletes async for piece in parts.pieces(part, [ROW_ID])]
    deleted = np.unique(np.concatenate(found)) if found else np.empty(0, np.int64)
    is_hit = np.zeros(len(deleted), np.bool_)
    for part in group.inserts:
        low, high = part.row_id_bounds
        begin, end = int(np.searchsorted(deleted, low)), int(np.searchsorted(deleted, high, "right"))
        if begin == end:
            continue
        if not part.has_row_id_column:
            is_hit[begin:end] = True
            continue
        async for piece in parts.pieces(part, [ROW_ID]):
            is_hit[begin:end] |= compaction.among(deleted[begin:end], np.sort(compaction.ids_of(piece)))
    return deleted[is_hit]


async def encoded(parts: PartStore, shard: ShardId, rows: pa.Table, layout: TableLayout | None) -> list[Part]:
    """Parts of `rows`, which have a column ``_row_id`` and come in the order of `layout`."""
    pieces = [rows] if layout is None else await asyncio.to_thread(laid_out, rows, layout)
    made: list[Part] = []
    for piece in pieces:
        first = compaction.consecutive_from(compaction.ids_of(piece))
        table = piece if first is None else piece.drop_columns([ROW_ID])
        part = await parts.encode("insert", shard, table, () if layout is None else layout.partition)
        made.append(replace(part, has_row_id_column=first is None, first_row_id=-1 if first is None else first))
    return made


async def described(parts: PartStore, uploaded: UploadedPart, layout: TableLayout | None) -> Part:
    """The part for a file that an engine has written, with a column ``_row_id``. Raises MissingBlob, CorruptPart."""
    # NOTE: without its footer the file is made durable now. With it, only a commit would wait for that.
    uploaded = replace(uploaded, footer=b"")
    part = await parts.describe("insert", uploaded, () if layout is None else layout.partition)
    return replace(part, has_row_id_column=True)
