"""The in-process oracle: durable windows, restarts, fencing, faults."""

from __future__ import annotations

import asyncio

import pytest

from storage.doubles.clock import ManualClock, SeededRandomness
from storage.doubles.memory_consensus import MemoryConsensus
from storage.doubles.unreliable import FaultRates, Faults, UnreliableConsensus
from storage.errors import Determinate, EnvironmentFenced, Indeterminate
from storage.stores.consensus import SeqNo
from storage.stores.counting import CountingConsensus
from storage.timestamps.csn import Csn, csn_from_ms
from storage.timestamps.in_process import WINDOW_KEY, WINDOW_MS, InProcessOracle
from storage.timestamps.oracle import acquired
from tests.storage.store_servers import Impatient


async def open_oracle(
    consensus: object, clock: ManualClock | None = None, seed: int = 1, floor: Csn | None = None
) -> InProcessOracle:
    return await InProcessOracle.open(
        consensus,  # type: ignore[arg-type]
        clock or ManualClock(),
        SeededRandomness(seed),
        read_floor=None if floor is None else {"user": floor, "catalog": floor},
    )


async def test_timestamps_cost_no_io() -> None:
    consensus = CountingConsensus(MemoryConsensus())
    oracle = await open_oracle(consensus)
    before = consensus.counts.copy()
    for _ in range(1000):
        ts = await oracle.write_ts("user")
        await oracle.apply_write("user", ts)
        assert await oracle.read_ts("user") == ts
    assert (consensus.counts - before).total == 0


