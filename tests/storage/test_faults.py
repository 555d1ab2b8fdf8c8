"""A full store and clocks that jump: nothing acknowledged is lost, and errors say what to do."""

from __future__ import annotations

import pytest

from storage.blob_memory import MemoryBlob
from storage.clock import ManualClock, SeededRandomness
from storage.consensus import SeqNo, VersionedData
from storage.consensus_memory import MemoryConsensus
from storage.csn import Csn
from storage.environment import Environment
from storage.errors import Determinate, StoreFull
from storage.txns import Committed
from tests.storage.environments import Stores, commit, create, insert, read, rows


class FillingConsensus(MemoryConsensus):
    """A store that is full while told so."""

    full = False

    async def compare_and_set(self, key: str, expected_seqno: SeqNo | None, new: VersionedData) -> bool:
        if self.full:
            raise StoreFull("no space left on device; free space and try again")
        return await super().compare_and_set(key, expected_seqno, new)


class FillingBlob(MemoryBlob):
    """A store that is full while told so."""

    full = False

    async def put_if_absent(self, key: str, data: bytes) -> bool:
        if self.full:
            raise StoreFull("no space left on device; free space and try again")
        return await super().put_if_absent(key, data)


async def open_on(consensus: MemoryConsensus, blob: MemoryBlob, clock: ManualClock) -> Environment:
    return await Environment.open(
        blob=blob,
        consensus=consensus,
        clock=clock,
        random=SeededRandomness(1),
        process="test",
        background=False,
        validate=True,
    )


async def test_a_full_consensus_store_refuses_and_recovers() -> None:
    consensus, blob, clock = FillingConsensus(), MemoryBlob(), ManualClock()
    env = await open_on(consensus, blob, clock)
    shard = await create(env, (1, "a"))
    consensus.full = True
    txn = env.begin()
    txn.write(shard, rows((2, "b")))
    ts = await env.oracle.write_ts("user")
    with pytest.raises(StoreFull, match="free space"):
        await env.commit(txn, ts=ts)
    env.oracle.abandon_write("user", ts)
    assert await read(env, shard) == {0: (1, "a")}
    consensus.full = False
    await commit(env, txn)
    assert await read(env, shard) == {0: (1, "a"), 1: (2, "b")}


async def test_a_full_blob_store_aborts_the_transaction_that_met_it() -> None:
    consensus, blob, clock = MemoryConsensus(), FillingBlob(), ManualClock()
    env = await open_on(consensus, blob, clock)
    shard = await create(env, (1, "a"))
    blob.full = True
    txn = env.begin()
    txn.write(shard, rows(*[(n, "x" * 100) for n in range(2000)]))
    ts = await env.oracle.write_ts("user")
    with pytest.raises(Determinate, match="no space left"):
        await env.commit(txn, ts=ts)
    blob.full = False
    env.oracle.abandon_write("user", ts)
    assert not env.cache.state.staged
    again = await env.commit(txn, ts=Csn(env.cache.upper + 1))
    assert isinstance(again, Committed)
    assert len(await read(env, shard, again.ts)) == 2001


@pytest.mark.parametrize("jump_ms", [-3_600_000, 3_600_000])
async def test_a_wall_clock_that_jumps_changes_no_order_and_loses_no_process(jump_ms: int) -> None:
    clock = ManualClock()
    stores = Stores(clock=clock)
    other, env = await stores.open("other"), await stores.open("one")
    shard = await create(env, (0, "a"))
    before = await env.oracle.read_ts("user")
    txn = other.begin()
    await other.cache.durable.refresh()
    txn.write(shard, rows(*[(n, "x" * 100) for n in range(1, 1000)]))
    await txn.spill(force=True)
    clock.jump(jump_ms)
    first = await insert(env, shard, (1000, "b"))
    assert first.ts > before
    second = await insert(env, shard, (1001, "c"))
    assert second.ts > first.ts
    # An hour of wall-clock time is no reason to bury a process that was seen a moment ago.
    await env.maintenance.run({shard})
    await env.maintenance.collect_orphans()
    assert other.process in env.cache.state.leases
    assert isinstance(await other.commit(txn, ts=Csn(second.ts + 1)), Committed)
    assert len(await read(other, shard, Csn(second.ts + 1))) == 1002
    await env.close()
    again = await stores.open("again")
    third = await insert(again, shard, (1002, "d"))
    assert third.ts > second.ts + 1
    assert len(await read(again, shard)) == 1003
