"""Readers whose snapshot grows old: their hold is moved from the lease into what they have read.

What a reader has read at its CSN it finds there again for as long as its hold lasts, whatever is compacted and removed
meanwhile. That its process stood still, or lost its lease, is the only excuse.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from storage.errors import AsOfNotReadable, StorageError
from storage.ids import ShardId
from storage.membership.leases import ReadHold
from tests.simulation.workload import read_table
from tests.simulation.world import Server, World

LONGEST_S = 60.0


class _Used:
    """What one reader reads."""

    def __init__(self, shards: Iterable[ShardId]) -> None:
        self._shards = frozenset(shards)

    def shards_used(self) -> frozenset[ShardId]:
        """See `HoldOwner`."""
        return self._shards


async def grow_old(world: World, server: Server) -> None:
    """Read some tables at one CSN again and again, for as long as the process lives."""
    env, randomness = server.env, world.randomness
    names = (*World.LISTS, *World.BANKS)
    while True:
        tables = [name for name in names if randomness.random() < 0.5]
        try:
            as_of = await env.oracle.read_ts("user")
            owner = _Used(world.tables[name] for name in tables)
            async with await env.leases.hold((), as_of, owner) as hold:
                ends = world.loop.time() + randomness.random() * LONGEST_S
                while world.loop.time() < ends:
                    for table in tables:
                        await _read_again(world, server, hold, table)
                    await asyncio.sleep(randomness.random() * 5)
        except StorageError as error:
            world.loop.trace.add(f"an old reader begins again: {error}")
        await asyncio.sleep(randomness.random() * 5)


async def _read_again(world: World, server: Server, hold: ReadHold, table: str) -> None:
    try:
        await read_table(world, server, table, hold.at)
    except AsOfNotReadable as error:
        # Perhaps it learns only now that its lease has run out.
        await server.env.leases.renew()
        if not hold.expired:
            world.problem(f"{table} is read no more at {hold.at}, which is held: {error}")
        raise
