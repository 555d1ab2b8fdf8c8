"""How long the past of each shard can be read: its retention, in milliseconds of the CSNs' own time.

Counted back from the newest CSN and not from a clock: the past of an environment that nobody writes to stays, and a
clock that is wrong takes nothing away that CSNs have not passed.

What a table, its schema or its database says of it (`retain_ms` of their records) is read from the catalog: the nearest
counts. A table that is dropped keeps what it had then. The catalog's own shard is kept for as long as any of them, for
nothing of the past can be read without the definitions of then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from storage.catalog.model import CatalogSnapshot, Database, Relation, Schema
from storage.errors import AsOfNotReadable
from storage.ids import CATALOG_SHARD, ShardId
from storage.timestamps.csn import Csn, csn_from_ms, csn_ms
from storage.transactions.txns_cache import TxnsCache

DEFAULT_RETAIN_MS = 3_600_000
"""What is kept where nobody has said: an hour."""


class Definitions(Protocol):
    """The catalog, as far as it is needed here (`storage.catalog.store.CatalogStore`)."""

    def current(self) -> CatalogSnapshot:
        """The newest one that this process knows."""
        ...

    async def snapshot_at(self, ts: Csn) -> CatalogSnapshot:
        """That of a moment. Raises AsOfNotReadable."""
        ...


class Retention:
    """What an environment keeps. `default_ms` holds where no definition says more; 0: no more than running readers
    need."""

    def __init__(self, cache: TxnsCache, default_ms: int = 0) -> None:
        self._cache = cache
        self.default_ms = default_ms
        self.definitions: Definitions | None = None
        """The catalog, once it is there."""
        self._known: tuple[CatalogSnapshot, Mapping[ShardId, int]] | None = None
        self._dropped: dict[ShardId, int | None] = {}

    def of(self, shard: ShardId) -> int:
        """The retention of a shard in milliseconds. That of a dropped one is known after `learn`."""
        said = self._said()
        if shard == CATALOG_SHARD:
            return max([self.default_ms, *said.values(), *(ms for ms in self._dropped.values() if ms is not None)])
        own = said.get(shard)
        if own is None:
            own = self._dropped.get(shard)
        return self.default_ms if own is None else own

    def earliest(self, shard: ShardId) -> Csn:
        """The CSN from which on the past of `shard` is kept."""
        return Csn(max(csn_from_ms(max(csn_ms(self._cache.upper) - self.of(shard), 0)), 0))

    def keeps(self, shard: ShardId) -> bool:
        """Whether `shard` has a past at all."""
        return self.of(shard) > 0

    async def learn(self) -> None:
        """Find out what was said of the shards that have been dropped since this was last asked, and are kept still."""
        forgotten = self._cache.state.forgotten
        if self.definitions is None or forgotten.keys() == self._dropped.keys():
            return
        for shard in [shard for shard in self._dropped if shard not in forgotten]:
            del self._dropped[shard]
        # Those that were dropped at one moment were said of in one catalog.
        looked_at: int | None = None
        said: Mapping[ShardId, int] = {}
        for shard, csn in sorted(forgotten.items(), key=lambda item: item[1]):
            if shard not in self._dropped:
                if csn != looked_at:
                    looked_at = csn
                    try:
                        said = said_by(await self.definitions.snapshot_at(Csn(csn - 1)))
                    except AsOfNotReadable:
                        said = {}
                self._dropped[shard] = said.get(shard)

    def _said(self) -> Mapping[ShardId, int]:
        if self.definitions is None:
            return {}
        whole = self.definitions.current()
        if self._known is None or self._known[0] is not whole:
            self._known = whole, said_by(whole)
        return self._known[1]


def said_by(whole: CatalogSnapshot) -> Mapping[ShardId, int]:
    """The retention, in milliseconds, of each shard of which the definitions say one."""
    within: dict[int, int | None] = {}
    for record in whole.all():
        if isinstance(record, (Schema, Database)) and record.retain_ms is not None:
            within[record.oid] = record.retain_ms
    found: dict[ShardId, int] = {}
    for record in whole.all():
        if not isinstance(record, Relation) or record.shard is None:
            continue
        said = record.retain_ms
        if said is None and within:
            schema = whole.get(record.schema)
            said = within.get(record.schema)
            if said is None and isinstance(schema, Schema):
                said = within.get(schema.database)
        if said is not None:
            found[record.shard] = said
    return found
