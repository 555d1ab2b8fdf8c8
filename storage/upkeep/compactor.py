"""Compacting a data shard: reads what `storage.upkeep.compaction` chose, writes what it made of it, swaps the two.

Any process may do it at any time; whoever comes second finds it done. It never conflicts with a writer, since row ids
stay as they are and parts are swapped only while all those read are still there. A crash leaves uploads that nothing
refers to, for `storage.upkeep.orphans`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

import msgspec
import numpy as np
import pyarrow as pa

from storage.durable.state import Abandon
from storage.errors import CorruptPart
from storage.ids import ShardId
from storage.layouts.layout import TableLayout
from storage.membership.leases import Leases
from storage.shards.history import Archives
from storage.shards.part_store import PartStore
from storage.shards.parts import ROW_ID, Part
from storage.shards.shard import DataShard, written_in
from storage.shards.shard_state import Compact, ShardDiff, ShardState
from storage.timestamps.csn import Csn
from storage.transactions.shard_handles import ShardHandles
from storage.transactions.txns_cache import TxnsCache
from storage.upkeep import compaction, large_compaction, rewriting
from storage.upkeep.retention import Retention
from storage.upkeep.rewriting import BeatenToIt, Rewritten, StillRead

MAX_ROUNDS = 32
"""Compactions of one shard in a row, so that one busy shard does not keep the others waiting."""


class Compactor:
    """The compaction that one process does for its environment. `layout_of` says how the files of a shard are to be
    laid out."""

    def __init__(
        self,
        *,
        cache: TxnsCache,
        handles: ShardHandles,
        parts: PartStore,
        archives: Archives,
        leases: Leases,
        retention: Retention,
        layout_of: Callable[[ShardId], TableLayout | None],
    ) -> None:
        self.layout_of = layout_of
        self._cache = cache
        self._handles = handles
        self._parts = parts
        self._archives = archives
        self._leases = leases
        self._retention = retention
        self._merged_in_vain: dict[ShardId, dict[int, int]] = {}
        self._folded_in_vain: dict[ShardId, dict[int, int]] = {}
        """By part that was rewritten for nothing, how many deletions had seemed to hit it."""
        self._undivided: dict[ShardId, tuple[TableLayout | None, set[int]]] = {}
        """The parts that could not be divided as a layout wants it."""
        self._rewritten: set[ShardId] = set()
        """The shards of which a group is being rewritten here: it would be for nothing if its parts were compacted."""
        self.swaps = 0
        """Compactions so far that put parts in the place of others."""
        self.parts_removed = 0
        self.bytes_written = 0
        """Of the parts that they wrote."""

    async def look(self, shard: ShardId) -> int:
        """Bring in what other processes have written to `shard`. Returns the number of its parts."""
        handle = await self._handles.open(shard)
        await handle.durable.refresh()
        return len(handle.state.parts)

    def is_due(self, shard: ShardId) -> bool:
        """A cheap look at whether `shard` may need compaction."""
        handle = self._handles.opened(shard)
        if handle is None or shard not in self._cache.state.registered or shard in self._rewritten:
            return False
        parts = handle.state.parts
        return len(parts) >= compaction.MERGE_FACTOR or self._is_worth_it(shard, list(parts.values()))

    def _is_worth_it(self, shard: ShardId, parts: Collection[Part]) -> bool:
        if len(parts) >= compaction.MERGE_FACTOR or any(part.kind == "delete" for part in parts):
            return True
        layout = self.layout_of(shard)
        return any(compaction.mixed_parts(parts, layout, self._undivided_of(shard, layout)))

    def _undivided_of(self, shard: ShardId, layout: TableLayout | None) -> set[int]:
        known = self._undivided.get(shard)
        if known is None or known[0] != layout:
            known = self._undivided[shard] = layout, set()
        return known[1]

    def is_waiting(self, shard: ShardId) -> bool:
        """Whether there are parts that will be worth compacting once nobody reads at a moment before them any more."""
        handle = self._handles.opened(shard)
        if handle is None or shard not in self._cache.state.registered:
            return False
        state = handle.state
        newer = [part for part in written_in(state, state.since, state.upper) if part.csn > state.since]
        return self._is_worth_it(shard, newer)

    async def compact(self, shard: ShardId) -> int:
        """Compact `shard` until nothing is due. Returns how many parts were swapped out."""
        handle = await self._handles.open(shard)
        # NOTE: a process that has just joined is in the txns shard, perhaps not yet in our copy of it.
        await self._cache.durable.refresh()
        await self._downgrade(handle)
        swapped = 0
        for _ in range(MAX_ROUNDS):
            gone = await self._compact_once(handle)
            if gone == 0:
                break
            swapped += gone
        if handle.durable.rollup_due():
            await handle.durable.roll_up()
        return swapped

    async def _downgrade(self, handle: DataShard) -> None:
        await self._retention.learn()
        since = Csn(min(self._leases.since_limit(), handle.state.upper - 1))
        keeps = self._retention.keeps(handle.shard)
        await handle.downgrade_since(since, min(since, self._retention.earliest(handle.shard)) if keeps else None)

    async def expire(self) -> None:
        """Let the history go that is past its retention, of every shard that this process has open."""
        for handle in self._handles.all_opened():
            history = handle.state.history
            if history and handle.shard in self._cache.state.registered:
                earliest = self._retention.earliest(handle.shard)
                if any(archive.until <= earliest for archive in history.values()):
                    await self._downgrade(handle)

    async def _compact_once(self, handle: DataShard) -> int:
        state = handle.state
        gone = compaction.wholly_deleted(state)
        if gone:
            return len(gone) if await self._swap(handle, state.epoch, gone, ()) else 0
        read = self._parts.read
        deleted: dict[int, compaction.RowIds] = {}
        small: dict[int, pa.Table] = {}
        for part in compaction.deletes_to_read(state):
            if part.inline is None:
                table = await read(part, [ROW_ID])
            else:
                # Read once: there are many of them.
                table = small[part.id] = await read(part, keep=False)
            deleted[part.id] = np.asarray(table.column(ROW_ID).combine_chunks())
        in_vain = self._merged_in_vain.setdefault(handle.shard, {})
        layout = self.layout_of(handle.shard)
        undivided = self._undivided_of(handle.shard, layout)
        plan = compaction.plan(state, deleted, in_vain, layout, undivided)
        if plan is None:
            return await self._fold_large(handle, state)
        inserts = [await read(part, [ROW_ID, *part.columns], keep=False) for part in plan.inserts]
        deletes = [small[part.id] if part.id in small else await read(part, keep=False) for part in plan.deletes]
        merged = await asyncio.to_thread(compaction.merge, plan, inserts, deletes, layout)
        if len(plan.inserts) == 1 and not merged.folded and not merged.is_divided:
            undivided.add(plan.inserts[0].id)
            ids = compaction.joined([deleted[part.id] for part in plan.deletes])
            in_vain[plan.inserts[0].id] = compaction.hits_of(plan.inserts[0], ids)
            return len(plan.inserts)
        added = await self._outputs(handle.shard, plan, merged, deletes, layout)
        changed = {part_id for part_id, _ in merged.left}
        removed = [part.id for part in plan.inserts]
        removed += [p.id for p in plan.deletes if p.id in changed or not plan.inserts]
        if not await self._swap(handle, state.epoch, tuple(removed), tuple(added)):
            self._parts.discard(added)
            return 0
        self._parts.committed(added)
        self._merged_in_vain.pop(handle.shard, None)
        return len(removed)

    async def rewrite(self, shard: ShardId, after: Csn, most_bytes: int, write: rewriting.Write) -> Rewritten | None:
        """Rewrite the next group of parts of `shard`, of some `most_bytes` together, as its layout wants them; None
        when there is none. Raises StillRead while somebody may read before `after`, BeatenToIt when another process has
        changed the group meanwhile, and what `write` raises; nothing has changed then."""
        handle = await self._handles.open(shard)
        await self._cache.durable.refresh()
        await handle.durable.refresh()
        await self._downgrade(handle)
        state, layout = handle.state, self.layout_of(shard)
        # NOTE: the since of a shard that nobody has written to lately stays behind.
        if self._leases.since_limit() < after or state.since < min(after, state.upper - 1):
            raise StillRead(f"{shard} is read from {min(self._leases.since_limit(), state.since)} on")
        group = await asyncio.to_thread(rewriting.next_group, state, layout, most_bytes)
        if group is None:
            return None
        added: list[Part] = []
        self._rewritten.add(shard)
        try:
            await write(group, added)
            gone = await rewriting.folded_rows(self._parts, group)
            csn, mark = max(part.csn for part in group.inserts), rewriting.mark_of(layout)
            version = state.schema().version
            added[:] = [msgspec.structs.replace(part, csn=csn, schema_version=version, laid_out=mark) for part in added]
            rows = sum(part.rows for part in added)
            if rows != group.rows - len(gone):
                raise CorruptPart(
                    f"{group.rows} rows of {shard}, {len(gone)} of them deleted, were rewritten as {rows}"
                )
            drop = large_compaction.drop_entries
            removed = [part.id for part in group.inserts]
            removed += [p.id for p in group.deletes if len(gone) and await drop(self._parts, shard, p, gone, added)]
            if not await self._swap(handle, state.epoch, tuple(removed), tuple(added)):
                raise BeatenToIt(f"parts of {shard} that were being rewritten have gone")
        except BaseException:
            self._parts.discard(added)
            raise
        finally:
            self._rewritten.discard(shard)
        self._parts.committed(added)
        return Rewritten(parts=len(group.inserts), bytes=group.bytes)

    async def not_laid_out(self, shard: ShardId) -> int:
        """The bytes of `shard` that `rewrite` is to rewrite, now or once nobody reads at a moment before them."""
        handle = await self._handles.open(shard)
        await handle.durable.refresh()
        state, layout = handle.state, self.layout_of(shard)
        found = await asyncio.to_thread(rewriting.not_laid_out, state, state.parts.values(), layout)
        return sum(part.bytes for part in found)

    async def _fold_large(self, handle: DataShard, state: ShardState) -> int:
        """Fold deletions into or from parts that are too large to be read whole. Returns how many were swapped out."""
        if not large_compaction.due(state):
            return 0
        parts = self._parts
        added: list[Part] = []
        try:
            in_vain = self._folded_in_vain.setdefault(handle.shard, {})
            folding, found_vain = await large_compaction.fold(parts, handle.shard, state, in_vain, added)
        except BaseException:
            parts.discard(added)
            raise
        in_vain.update(found_vain)
        if not folding.removed or not await self._swap(handle, state.epoch, folding.removed, folding.added):
            parts.discard(added)
            return 0
        parts.committed(added)
        return len(folding.removed)

    async def _outputs(
        self,
        shard: ShardId,
        plan: compaction.CompactionPlan,
        merged: compaction.Merged,
        deletes: list[pa.Table],
        layout: TableLayout | None,
    ) -> list[Part]:
        encode = self._parts.encode
        added: list[Part] = []
        replace = msgspec.structs.replace
        # What was laid out together is near together: merged it is laid out still.
        mark = plan.inserts[0].laid_out if plan.inserts else ""
        for piece in merged.pieces:
            part = await encode("insert", shard, piece.rows, () if layout is None else layout.partition)
            version = max(part.schema_version for part in plan.inserts)
            hidden = piece.first_row_id is None
            first = -1 if piece.first_row_id is None else piece.first_row_id
            added.append(
                replace(
                    part,
                    csn=merged.csn,
                    schema_version=version,
                    has_row_id_column=hidden,
                    first_row_id=first,
                    fingerprint=plan.inserts[0].fingerprint,
                    laid_out=mark if all(part.laid_out == mark for part in plan.inserts) else "",
                )
            )
        by_id = {part.id: part for part in plan.deletes}
        for part_id, table in merged.left:
            if table.num_rows:
                old = by_id[part_id]
                part = await encode("delete", shard, table)
                added.append(replace(part, csn=old.csn, schema_version=old.schema_version))
        if not plan.inserts:
            part = await encode("delete", shard, pa.concat_tables(deletes))
            version = max(part.schema_version for part in plan.deletes)
            added.append(replace(part, csn=merged.delete_csn, schema_version=version))
        return added

    async def _swap(self, handle: DataShard, epoch: int, removed: tuple[int, ...], added: tuple[Part, ...]) -> bool:
        state, archive = handle.state, None
        if state.earliest < state.since:
            taken_out = [state.parts[part_id] for part_id in removed if part_id in state.parts]
            if len(taken_out) < len(removed):
                return False
            archive = await self._archives.write(handle.shard, taken_out)

        def propose(state: ShardState) -> ShardDiff | Abandon[None]:
            # NOTE: in another epoch the others may have taken this process for dead, and its new files for orphans.
            if state.dropped or state.epoch != epoch or any(part_id not in state.parts for part_id in removed):
                return Abandon(None)
            if archive is None and state.earliest < state.since:
                return Abandon(None)  # Another process has begun to keep history.
            return ShardDiff((Compact(removed=removed, added=added, archive=archive),))

        try:
            swapped = await handle.update(propose)
            if swapped:
                self.swaps += 1
                self.parts_removed += len(removed)
                self.bytes_written += sum(part.bytes for part in added)
            return swapped
        finally:
            if archive is not None:
                self._parts.release([archive.key])
