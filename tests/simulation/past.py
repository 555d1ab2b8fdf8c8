"""Readers of the past: what is within the retention is read as it was, whatever was compacted and removed since."""

from __future__ import annotations

import asyncio

from storage.environment.environment import Environment
from storage.errors import AsOfNotReadable, StorageError
from storage.ids import CATALOG_SHARD, ShardId
from storage.timestamps.csn import Csn
from tests.simulation.workload import read_table
from tests.simulation.world import Server, World


async def look_back(world: World, server: Server) -> None:
    """Read again what somebody has read before, for as long as the process lives."""
    randomness = world.randomness
    while True:
        await asyncio.sleep(randomness.random() * 4)
        try:
            if randomness.random() < 0.7:
                await _table(world, server)
            else:
                await _catalog(world, server)
        except StorageError as error:
            world.loop.trace.add(f"the past could not be read: {error}")


async def _table(world: World, server: Server) -> None:
    names = (*World.LISTS, *World.BANKS)
    seen = [(table, csn) for table, csn in world.snapshots if table in names]
    if not seen:
        return
    table, csn = seen[world.randomness.randrange(len(seen))]
    env, shard = server.env, world.tables[table]
    await env.oracle.read_ts("user")
    try:
        async with await env.leases.hold((shard,), csn):
            # It finds by itself whether the rows are those that were read before.
            await read_table(world, server, table, csn)
    except AsOfNotReadable as error:
        await _excused(world, env, shard, csn, f"{table} at {csn}: {error}")


async def _catalog(world: World, server: Server) -> None:
    seen = list(world.catalogs)
    if not seen:
        return
    csn, env = seen[world.randomness.randrange(len(seen))], server.env
    await env.oracle.read_ts("catalog")
    try:
        async with await env.leases.hold((CATALOG_SHARD,), csn):
            catalog = await env.catalog.snapshot_at(csn)
    except AsOfNotReadable as error:
        await _excused(world, env, CATALOG_SHARD, csn, f"the catalog at {csn}: {error}")
        return
    if tuple(sorted(repr(record) for record in catalog.all())) != world.catalogs[csn]:
        world.problem(f"the catalog at {csn} is not what it was")


async def _excused(world: World, env: Environment, shard: ShardId, csn: Csn, what: str) -> None:
    """A problem unless the retention has passed the CSN, or the process has lost its lease."""
    await env.oracle.read_ts("user")
    await env.leases.renew()
    if csn >= env.retention.earliest(shard):
        world.problem(f"what is to be kept is gone: {what}")
