"""A new environment's first commit: the catalog's shard, with the objects that every environment has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from storage.catalog.model import bootstrap_updates
from storage.catalog.store import CATALOG_SCHEMA
from storage.ids import CATALOG_SHARD
from storage.shards.shard_state import encode_schema
from storage.timestamps.csn import Csn, csn_from_ms

if TYPE_CHECKING:
    from storage.environment.environment import Environment


async def bootstrap(env: Environment) -> None:
    """Register the catalog with its first contents, unless another process just did."""
    txn = env.begin()
    txn.create_shard(CATALOG_SHARD, CATALOG_SCHEMA)
    ts = csn_from_ms(env.clock.now_ms())
    sealed = await txn.seal()
    rows = await env.catalog.writes_for(bootstrap_updates(), Csn(0))
    rows = msgspec.structs.replace(rows, schema=encode_schema(CATALOG_SCHEMA), create=True)
    sealed = msgspec.structs.replace(sealed, shards=())
    try:
        await env.txns.commit(sealed, ts=Csn(max(ts, env.cache.upper)), catalog=rows)
    except ValueError:
        await env.cache.durable.refresh()
        if CATALOG_SHARD not in env.cache.state.registered:
            raise
