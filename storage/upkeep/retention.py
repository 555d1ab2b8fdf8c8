"""How long the past of each shard can be read: its retention, in milliseconds of the CSNs' own time.

Counted back from the newest CSN and not from a clock: the past of an environment that nobody writes to stays, and a
clock that is wrong takes nothing away that CSNs have not passed.
"""

from __future__ import annotations

from collections.abc import Callable

from storage.ids import ShardId
from storage.timestamps.csn import Csn, csn_from_ms, csn_ms
from storage.transactions.txns_cache import TxnsCache

DEFAULT_RETAIN_MS = 3_600_000
"""What is kept where nobody has said: an hour."""


class Retention:
    """What an environment keeps. `default_ms` holds where `of` says nothing; 0: no more than running readers need."""

    def __init__(self, cache: TxnsCache, default_ms: int = 0) -> None:
        self._cache = cache
        self.default_ms = default_ms
        self.of: Callable[[ShardId], int | None] = lambda shard: None
        """The retention of a shard in milliseconds; None: the default."""

    def earliest(self, shard: ShardId) -> Csn:
        """The CSN from which on the past of `shard` is kept."""
        own = self.of(shard)
        retain_ms = self.default_ms if own is None else own
        return Csn(max(csn_from_ms(max(csn_ms(self._cache.upper) - retain_ms, 0)), 0))

    def keeps(self, shard: ShardId) -> bool:
        """Whether `shard` has a past at all."""
        own = self.of(shard)
        return (self.default_ms if own is None else own) > 0
