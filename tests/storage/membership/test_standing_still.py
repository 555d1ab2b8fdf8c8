"""A process that had an environment to itself and stands still: who joins goes on without it, and it does no harm."""

from __future__ import annotations

import asyncio

import pytest

from storage.doubles.clock import SeededRandomness
from storage.doubles.memory_blob import MemoryBlob
from storage.doubles.memory_consensus import MemoryConsensus
from storage.environment.environment import Environment
from storage.environment.opening import open_on_stores
from storage.errors import EnvironmentFenced
from storage.membership.leases import SAFE_SHARE
from storage.membership.watch import LEASE_MS
from tests.simulation.loop import SimulatedClock, SimulatedLoop, simulate
from tests.storage.environments import create, insert, read


class NobodyIsDead:
    """`Liveness` that sees a process which stands still as alive, as file locks do."""

    def announce(self, process: str) -> None:
        """Nobody to tell."""

    def is_dead(self, process: str) -> bool:
        """Nobody has died."""
        return False


async def opened(loop: SimulatedLoop, blob: MemoryBlob, consensus: MemoryConsensus, number: int) -> Environment:
    """One without background work stands still."""
    return await open_on_stores(
        blob=blob,
        consensus=consensus,
        clock=SimulatedClock(loop),
        random=SeededRandomness(number),
        process=f"p{number}",
        liveness=NobodyIsDead(),
        background=number > 1,
        validate=True,
    )


def test_who_joins_goes_on_and_the_one_that_wakes_up_reads_nothing_old() -> None:
    async def main(loop: SimulatedLoop) -> None:
        blob, consensus = MemoryBlob(), MemoryConsensus()
        one = await opened(loop, blob, consensus, 1)
        shard = await create(one, (1, "a"))
        assert not one.oracle.asks_store
        began = loop.time()
        two = await opened(loop, blob, consensus, 2)
        assert LEASE_MS / 1000 <= loop.time() - began < 1.2 * LEASE_MS / 1000
        await insert(two, shard, (2, "b"))
        assert len(await read(two, shard)) == 2
        for timeline in ("user", "catalog"):
            with pytest.raises(EnvironmentFenced):
                await one.oracle.read_ts(timeline)
        with pytest.raises(EnvironmentFenced):
            await insert(one, shard, (3, "c"))
        assert len(await read(two, shard)) == 2
        await two.close()

    simulate(1, main)


def test_one_that_wakes_up_in_time_keeps_what_it_has() -> None:
    async def main(loop: SimulatedLoop) -> None:
        blob, consensus = MemoryBlob(), MemoryConsensus()
        one = await opened(loop, blob, consensus, 1)
        shard = await create(one, (1, "a"))
        joining = asyncio.ensure_future(opened(loop, blob, consensus, 2))
        # Its lease is still its own when it renews it, so whoever waits begins to wait anew.
        for _ in range(4):
            await asyncio.sleep(SAFE_SHARE * LEASE_MS / 1000 + 1)
            assert not joining.done()
            assert len(await read(one, shard)) == 1
        await one.cache.durable.refresh()
        await one.peers.react()
        two = await joining
        await insert(two, shard, (2, "b"))
        assert len(await read(one, shard)) == 2
        await two.close()

    simulate(2, main)