async def test_the_window_is_extended_in_the_background() -> None:
    clock = ManualClock()
    consensus = CountingConsensus(MemoryConsensus())
    oracle = await open_oracle(consensus, clock)
    before = consensus.counts.copy()
    for _ in range(100):
        clock.advance(WINDOW_MS // 5)
        oracle.abandon_write("user", await oracle.write_ts("user"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    writes = (consensus.counts - before)["compare_and_set"]
    assert 25 <= writes <= 51


async def test_a_used_up_window_is_waited_for() -> None:
    clock = ManualClock()
    consensus = CountingConsensus(MemoryConsensus())
    oracle = await open_oracle(consensus, clock)
    clock.jump(3_600_000)
    before = consensus.counts.copy()
    first, second = await asyncio.gather(oracle.write_ts("user"), oracle.write_ts("catalog"))
    assert first < second
    assert (consensus.counts - before)["compare_and_set"] == 1
    assert oracle.clock_jumps == 1


async def test_a_restart_never_reissues() -> None:
    clock = ManualClock()
    consensus = MemoryConsensus()
    highest = Csn(0)
    for incarnation in range(20):
        oracle = await open_oracle(consensus, clock, incarnation)
        assert await oracle.read_ts("user") >= highest
        ts = await oracle.write_ts("user")
        assert ts > highest
        await oracle.apply_write("user", ts)
        highest = await oracle.write_ts("user")
        if incarnation % 3 == 0:
            await oracle.close()
        if incarnation % 4 == 0:
            clock.jump(-1_000_000)
        clock.advance(incarnation)
    assert len(await consensus.scan(WINDOW_KEY, SeqNo(0))) <= 64


async def test_a_clean_close_gives_the_window_back() -> None:
    clock = ManualClock()
    consensus = MemoryConsensus()
    oracle = await open_oracle(consensus, clock)
    ts = await oracle.write_ts("user")
    await oracle.close()
    clock.advance(1)
    again = await open_oracle(consensus, clock, 2, floor=ts)
    assert await again.read_ts("user") == ts
    assert await again.write_ts("user") == csn_from_ms(clock.now_ms())


async def test_a_deposed_process_learns_it_at_its_next_write() -> None:
    clock = ManualClock()
    consensus = MemoryConsensus()
    old = await open_oracle(consensus, clock, 1)
    new = await open_oracle(consensus, clock, 2)
    clock.jump(3_600_000)
    with pytest.raises(EnvironmentFenced):
        await old.write_ts("user")
    assert await new.write_ts("user") > 0
    await old.close()
    assert await new.write_ts("user") > 0


async def test_a_fence_found_in_the_background_stops_reads_too() -> None:
    clock = ManualClock()
    consensus = MemoryConsensus()
    old = await open_oracle(consensus, clock, 1)
    await open_oracle(consensus, clock, 2)
    clock.advance(WINDOW_MS * 3 // 4)
    await old.write_ts("user")
    for _ in range(5):
        await asyncio.sleep(0)
    with pytest.raises(EnvironmentFenced):
        await old.read_ts("user")


async def test_a_failed_extension_does_not_block_later_writers() -> None:
    clock = Impatient()
    faults = Faults(rates=FaultRates(), randomness=SeededRandomness(1), clock=clock)
    oracle = await open_oracle(UnreliableConsensus(MemoryConsensus(), faults), clock)
    faults.rates = FaultRates(fail_before=1.0)
    clock.jump(3_600_000)
    with pytest.raises(Determinate):
        await oracle.write_ts("user")
    faults.rates = FaultRates()
    ts = await oracle.write_ts("user")
    await oracle.apply_write("user", ts)
    assert await oracle.read_ts("user") == ts


@pytest.mark.parametrize("seed", range(20))
async def test_windows_survive_an_unreliable_store(seed: int) -> None:
    clock = Impatient()
    rates = FaultRates(fail_before=0.15, unknown_before=0.15, unknown_after=0.15)
    faults = Faults(rates=rates, randomness=SeededRandomness(seed), clock=clock)
    consensus = UnreliableConsensus(MemoryConsensus(), faults)
    highest, issued = Csn(0), 0
    for incarnation in range(10):
        try:
            oracle = await open_oracle(consensus, clock, incarnation)
        except (Determinate, Indeterminate):
            continue
        for _ in range(10):
            clock.advance(WINDOW_MS // 2)
            try:
                ts = await oracle.write_ts("user")
            except (Determinate, Indeterminate):
                continue
            assert ts > highest
            highest = ts
            issued += 1
    assert issued >= 50


async def test_the_catalog_stands_still_between_definitions() -> None:
    oracle = await open_oracle(MemoryConsensus())
    ts = await oracle.write_ts("catalog")
    await oracle.apply_write("catalog", ts)
    for _ in range(3):
        data_ts = await oracle.write_ts("user")
        assert data_ts > ts
        await oracle.apply_write("user", data_ts)
    assert await oracle.read_ts("catalog") == ts


async def test_one_commit_may_publish_on_both_timelines() -> None:
    oracle = await open_oracle(MemoryConsensus())
    ts = await oracle.write_ts("user")
    await asyncio.gather(oracle.apply_write("user", ts), oracle.apply_write("catalog", ts))
    assert await oracle.read_ts("user") == await oracle.read_ts("catalog") == ts


async def test_apply_write_waits_for_lower_commits_unless_told_not_to() -> None:
    oracle = await open_oracle(MemoryConsensus())
    low, high = await oracle.write_ts("user"), await oracle.write_ts("user")
    floor = await oracle.read_ts("user")
    await oracle.apply_write("user", high, wait=False)
    waiting = asyncio.create_task(oracle.apply_write("user", high))
    await asyncio.sleep(0)
    assert not waiting.done()
    assert await oracle.read_ts("user") == floor
    await oracle.apply_write("user", low)
    await waiting
    assert await oracle.read_ts("user") == high


async def test_acquired_abandons_what_was_not_applied() -> None:
    oracle = await open_oracle(MemoryConsensus())
    with pytest.raises(RuntimeError, match="commit failed"):
        async with acquired(oracle, "user"):
            raise RuntimeError("commit failed")
    async with acquired(oracle, "user") as ts:
        await oracle.apply_write("user", ts)
    assert await oracle.read_ts("user") == ts
