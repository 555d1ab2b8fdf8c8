"""Removing files and dropped shards that no reader can reach any more.

A part that compaction replaced may still be read by whoever resolved a snapshot before. It is deleted in two steps.
First the txns shard is told that readers of the shard need its state as of the compaction (`RequireTransitions`), at a
txns upper U: everyone who reads at U or above knows. Then, once no live process reads below U, nobody can be at the old
part or ever get there, and it goes. Files that copies of the shard refer to stay (`storage.upkeep.shared_files`).
"""

from __future__ import annotations

import contextlib

from storage.durable.state import Abandon
from storage.errors import Determinate, UnknownShard
from storage.ids import ShardId
from storage.membership.leases import Leases
from storage.shards.links import is_link, target_key
from storage.shards.part_store import owner_of
from storage.shards.shard import DataShard
from storage.shards.shard_state import Collected, Drop, ShardDiff, ShardState
from storage.stores.blob import Blob
from storage.stores.consensus import Consensus, SeqNo
from storage.timestamps.csn import Csn
from storage.timestamps.oracle import Oracle
from storage.transactions.shard_handles import ShardHandles
from storage.transactions.txns_shard import TxnsShard
from storage.transactions.txns_state import RequireTransitions
from storage.upkeep.retention import Retention
from storage.upkeep.shared_files import SharedFiles


class GarbageCollector:
    """The removal of replaced files and dropped shards, as far as one process sees it done."""

    def __init__(
        self,
        *,
        blob: Blob,
        consensus: Consensus,
        txns_shard: TxnsShard,
        handles: ShardHandles,
        leases: Leases,
        sharing: SharedFiles,
        retention: Retention,
        oracle: Oracle,
    ) -> None:
        self._blob = blob
        self._consensus = consensus
        self._txns_shard = txns_shard
        self._cache = txns_shard.cache
        self._handles = handles
        self._leases = leases
        self._sharing = sharing
        self._retention = retention
        self._oracle = oracle

    async def collect(self) -> int:
        """Remove the files and shards that nobody needs any more. Returns how many files were removed."""
        limit = self._leases.since_limit()
        await self._retention.learn()
        waiting = [handle for handle in self._handles.all_opened() if handle.state.garbage]
        if not waiting and not any(self._retention.earliest(s) > c for s, c in self._cache.state.forgotten.items()):
            return 0  # An idle environment costs nothing here.
        await self._cache.durable.refresh()
        removed = 0
        state = self._cache.state
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
                garbage = handle.state.garbage.values()
                keys = sorted(item.key for item in garbage if item.seqno <= registration.transitions)
                removed += await self._remove_garbage(handle, await self._sharing.unshared(handle, keys))
            if any(item.seqno > registration.transitions for item in handle.state.garbage.values()):
                requires.append(RequireTransitions(shard, handle.state.transitions))
        if requires:
            await self._txns_shard.tidy(requires=tuple(requires))
        removed += await self._remove_dropped(limit)
        if self._cache.upper - 1 <= self._newest_requirement():
            # Perhaps nothing is committed any more that would carry the readers past the requirement.
            await self._txns_shard.advance_to_now(self._oracle)
            self._leases.read_lower()
        return removed

    def _newest_requirement(self) -> Csn:
        state = self._cache.state
        marks = [item.required_at for item in state.registered.values() if item.transitions]
        return max([*marks, *state.forgotten.values()], default=Csn(0))

    async def _remove_garbage(self, handle: DataShard, keys: list[str]) -> int:
        for key in keys:
            # That of another shard is for that one to remove, which asks whether this one refers to it.
            if owner_of(key) == handle.shard:
                if is_link(key):
                    await self._blob.delete(target_key(key))
                await self._blob.delete(key)

        def propose(state: ShardState) -> ShardDiff | Abandon[None]:
            left = tuple(key for key in keys if key in state.garbage)
            return ShardDiff((Collected(keys=left),)) if left else Abandon(None)

        await handle.update(propose)
        return len(keys)

    async def _drop(self, handle: DataShard) -> bool:
        """Drop the shard; False when somebody holds it meanwhile."""
        expired = handle.state.holds

        def propose(state: ShardState) -> ShardDiff | Abandon[None]:
            return Abandon(None) if state.dropped or state.holds != expired else ShardDiff((Drop(),))

        await handle.update(propose)
        return handle.state.dropped

    async def _remove_dropped(self, limit: Csn) -> int:
        removed = 0
        finished: list[ShardId] = []
        for shard, csn in sorted(self._cache.state.forgotten.items()):
            if min(limit, self._retention.earliest(shard)) <= csn:
                continue
            if shard in self._cache.state.pending or self._cache.first_staged(shard) is not None:
                continue
            try:
                handle = await self._handles.open(shard)
            except UnknownShard:
                continue  # Another process was faster.
            await handle.refresh()
            if handle.live_holds():
                continue
            if not handle.state.dropped and not await self._drop(handle):
                continue
            removed += await self._remove_garbage(handle, await self._sharing.unshared(handle, handle.state.garbage))
            if handle.state.garbage:
                continue  # Copies refer to it.
            await handle.durable.roll_up()
            with contextlib.suppress(Determinate):
                await self._consensus.truncate(handle.durable.key, SeqNo(handle.durable.seqno))
            async for entry in self._blob.list(f"rollups/{handle.durable.key}/"):
                if entry.key != handle.durable.rollup_key:
                    await self._blob.delete(entry.key)
            finished.append(shard)
        if finished:
            await self._txns_shard.tidy(removed=tuple(finished))
            for shard in finished:
                self._handles.close(shard)
        return removed
