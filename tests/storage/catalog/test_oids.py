"""Oids: no two processes ever give out the same."""

from __future__ import annotations

import asyncio

import pytest

from storage.catalog.model import FIRST_USER_OID
from storage.catalog.oids import BLOCK_OIDS, MIN_OIDS, OID_KEY, OidBlocks
from storage.doubles.clock import SeededRandomness
from storage.doubles.memory_consensus import MemoryConsensus
from storage.doubles.unreliable import FaultRates, Faults, UnreliableConsensus
from storage.errors import CorruptState
from storage.stores.consensus import SeqNo, VersionedData
from storage.stores.counting import CountingConsensus
from tests.storage.store_servers import Impatient


async def test_processes_take_different_oids() -> None:
    consensus = MemoryConsensus()
    processes = [OidBlocks(consensus, Impatient()) for _ in range(3)]
    await asyncio.gather(*(process.provide(0) for process in processes))
    taken = [process.take() for process in processes for _ in range(MIN_OIDS)]
    assert len(set(taken)) == len(taken)
    assert min(taken) == FIRST_USER_OID


async def test_a_block_costs_one_write_and_starts_above_the_catalog() -> None:
    consensus = CountingConsensus(MemoryConsensus())
    blocks = OidBlocks(consensus, Impatient())
    for _ in range(BLOCK_OIDS):
        await blocks.provide(50_000)
        blocks.take()
    assert consensus.counts["compare_and_set"] == 2
    assert blocks.take() == 50_000 + 2 * BLOCK_OIDS


async def test_nothing_is_taken_without_a_reservation() -> None:
    with pytest.raises(ValueError, match="reserved"):
        OidBlocks(MemoryConsensus(), Impatient()).take()


@pytest.mark.parametrize("seed", range(10))
async def test_a_failing_store_never_yields_an_oid_twice(seed: int) -> None:
    clock = Impatient()
    rates = FaultRates(fail_before=0.1, unknown_before=0.1, unknown_after=0.1)
    faults = Faults(rates=rates, randomness=SeededRandomness(seed), clock=clock)
    consensus = UnreliableConsensus(MemoryConsensus(), faults)
    taken = []
    for _ in range(40):
        blocks = OidBlocks(consensus, clock)
        await blocks.provide(0)
        taken.append(blocks.take())
    assert len(set(taken)) == 40


async def test_a_damaged_reservation_is_noticed() -> None:
    consensus = MemoryConsensus()
    await consensus.compare_and_set(OID_KEY, None, VersionedData(seqno=SeqNo(1), data=b"[]"))
    with pytest.raises(CorruptState):
        await OidBlocks(consensus, Impatient()).provide(0)
