"""Removing uploads that were never committed, claims to files of others without a link, and rollups that nothing
refers to.

Uploads carry their process's name. Those of a process without a lease are removed (its lease is ended first, so it
cannot commit them any more); a process removes its own when it knows that their transaction is over. NOTE: the order:
list the files, then note one's own uploads, then read the txns shard, then the data shards. A file on its way through
these states is seen in at least one of them.
"""

from __future__ import annotations

import contextlib

from storage.durable.state import Abandon
from storage.errors import UnknownShard
from storage.ids import ShardId
from storage.shards.links import CLAIMS, claiming_link
from storage.shards.part_store import PartStore, parts_prefix
from storage.shards.shard import DataShard, shard_key
from storage.shards.shard_state import Fence, ShardDiff, state_files
from storage.stores.blob import Blob
from storage.stores.consensus import Consensus
from storage.transactions.shard_handles import ShardHandles
from storage.transactions.txns_cache import TxnsCache
from storage.transactions.txns_state import TxnsState

ORPHAN_LISTINGS = 2
"""Listings of the blob store after the last event that may have left orphans."""


class OrphanCollector:
    """The removal of orphans, as far as one process sees to it."""

    def __init__(
        self,
        *,
        blob: Blob,
        consensus: Consensus,
        cache: TxnsCache,
        handles: ShardHandles,
        parts: PartStore,
        process: str,
    ) -> None:
        self._blob = blob
        self._consensus = consensus
        self._cache = cache
        self._handles = handles
        self._parts = parts
        self._process = process
        self._listed: tuple[object, int] = (None, 0)
        """What had happened before the blob store was last listed for orphans, and how often it was since then."""

    async def collect_new(self) -> int:
        """`collect`, if something has happened since the last listings that may have left an orphan."""
        rollups = sum(handle.durable.oldest_rollup_seqno for handle in self._handles.all_opened())
        happened = (
            frozenset(self._cache.state.leases),
            self._parts.changes,
            rollups + self._cache.durable.oldest_rollup_seqno,
        )
        # NOTE: twice. What a process that has just died had sent may still have been under way.
        if self._listed == (happened, ORPHAN_LISTINGS):
            return 0
        listings = self._listed[1] if self._listed[0] == happened else 0
        removed = await self.collect()
        self._listed = (happened, listings + 1)
        return removed

    async def collect(self) -> int:
        """Remove uploads that can never be committed, claims without a link and rollups that nothing refers to."""
        claims = [entry.key async for entry in self._blob.list(CLAIMS)]
        before = set(self._parts.in_flight)
        listed = [entry.key async for entry in self._blob.list(parts_prefix())]
        in_flight = set(self._parts.in_flight)
        await self._cache.durable.refresh()
        state = self._cache.state
        alive = set(state.leases)
        by_shard: dict[ShardId, list[str]] = {}
        for key in listed:
            _, shard, name = key.split("/", 2)
            process = name.rpartition("-")[0]
            if not self._parts.is_protected(key, in_flight) and (process == self._process or process not in alive):
                by_shard.setdefault(ShardId(shard), []).append(key)
        removed = await self._collect_claims(claims, {*listed, *before, *in_flight}, alive)
        for shard, keys in by_shard.items():
            if set(keys) <= await self._referenced(shard, state):
                continue
            # NOTE: a process that was taken for dead and comes back may be about to swap one of these files in. Once
            # the shard is fenced it cannot; what it swapped in before, the second look finds.
            await self._fence(shard)
            needed = await self._referenced(shard, state)
            for key in keys:
                if key not in needed:
                    await self._blob.delete(key)
                    removed += 1
        return removed + await self._collect_rollups()

    async def _collect_claims(self, claims: list[str], known: set[str], alive: set[str]) -> int:
        """Remove those of `claims` whose link is not there: not among `known`, which were listed after them, and of no
        other process that may be about to store it."""
        removed = 0
        for key in claims:
            link = claiming_link(key) or ""
            process = link.rpartition("/")[2].rpartition("-")[0]
            if link not in known and (process == self._process or process not in alive):
                await self._blob.delete(key)
                removed += 1
        return removed

    async def _stored_shard(self, shard: ShardId) -> DataShard | None:
        """The handle of `shard` as it is now, None when there is no state of it.

        Also of one that was taken out of the txns shard: its data are kept.
        """
        state = self._cache.state
        if shard in state.registered or shard in state.forgotten or shard in state.pending:
            with contextlib.suppress(UnknownShard):
                handle = await self._handles.open(shard)
                await handle.refresh()
                return handle
        if await self._consensus.head(shard_key(shard)) is None:
            return None
        handle = self._handles.detached(shard)
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
        needed = {key for write in writes for part in write.parts for key in part.files}
        needed.update(key for record in state.prepared.values() for key in record.files())
        handle = await self._stored_shard(shard)
        if handle is not None:
            needed.update(state_files(handle.state))
            needed.update(handle.state.garbage)
        return needed

    async def _collect_rollups(self) -> int:
        durables = {self._cache.durable.key: self._cache.durable.oldest_rollup_seqno}
        durables.update((h.durable.key, h.durable.oldest_rollup_seqno) for h in self._handles.all_opened())
        removed = 0
        listed: dict[str, list[str]] = {}
        async for entry in self._blob.list("rollups/"):
            listed.setdefault(entry.key.removeprefix("rollups/").rpartition("/")[0], []).append(entry.key)
        for owner, keys in listed.items():
            if owner not in durables and len(keys) > 1:
                # Nobody may ever read or write this shard here: then nothing else makes its state known.
                handle = await self._stored_shard(ShardId(owner.removeprefix(shard_key(ShardId("")))))
                durables[owner] = 0 if handle is None else handle.durable.oldest_rollup_seqno
            for key in keys:
                if int(key.rpartition("/")[2].partition("-")[0]) < durables.get(owner, 0):
                    await self._blob.delete(key)
                    removed += 1
        return removed
