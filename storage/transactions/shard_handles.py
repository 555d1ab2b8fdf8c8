"""The data shards that a process has open: one handle each, shared by all who read, hold, write or compact them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from storage.errors import unknown_shard
from storage.ids import ShardId
from storage.shards.shard import DataShard
from storage.transactions.txns_cache import TxnsCache


class ShardHandles:
    """See the module's contract. `make` makes a handle without loading anything."""

    def __init__(self, cache: TxnsCache, make: Callable[[ShardId], DataShard]) -> None:
        self._cache = cache
        self._make = make
        self._open: dict[ShardId, DataShard] = {}
        self._loading: dict[ShardId, asyncio.Lock] = {}

    async def open(self, shard: ShardId) -> DataShard:
        """The handle of `shard`, loaded. Raises UnknownShard when it is neither registered nor dropped."""
        handle = self._open.get(shard)
        if handle is not None:
            return handle
        async with self._loading.setdefault(shard, asyncio.Lock()):
            handle = self._open.get(shard)
            if handle is None:
                state = self._cache.state
                if shard not in state.registered and shard not in state.forgotten and shard not in state.pending:
                    raise unknown_shard(shard)
                handle = self._make(shard)
                await handle.refresh()
                self._open[shard] = handle
        self._loading.pop(shard, None)
        return handle

    def opened(self, shard: ShardId) -> DataShard | None:
        """The handle of `shard` if it is open."""
        return self._open.get(shard)

    def all_opened(self) -> tuple[DataShard, ...]:
        """Every handle that is open."""
        return tuple(self._open.values())

    def detached(self, shard: ShardId) -> DataShard:
        """A handle of its own for `shard`, registered or not; not loaded, and not shared with anybody."""
        return self._make(shard)

    def created(self, shard: ShardId) -> None:
        """Note that this process has just committed the creation of `shard`: there is nothing to load."""
        self._open.setdefault(shard, self._make(shard))

    def close(self, shard: ShardId) -> None:
        """Forget the handle of `shard`."""
        self._open.pop(shard, None)
