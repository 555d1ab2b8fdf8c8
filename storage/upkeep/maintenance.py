"""What keeps an environment small: since, compaction, rollups, and the removal of files nobody needs.

Any process may do any of this at any time; whoever comes second finds it done. A crash loses work, never data.

**since**. A process reads at its lease's `read_lower` and above. A shard's since may follow the lowest of all
live leases, and stops at the shard's own holds.

**Files**. A part that compaction replaced may still be read by whoever resolved a snapshot before. It is deleted
in two steps. First the txns shard is told that readers of the shard need its state as of the compaction
(`RequireTransitions`), at a txns upper U: everyone who reads at U or above knows. Then, once no live process reads
below U, nobody can be at the old part or ever get there, and it goes.

**Uploads that were never committed** carry their process's name. Those of a process without a lease are removed
(its lease is ended first, so it cannot commit them any more); a process removes its own when it knows that their
transaction is over. NOTE: the order: list the files, then note one's own uploads, then read the txns shard, then
the data shards. A file on its way through these states is seen in at least one of them.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa
import structlog

from storage.durable.state import Abandon
from storage.errors import Determinate, Indeterminate, UnknownShard
from storage.ids import ShardId
from storage.membership.leases import LEASE_MS
from storage.shards.part_store import parts_prefix
from storage.shards.parts import ROW_ID, Part
from storage.shards.shard import DataShard, shard_key
from storage.shards.shard_state import Collected, Compact, Drop, Fence, ShardDiff, ShardState
from storage.stores.consensus import SeqNo
from storage.timestamps.csn import Csn
from storage.transactions.txns_state import Lease, RequireTransitions, TxnsState
from storage.upkeep import compaction, large_compaction

if TYPE_CHECKING:
    from storage.environment.environment import Environment

log = structlog.get_logger(__name__)

MAX_ROUNDS = 32
"""Compactions of one shard in a row, so that one busy shard does not keep the others waiting."""

ORPHAN_LISTINGS = 2
"""Listings of the blob store after the last event that may have left orphans."""


class Maintenance:
    """The maintenance that one process does for its environment."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._fruitless: dict[ShardId, dict[int, int]] = {}
        self._barren: dict[ShardId, dict[int, int]] = {}
        """Parts rewritten for nothing, and how many deletions seemed to hit them: of compactions, of foldings."""
        self._watched: dict[str, tuple[Lease, float]] = {}
        self._listed: tuple[object, int] = (None, 0)
        """What had happened before the blob store was last listed for orphans, and how often it was since then."""

    def observe_leases(self) -> frozenset[str]:
        """Note which leases have moved. Returns the processes that have not renewed theirs for `LEASE_MS`."""
        now = self._env.clock.monotonic()
        leases = self._env.cache.state.leases
        before = self._watched
        self._watched = {}
        dead = set()
        for process, lease in leases.items():
            seen = before.get(process)
            since = seen[1] if seen is not None and seen[0] == lease else now
            self._watched[process] = (lease, since)
            if process != self._env.process and ((now - since) * 1000 > LEASE_MS or self._env.is_dead(process)):
                dead.add(process)
        return frozenset(dead)

    async def bury_dead(self) -> frozenset[str]:
        """End the leases of processes that stopped renewing them. Returns the processes."""
        dead = self.observe_leases()
        if dead:
            # Newer beats may be durable already.
            await self._env.cache.durable.refresh()
            dead = self.observe_leases() & dead
        if dead:
            log.info("ending the leases of dead processes", processes=sorted(dead))
            await self._env.txns.tidy(expired=dead)
            self._env.apply_soon()
        return dead

    def since_limit(self) -> Csn:
        """The lowest CSN that any live process may read at, as far as this process knows."""
        leases = self._env.cache.state.leases
        others = [lease.read_lower for process, lease in leases.items() if process != self._env.process]
        return min([self._env.leases.read_lower(), *others])

    def compaction_due(self, shard: ShardId) -> bool:
        """A cheap look at whether `shard` may need compaction."""
        handle = self._env.reader.known_shard(shard)
        if handle is None or shard not in self._env.cache.state.registered:
            return False
        return len(handle.state.parts) >= compaction.MERGE_FACTOR or any(
            part.kind == "delete" for part in handle.state.parts.values()
        )

    async def compact(self, shard: ShardId) -> int:
        """Compact `shard` until nothing is due. Returns how many parts were swapped out."""
        handle = await self._env.reader.open_shard(shard)
        # NOTE: a process that has just joined is in the txns shard, perhaps not yet in our copy of it.
        await self._env.cache.durable.refresh()
        await handle.downgrade_since(Csn(min(self.since_limit(), handle.state.upper - 1)))
        swapped = 0
        for _ in range(MAX_ROUNDS):
            gone = await self._compact_once(handle)
            if gone == 0:
                break
            swapped += gone
        if handle.durable.rollup_due():
            await handle.durable.roll_up()
        return swapped

    async def _compact_once(self, handle: DataShard) -> int:
        state = handle.state
        read = self._env.parts.read
        deleted: dict[int, compaction.RowIds] = {}
        if compaction.deletions_due(state):
            entries = size = 0
            for part in compaction.eligible(state, "delete"):
                if entries + part.rows > compaction.MAX_DELETED_ROWS or size + part.bytes > compaction.MAX_INPUT_BYTES:
                    continue
                entries, size = entries + part.rows, size + part.bytes
                table = await read(part, [ROW_ID])
                deleted[part.id] = np.asarray(table.column(0).combine_chunks())
        fruitless = self._fruitless.setdefault(handle.shard, {})
        plan = compaction.plan(state, deleted, fruitless)
        if plan is None:
            return await self._fold_large(handle, state)
        inserts = [await read(part, [ROW_ID, *part.columns], keep=False) for part in plan.inserts]
        deletes = [await read(part, keep=False) for part in plan.deletes]
        merged = await asyncio.to_thread(compaction.merge, plan, inserts, deletes)
        if len(plan.inserts) == 1 and not merged.folded:
            ids = compaction.joined([deleted[part.id] for part in plan.deletes])
            fruitless[plan.inserts[0].id] = compaction.hits_of(plan.inserts[0], ids)
            return len(plan.inserts)
        added = await self._outputs(handle.shard, plan, merged, deletes)
        changed = {part_id for part_id, _ in merged.left}
        removed = [part.id for part in plan.inserts]
        removed += [p.id for p in plan.deletes if p.id in changed or not plan.inserts]
        if not await self._swap(handle, state.epoch, tuple(removed), tuple(added)):
            self._env.parts.discard(added)
            return 0
        self._env.parts.committed(added)
        self._fruitless.pop(handle.shard, None)
        return len(removed)

    async def _fold_large(self, handle: DataShard, state: ShardState) -> int:
        """Fold deletions into or from parts that are too large to be read whole. Returns how many were swapped out."""
        if not large_compaction.due(state):
            return 0
        parts = self._env.parts
        added: list[Part] = []
        try:
            barren = self._barren.setdefault(handle.shard, {})
            folding, found_barren = await large_compaction.fold(parts, handle.shard, state, barren, added)
        except BaseException:
            parts.discard(added)
            raise
        barren.update(found_barren)
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
    ) -> list[Part]:
        encode = self._env.parts.encode
        added: list[Part] = []
        replace = msgspec.structs.replace
        if merged.rows is not None:
            part = await encode("insert", shard, merged.rows)
            version = max(part.schema_version for part in plan.inserts)
            hidden = merged.first_row_id is None
            first = -1 if merged.first_row_id is None else merged.first_row_id
            added.append(
                replace(
                    part,
                    csn=merged.csn,
                    schema_version=version,
                    has_row_id_column=hidden,
                    first_row_id=first,
                    fingerprint=plan.inserts[0].fingerprint,
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
        def propose(state: ShardState) -> ShardDiff | Abandon[None]:
            # NOTE: in another epoch the others may have taken this process for dead, and its new files for orphans.
            if state.dropped or state.epoch != epoch or any(part_id not in state.parts for part_id in removed):
                return Abandon(None)
            return ShardDiff((Compact(removed=removed, added=added),))

        return await handle.update(propose)

    async def collect(self) -> int:
        """Remove the files and shards that nobody needs any more. Returns how many files were removed."""
        env = self._env
        limit = self.since_limit()
        waiting = [handle for handle in env.reader.known_shards() if handle.state.garbage]
        if not waiting and not env.cache.state.forgotten:
            return 0  # An idle environment costs nothing here.
        await env.cache.durable.refresh()
        removed = 0
        state = env.cache.state
        requires: list[RequireTransitions] = []
        for handle in waiting:
            shard = handle.shard
            registration = state.registered.get(shard)
            if registration is None:
                continue
            # NOTE: a hold in the shard protects what its reader resolved, like a lease.
            if handle.state.holds:
                await handle.refresh()  # Ours may have been seen last before they were renewed.
            held = min([limit, *(hold.at for hold in handle.live_holds().values())])
            if registration.transitions and held >= registration.required_at:
                keys = [item.key for item in handle.state.garbage.values() if item.seqno <= registration.transitions]
                removed += await self._remove_garbage(handle, keys)
            if any(item.seqno > registration.transitions for item in handle.state.garbage.values()):
                requires.append(RequireTransitions(shard, handle.state.transitions))
        if requires:
            await env.txns.tidy(requires=tuple(requires))
        removed += await self._remove_dropped(limit)
        if env.cache.upper - 1 <= self._newest_requirement():
            # Perhaps nothing is committed any more that would carry the readers past the requirement.
            await env.advance_to_now()
            env.leases.read_lower()
        return removed

    def _newest_requirement(self) -> Csn:
        state = self._env.cache.state
        marks = [item.required_at for item in state.registered.values() if item.transitions]
        return max([*marks, *state.forgotten.values()], default=Csn(0))

    async def _remove_garbage(self, handle: DataShard, keys: list[str]) -> int:
        for key in keys:
            await self._env.blob.delete(key)

        def propose(state: ShardState) -> ShardDiff | Abandon[None]:
            left = tuple(key for key in keys if key in state.garbage)
            return ShardDiff((Collected(keys=left),)) if left else Abandon(None)

        await handle.update(propose)
        return len(keys)

    async def _remove_dropped(self, limit: Csn) -> int:
        env = self._env
        removed = 0
        finished: list[ShardId] = []
        for shard, csn in list(env.cache.state.forgotten.items()):
            if limit <= csn or shard in env.cache.state.pending or env.cache.first_staged(shard) is not None:
                continue
            try:
                handle = await env.reader.open_shard(shard)
            except UnknownShard:
                continue  # Another process was faster.
            await handle.refresh()
            if handle.live_holds():
                continue
            if not handle.state.dropped:
                await handle.update(lambda s: Abandon(None) if s.dropped else ShardDiff((Drop(),)))
            removed += await self._remove_garbage(handle, list(handle.state.garbage))
            await handle.durable.roll_up()
            with contextlib.suppress(Determinate):
                await env.consensus.truncate(handle.durable.key, SeqNo(handle.durable.seqno))
            finished.append(shard)
        if finished:
            await env.txns.tidy(removed=tuple(finished))
            for shard in finished:
                env.reader.close_shard(shard)
        return removed

    async def collect_new_orphans(self) -> int:
        """`collect_orphans`, unless nothing has happened that leaves any since it found what there was."""
        env = self._env
        rollups = sum(handle.durable.oldest_rollup_seqno for handle in env.reader.known_shards())
        happened = (
            frozenset(env.cache.state.leases),
            env.parts.changes,
            rollups + env.cache.durable.oldest_rollup_seqno,
        )
        # NOTE: twice. What a process that has just died had sent may still have been under way.
        if self._listed == (happened, ORPHAN_LISTINGS):
            return 0
        listings = self._listed[1] if self._listed[0] == happened else 0
        removed = await self.collect_orphans()
        self._listed = (happened, listings + 1)
        return removed

    async def collect_orphans(self) -> int:
        """Remove uploads that can never be committed and rollups that nothing refers to."""
        env = self._env
        listed = [entry.key async for entry in env.blob.list(parts_prefix())]
        in_flight = set(env.parts.in_flight)
        await env.cache.durable.refresh()
        state = env.cache.state
        alive = set(state.leases)
        by_shard: dict[ShardId, list[str]] = {}
        for key in listed:
            _, shard, name = key.split("/", 2)
            process = name.rpartition("-")[0]
            if key not in in_flight and (process == env.process or process not in alive):
                by_shard.setdefault(ShardId(shard), []).append(key)
        removed = 0
        for shard, keys in by_shard.items():
            if set(keys) <= await self._referenced(shard, state):
                continue
            # NOTE: a process that was taken for dead and comes back may be about to swap one of these files in. Once
            # the shard is fenced it cannot; what it swapped in before, the second look finds.
            await self._fence(shard)
            needed = await self._referenced(shard, state)
            for key in keys:
                if key not in needed:
                    await env.blob.delete(key)
                    removed += 1
        return removed + await self._collect_rollups()

    async def _stored_shard(self, shard: ShardId) -> DataShard | None:
        """The handle of `shard` as it is now, None when there is no state of it.

        Also of one that was taken out of the txns shard: its data are kept.
        """
        env = self._env
        state = env.cache.state
        if shard in state.registered or shard in state.forgotten or shard in state.pending:
            with contextlib.suppress(UnknownShard):
                handle = await env.reader.open_shard(shard)
                await handle.refresh()
                return handle
        if await env.consensus.head(shard_key(shard)) is None:
            return None
        handle = env.detached_shard(shard)
        await handle.refresh()
        return handle

    async def _fence(self, shard: ShardId) -> None:
        handle = await self._stored_shard(shard)
        if handle is not None:
            await handle.update(lambda s: Abandon(None) if s.dropped else ShardDiff((Fence(),)))

    async def _referenced(self, shard: ShardId, state: TxnsState) -> set[str]:
        """Every file that durable state may still lead a reader to."""
        # Files of staged transactions too, and the tombstones among them, which carry the verdict.
        writes = [*state.pending.get(shard, ()), *(w for record in state.staged.values() for w in record.writes)]
        needed = {part.key for write in writes for part in write.parts if part.key is not None}
        handle = await self._stored_shard(shard)
        if handle is not None:
            needed.update(part.key for part in handle.state.parts.values() if part.key is not None)
            needed.update(handle.state.garbage)
        return needed

    async def _collect_rollups(self) -> int:
        env = self._env
        durables = {env.cache.durable.key: env.cache.durable.oldest_rollup_seqno}
        durables.update((h.durable.key, h.durable.oldest_rollup_seqno) for h in env.reader.known_shards())
        removed = 0
        listed = [entry.key async for entry in env.blob.list("rollups/")]
        for key in listed:
            owner, _, name = key.removeprefix("rollups/").rpartition("/")
            if int(name.partition("-")[0]) < durables.get(owner, 0):
                await env.blob.delete(key)
                removed += 1
        return removed

    async def run(self, touched: set[ShardId]) -> None:
        """One round: compact what was written to, then remove what has become garbage."""
        for shard in list(touched):
            touched.discard(shard)
            if self.compaction_due(shard):
                work = f"compaction of {shard}"
                try:
                    await self.compact(shard)
                except UnknownShard:
                    self._env.troubles.succeeded(work)  # Dropped meanwhile.
                except (Determinate, Indeterminate) as error:
                    self._env.troubles.failed(work, error)
                    touched.add(shard)
                else:
                    self._env.troubles.succeeded(work)
        await self.bury_dead()
        await self._env.staging.resolve_overdue()
        await self.collect()
