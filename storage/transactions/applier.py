"""Copying what is committed into the data shards: soon after the commit, and for many commits together.

Readers do not need it, as they work out the effect of a committed write by themselves; it keeps the txns shard small
and makes a restart fast. Any process may do it at any time, for the commits of all.
"""

from __future__ import annotations

import asyncio

from storage.ids import ShardId
from storage.transactions.shard_handles import ShardHandles
from storage.transactions.txns_shard import TxnsShard


class Applier:
    """Applies for one process, and remembers what it touched."""

    def __init__(self, txns_shard: TxnsShard, handles: ShardHandles) -> None:
        self._txns_shard = txns_shard
        self._cache = txns_shard.cache
        self._handles = handles
        self.wanted = asyncio.Event()
        """Set while something may wait to be applied; whoever applies it in the background clears it first."""
        self.touched: set[ShardId] = set()
        """Shards that were written to since maintenance last looked at them."""

    def apply_soon(self) -> None:
        """Let the background copy what is committed into its data shards."""
        self.wanted.set()

    async def apply_all(self) -> None:
        """Copy all committed writes into their data shards, and write the rollups that have become due."""
        await self._txns_shard.make_explicit()
        touched = sorted(self._cache.state.pending)
        self.touched.update(touched)
        await self._txns_shard.apply()
        if self._cache.durable.rollup_due():
            await self._cache.durable.roll_up()
        for shard in touched:
            handle = self._handles.opened(shard)
            if handle is not None and handle.durable.rollup_due():
                await handle.durable.roll_up()
