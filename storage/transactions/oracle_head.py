"""What the CSN oracle that rides on the txns shard sees of it: how far it has come."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from storage.ids import CATALOG_SHARD
from storage.timestamps.shared import TxnsFrontier
from storage.transactions.txns_cache import TxnsCache


class CacheHead:
    """`TxnsHead` over this process's copy of the txns shard."""

    def __init__(self, cache: TxnsCache) -> None:
        self._cache = cache

    def known(self) -> TxnsFrontier:
        """The frontier of the copy."""
        return TxnsFrontier(upper=self._cache.upper, catalog=self._cache.last_write(CATALOG_SHARD))

    async def refresh(self) -> TxnsFrontier:
        """The frontier after bringing the copy up to what is durable now: one read of the consensus store."""
        await self._cache.durable.refresh()
        return self.known()


class FollowingHead(CacheHead):
    """The head of the txns shard, for an oracle whose readers find the catalog as new as their timestamp."""

    def __init__(self, cache: TxnsCache, catch_up: Callable[[], Awaitable[object]]) -> None:
        super().__init__(cache)
        self._catch_up = catch_up

    async def refresh(self) -> TxnsFrontier:
        """See `CacheHead.refresh`; the catalog of this process has followed when it returns."""
        frontier = await super().refresh()
        await self._catch_up()
        return frontier
