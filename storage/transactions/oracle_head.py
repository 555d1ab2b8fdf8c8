"""What the CSN oracle that rides on the txns shard sees of it: how far it has come."""

from __future__ import annotations

from collections.abc import Callable

from storage.catalog.store import CatalogStore
from storage.ids import CATALOG_SHARD
from storage.timestamps.shared import TxnsFrontier
from storage.transactions.txns_cache import TxnsCache


class CacheHead:
    """`TxnsHead` over this process's copy of the txns shard."""

    @property
    def is_told(self) -> bool:
        """See `TxnsHead.is_told`: no."""
        return False

    @property
    def is_current(self) -> bool:
        """See `TxnsHead.is_current`: that takes a question."""
        return False

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
    """The head of the txns shard, for an oracle whose readers find the catalog as new as their timestamp.

    `newest` is the number of the newest entry that any process has seen that may commit; None while that is not known
    without asking the store.
    """

    def __init__(
        self,
        cache: TxnsCache,
        catalog: CatalogStore,
        newest: Callable[[], int | None] = lambda: None,
    ) -> None:
        super().__init__(cache)
        self._catalog = catalog
        self._newest = newest

    @property
    def is_told(self) -> bool:
        """Whether this process hears of all commits by itself."""
        return self._newest() is not None

    @property
    def is_current(self) -> bool:
        """Whether the copy is known, without asking, to have all that anybody has been told of."""
        return self._has_newest() and not self._catalog.is_behind

    def _has_newest(self) -> bool:
        newest = self._newest()
        return newest is not None and newest <= self._cache.durable.seqno

    async def refresh(self) -> TxnsFrontier:
        """See `CacheHead.refresh`; the catalog of this process has followed when it returns."""
        frontier = self.known() if self._has_newest() else await super().refresh()
        await self._catalog.catch_up()
        return frontier
