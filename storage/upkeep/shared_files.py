"""Files that more than one shard refers to: those of a table and of its copies.

A copy of a table is a shard of its own whose first parts are files of the shard it was made from. A file belongs to
the shard that its key names, and that one alone removes it. It knows who else may refer to its files
(`ShardState.shared`): whoever makes a copy notes that in the owners' states first, and only then commits parts that
name the files. Before a shard removes a file it looks into those others.

SUBTLE: what a copy is made from is held by its maker until it has committed, so the files are there until then. A copy
of a copy notes itself with the owners of the files, and the shard between still refers to those, or has them among
its garbage, for as long as it is held. So there is no moment at which nobody would say that a file is needed.

A copy that never came to be is known by its maker's end: a process without a lease commits nothing any more. While it
lives its own collector knows (`making`); the others leave the files alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from weakref import WeakValueDictionary

from storage.durable.state import Abandon
from storage.errors import UnknownShard
from storage.ids import ShardId
from storage.shards.part_store import owner_of
from storage.shards.parts import Part
from storage.shards.shard import DataShard
from storage.shards.shard_state import ShardDiff, ShardState, Share, state_files
from storage.shards.writes import ShardWrites, Write
from storage.transactions.shard_handles import ShardHandles
from storage.transactions.txn import Txn
from storage.transactions.txns_cache import TxnsCache
from storage.transactions.txns_state import TxnsState


class SharedFiles:
    """What one process knows and notes of them."""

    def __init__(self, *, cache: TxnsCache, handles: ShardHandles, process: str) -> None:
        self._cache = cache
        self._handles = handles
        self._process = process
        self._making: WeakValueDictionary[ShardId, Txn] = WeakValueDictionary()
        """The copies that transactions of this process are about to commit."""

    async def share(self, parts: Iterable[Part], to: ShardId, txn: Txn) -> None:
        """Note that `to`, which `txn` creates, refers to the files of `parts`. The caller holds what it read them
        from until `txn` has ended."""
        self._making[to] = txn
        for owner in sorted({owner_of(key) for part in parts for key in part.files}):
            handle = await self._handles.open(owner)

            def propose(state: ShardState) -> ShardDiff | Abandon[None]:
                return Abandon(None) if to in state.shared else ShardDiff((Share(to=to, process=self._process),))

            await handle.update(propose)

    async def unshared(self, handle: DataShard, keys: Iterable[str]) -> list[str]:
        """Those of the files `keys`, which the shard itself needs no more, that no copy of it refers to; nor a deletion
        of a whole part that has been committed meanwhile, or may be (`storage.shards.whole_deletions`)."""
        found = sorted(keys)
        if not found:
            return []
        # NOTE: in this order. A copy that is not being made any more either is in the txns shard or will never be;
        # and what has left the txns shard is in the copy's own state.
        await handle.refresh()
        making = set(self._making)
        await self._cache.durable.refresh()
        over: list[ShardId] = []
        needed = {key for write in _uncommitted(handle.shard, self._cache.state) for key in _files_of(write)}
        # What has left the txns shard since the first look is in the state.
        await handle.refresh()
        found = [key for key in found if key in handle.state.garbage]
        for to, process in sorted(handle.state.shared.items()):
            txns = self._cache.state
            files = await self._files(to, txns)
            if files is None:
                if to in making or (process != self._process and process in txns.leases):
                    return [key for key in found if owner_of(key) != handle.shard]
                over.append(to)
            elif not any(owner_of(key) == handle.shard for key in files):
                over.append(to)
            else:
                needed |= files
        if over:
            await handle.update(
                lambda state: ShardDiff(tuple([Share(to=to) for to in over])) if state.shared else Abandon(None)
            )
        return [key for key in found if key not in needed]

    async def _files(self, shard: ShardId, txns: TxnsState) -> set[str] | None:
        """Every file that `shard` refers to; None when nothing was committed to it, or it has been removed."""
        writes = _uncommitted(shard, txns)
        if not writes and shard not in txns.registered and shard not in txns.forgotten:
            return None
        needed = {key for write in writes for key in _files_of(write)}
        try:
            handle = await self._handles.open(shard)
        except UnknownShard:
            return needed  # It is staged or prepared, or somebody has removed it just now.
        state = await handle.refresh()
        return {*needed, *state_files(state), *state.garbage}


def _uncommitted(shard: ShardId, txns: TxnsState) -> list[Write | ShardWrites]:
    """What is written to `shard` and not in its own state: committed, or about to be."""
    return [
        *txns.pending.get(shard, ()),
        *(write for record in txns.staged.values() for write in record.writes if write.shard == shard),
        *(write for record in txns.prepared.values() for write in record.writes if write.shard == shard),
    ]


def _files_of(write: Write | ShardWrites) -> list[str]:
    """The keys of all files of what is written."""
    return [key for part in write.parts for key in part.files]
