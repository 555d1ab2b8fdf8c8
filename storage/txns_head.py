"""What the CSN oracle that rides on the txns shard sees of it: how far it has come."""

from __future__ import annotations

from storage.ids import CATALOG_SHARD
from storage.oracle_shared import TxnsFrontier
from storage.txns_cache import TxnsCache


class CacheHead:
    """`TxnsHead` over this process's copy of the txns shard."""

    def __init__(self, cache: TxnsCache) -> None:
        self._cache = cache

    def known(self) -> TxnsFrontier:
        """The frontier of the copy."""
        registration = self._cache.state.registered[CATALOG_SHARD]
        return TxnsFrontier(upper=self._cache.upper, catalog=registration.last_write)

    async def refresh(self) -> TxnsFrontier:
        """The frontier after bringing the copy up to what is durable now: one read of the consensus store."""
        await self._cache.durable.refresh()
        return self.known()
