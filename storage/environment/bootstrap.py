"""A new environment's first commit: the catalog's shard, with the objects that every environment has."""

from __future__ import annotations

import msgspec

from storage.catalog.standard_objects import bootstrap_updates
from storage.catalog.store import CATALOG_SCHEMA, CatalogStore
from storage.clock import Clock
from storage.ids import CATALOG_SHARD
from storage.shards.shard_state import encode_schema
from storage.timestamps.csn import Csn, csn_from_ms
from storage.transactions.txn import SealedTxn
from storage.transactions.txns_shard import TxnsShard


async def bootstrap(txns_shard: TxnsShard, catalog: CatalogStore, clock: Clock) -> None:
    """Register the catalog with its first contents, unless another process just did."""
    ts = csn_from_ms(clock.now_ms())
    rows = await catalog.writes_for(bootstrap_updates(), Csn(0))
    rows = msgspec.structs.replace(rows, schema=encode_schema(CATALOG_SCHEMA), create=True)
    try:
        await txns_shard.commit_at(SealedTxn(shards=()), ts=Csn(max(ts, txns_shard.cache.upper)), catalog=rows)
    except ValueError:
        await txns_shard.cache.durable.refresh()
        if CATALOG_SHARD not in txns_shard.cache.state.registered:
            raise
