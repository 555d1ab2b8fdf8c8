"""Folding deletions where a part is too large for memory: an insert part, or the parts that delete from it.

The rows of the chosen insert parts are read a row group at a time, the deleted ones left out, and the rest written, in
their order, as parts of `MAX_INPUT_ROWS` rows at most. Then the delete parts that named any of their rows are rewritten
without those entries, in the same way. Memory is bounded by one row group, one output part and eight bytes per deleted
row of the parts that one folding chooses (`MAX_FOLDED_ROWS`), however large the parts are. `storage.upkeep.compactor`
swaps the result in.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import Struct, field

from storage.ids import ShardId
from storage.shards.part_store import PartStore
from storage.shards.parts import ROW_ID, Part
from storage.shards.shard_state import ShardState
from storage.upkeep import compaction
from storage.upkeep.compaction import RowIds

MAX_FOLDED_ROWS = 16_000_000
"""Rows of the insert parts that one folding rewrites: the delete parts are read twice for each."""

OUTPUT_BYTES = 64 * 1024 * 1024
"""Arrow bytes that gather for one output part."""


class Folding(Struct, frozen=True, kw_only=True):
    """What to swap: the parts with ids `removed` for `added`. Nothing when no deleted row was found."""

    removed: tuple[int, ...]
    added: tuple[Part, ...]


class _Output(Struct):
    """Rows on their way into parts like `origin`."""

    parts: PartStore
    shard: ShardId
    origin: Part
    added: list[Part]
    tables: list[pa.Table] = field(default_factory=list)
    rows: int = 0
    nbytes: int = 0

    async def write(self, table: pa.Table) -> None:
        """Add rows, ``_row_id`` first."""
        for start in range(0, table.num_rows, compaction.MAX_INPUT_ROWS):
            piece = table.slice(start, compaction.MAX_INPUT_ROWS)
            if self.rows and (
                self.rows + piece.num_rows > compaction.MAX_INPUT_ROWS or self.nbytes + piece.nbytes > OUTPUT_BYTES
            ):
                await self.flush()
            self.tables.append(piece)
            self.rows, self.nbytes = self.rows + piece.num_rows, self.nbytes + piece.nbytes

    async def flush(self) -> None:
        """Write what has gathered as one part."""
        if not self.rows:
            return
        table = pa.concat_tables(self.tables).combine_chunks()
        self.tables, self.rows, self.nbytes = [], 0, 0
        first_row_id = -1
        hidden = False
        if self.origin.kind == "insert":
            first = compaction.consecutive_from(compaction.ids_of(table))
            hidden = first is None
            if first is not None:
                first_row_id = first
                table = table.drop_columns([ROW_ID])
        part = await self.parts.encode(self.origin.kind, self.shard, table)
        self.added.append(
            msgspec.structs.replace(
                part,
                csn=self.origin.csn,
                schema_version=self.origin.schema_version,
                has_row_id_column=hidden,
                first_row_id=first_row_id,
                fingerprint=self.origin.fingerprint if self.origin.kind == "insert" else part.fingerprint,
                partition=self.origin.partition,
                laid_out=self.origin.laid_out,
            )
        )


def has_more_deletes(state: ShardState) -> bool:
    """Whether there are more eligible delete parts than `compaction` looks at, or larger ones: what it counts of the
    rows that a part has lost may be too few."""
    deletes = compaction.eligible(state, "delete")
    return len(list(compaction.read_at_once(deletes))) < len(deletes)


def due(state: ShardState) -> bool:
    """A cheap look at whether `fold` may find something."""
    if not compaction.deletions_due(state):
        return False
    return has_more_deletes(state) or any(
        part.rows > compaction.MAX_INPUT_ROWS for part in compaction.eligible(state, "insert")
    )


async def fold(
    parts: PartStore, shard: ShardId, state: ShardState, in_vain: Mapping[int, int], added: list[Part]
) -> tuple[Folding, dict[int, int]]:
    """Fold deletions into the parts that need it most urgently. New parts enter `added` as they are written.

    `in_vain` as for `compaction.plan`. Also returns what is to be added to it.
    """
    everything = has_more_deletes(state)
    candidates = [
        part
        for part in compaction.eligible(state, "insert")
        if part.rows and (everything or part.rows > compaction.MAX_INPUT_ROWS)
    ]
    deletes = compaction.eligible(state, "delete")
    hits = await _count(parts, deletes, candidates)
    chosen: list[Part] = []
    for part in candidates:
        number = hits[part.id]
        if number <= compaction.DELETED_SHARE * part.rows or in_vain.get(part.id) == number:
            continue
        if chosen and sum(other.rows for other in chosen) + part.rows > MAX_FOLDED_ROWS:
            break
        chosen.append(part)
    removed: list[int] = []
    folded: list[RowIds] = []
    found_vain: dict[int, int] = {}
    for part in chosen:
        before = len(added)
        found = await _fold_into(parts, shard, part, deletes, added)
        if len(found):
            removed.append(part.id)
            folded.append(found)
        else:
            parts.discard(added[before:])
            del added[before:]
            found_vain[part.id] = hits[part.id]
    gone = np.sort(np.concatenate(folded)) if folded else np.empty(0, np.int64)
    removed += [part.id for part in deletes if len(gone) and await drop_entries(parts, shard, part, gone, added)]
    return Folding(removed=tuple(removed), added=tuple(added)), found_vain


async def _count(parts: PartStore, deletes: list[Part], inserts: list[Part]) -> dict[int, int]:
    """How many entries of `deletes` are within the row ids of each of `inserts`."""
    hits = {part.id: 0 for part in inserts}
    for delete in deletes:
        low, high = delete.row_id_bounds
        near = [part for part in inserts if part.row_id_bounds[0] <= high and low <= part.row_id_bounds[1]]
        if not near:
            continue
        async for piece in parts.pieces(delete, [ROW_ID]):
            ids = np.sort(compaction.ids_of(piece))
            for part in near:
                first, last = part.row_id_bounds
                hits[part.id] += int(np.searchsorted(ids, last, "right") - np.searchsorted(ids, first, "left"))
    return hits


async def _fold_into(parts: PartStore, shard: ShardId, part: Part, deletes: list[Part], added: list[Part]) -> RowIds:
    """Rewrite `part` without its deleted rows. Returns the ids of those it had."""
    first, last = part.row_id_bounds
    gone: list[RowIds] = []
    for delete in deletes:
        low, high = delete.row_id_bounds
        if low <= last and first <= high:
            async for piece in parts.pieces(delete, [ROW_ID]):
                ids = compaction.ids_of(piece)
                gone.append(ids[(ids >= first) & (ids <= last)])
    deleted = np.unique(np.concatenate(gone)) if gone else np.empty(0, np.int64)
    output = _Output(parts, shard, part, added)
    folded: list[RowIds] = []
    async for piece in parts.pieces(part, [ROW_ID, *part.columns]):
        ids = compaction.ids_of(piece)
        hit = compaction.among(ids, deleted)
        folded.append(ids[hit])
        await output.write(piece.filter(pa.array(~hit)))
    await output.flush()
    return np.concatenate(folded) if folded else np.empty(0, np.int64)


async def drop_entries(parts: PartStore, shard: ShardId, part: Part, gone: RowIds, added: list[Part]) -> bool:
    """Rewrite the delete part `part` without its entries for the rows `gone`; False when it has none."""
    low, high = part.row_id_bounds
    if np.searchsorted(gone, high, "right") == np.searchsorted(gone, low, "left"):
        return False
    before = len(added)
    output = _Output(parts, shard, part, added)
    dropped = 0
    async for piece in parts.pieces(part, [ROW_ID, *part.columns]):
        hit = compaction.among(compaction.ids_of(piece), gone)
        dropped += int(hit.sum())
        await output.write(piece.filter(pa.array(~hit)))
    await output.flush()
    if not dropped:
        parts.discard(added[before:])
        del added[before:]
    return dropped > 0
